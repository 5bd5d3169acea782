"""Verification, audit page, export and dependencies: reads everything, changes nothing."""
