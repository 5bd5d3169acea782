"""The public kit: contract tests that a third party's adapter subclasses. Needs no engine and no fixtures."""
