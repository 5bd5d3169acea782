"""The documents. Each one is frozen, closed, strict and has a digest over its RFC 8785 bytes.

Nothing here reads the disk, the clock or the network.
"""
