"""One small module per test runner: its command, and how its report becomes test statuses. Pure."""
