"""The store behind `raw_fts`: capture of raw events into SQLite, and full-text search over them."""
