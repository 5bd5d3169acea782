"""Graders: suite commands, reports from untrusted containers, patch rules, verdicts. Pure."""
