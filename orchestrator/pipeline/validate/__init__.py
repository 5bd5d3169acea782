"""Is a task one that measures memory? V1 to V12: each a named check with evidence, offline."""
