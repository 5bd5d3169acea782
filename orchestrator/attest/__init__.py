"""Statements about a run, their signatures, and sigstore bundles of them. Reads no file of a run itself."""
