"""The record of a run: hash-chained JSONL lines and content-addressed blobs. The sole authority."""
