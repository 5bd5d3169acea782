"""The trust root as a TUF repository: made and signed here, read and checked here; the only owner of tuf."""
