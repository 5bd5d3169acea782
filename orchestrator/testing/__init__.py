"""The public kit: contract tests that a third party's adapter subclasses. Needs no fixtures, and an engine for programs alone."""
