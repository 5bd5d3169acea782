"""The gate: the only place that issues a permit, after every check has passed."""
