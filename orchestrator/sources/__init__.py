"""Fixtures and pinned repositories: from files and archives to validated tasks and checkouts."""
