"""Tasks in the making: scaffolds, and importers of other benchmarks' tasks."""
