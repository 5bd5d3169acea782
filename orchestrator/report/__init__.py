"""Builds reports from the record alone: plan, ledger, blobs."""
