"""Lets `python -m orchestrator` stand in for the `memtrial` command."""

from orchestrator.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
