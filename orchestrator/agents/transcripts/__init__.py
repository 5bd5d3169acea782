"""Readers of agents' own event formats into the one common form of transcripts."""
