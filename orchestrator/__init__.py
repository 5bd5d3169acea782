"""memtrial: controlled trials of memory for coding agents. Holds the version and nothing else."""

__version__ = "0.1.0"
