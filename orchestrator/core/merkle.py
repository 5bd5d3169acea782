"""The Merkle tree of RFC 6962 (section 2.1) over the raw lines of a ledger, with both kinds of proof.

Leaf hash: SHA-256(0x00 || line without its newline). Node hash: SHA-256(0x01 || left || right). Proof
verification follows RFC 9162 sections 2.1.3.2 and 2.1.4.2. Pure; hashes are 32 raw bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

MAX_PROOF_HASHES = 64


def leaf_hash(line: bytes) -> bytes:
    """Returns the hash of a leaf."""
    return hashlib.sha256(b"\x00" + line).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Returns the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class MerkleTree:
    """A growing tree. Keeps the hashes of all whole subtrees, so proofs cost O(log n) lookups."""

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        # _levels[k][i] is the hash of the whole subtree over leaves [i * 2^k, (i + 1) * 2^k).
        self._levels: list[list[bytes]] = [[]]
        for leaf in leaves:
            self.append(leaf)

    @property
    def size(self) -> int:
        """Number of leaves."""
        return len(self._levels[0])

    def leaf(self, index: int) -> bytes:
        """Returns the hash of a leaf."""
        return self._levels[0][index]

    def append(self, leaf: bytes) -> None:
        """Adds a leaf hash."""
        self._levels[0].append(leaf)
        level = 0
        while len(self._levels[level]) % 2 == 0:
            if level + 1 == len(self._levels):
                self._levels.append([])
            left, right = self._levels[level][-2:]
            self._levels[level + 1].append(node_hash(left, right))
            level += 1

    def root(self, size: int | None = None) -> bytes:
        """Returns the root over the first `size` leaves (default: all)."""
        return self._range(0, self._checked(size))

    def inclusion(self, index: int, size: int | None = None) -> tuple[bytes, ...]:
        """Returns the audit path of a leaf in the tree of the first `size` leaves, nearest first."""
        end = self._checked(size)
        if not 0 <= index < end:
            raise ValueError(f"leaf {index} is not in a tree of {end}")
        start, path = 0, []
        while end - start > 1:
            middle = start + _split(end - start)
            if index < middle:
                path.append(self._range(middle, end))
                end = middle
            else:
                path.append(self._range(start, middle))
                start = middle
        return tuple(reversed(path))

    def consistency(self, old_size: int, size: int | None = None) -> tuple[bytes, ...]:
        """Returns the proof that the first `old_size` leaves are a prefix of the first `size`."""
        end = self._checked(size)
        if not 0 < old_size <= end:
            raise ValueError(f"a tree of {old_size} is no prefix of a tree of {end}")
        start, path, whole = 0, [], True
        while old_size != end:
            middle = start + _split(end - start)
            if old_size <= middle:
                path.append(self._range(middle, end))
                end = middle
            else:
                path.append(self._range(start, middle))
                start, whole = middle, False
        if not whole:
            path.append(self._range(start, end))
        return tuple(reversed(path))

    def _checked(self, size: int | None) -> int:
        if size is None:
            return self.size
        if not 0 <= size <= self.size:
            raise ValueError(f"the tree has {self.size} leaves, not {size}")
        return size

    def _range(self, start: int, end: int) -> bytes:
        """Hash of the leaves [start, end), where start is a multiple of the split size."""
        count = end - start
        if count == 0:
            return hashlib.sha256(b"").digest()
        if count & (count - 1) == 0:
            level = count.bit_length() - 1
            return self._levels[level][start >> level]
        middle = start + _split(count)
        return node_hash(self._range(start, middle), self._range(middle, end))


def _split(count: int) -> int:
    """Largest power of two smaller than the count."""
    return 1 << ((count - 1).bit_length() - 1)


def inclusion_holds(
    *, leaf: bytes, index: int, size: int, proof: tuple[bytes, ...], root: bytes
) -> bool:
    """Tells whether an audit path leads from a leaf to a root (RFC 9162 section 2.1.3.2)."""
    if not 0 <= index < size or not _plausible(proof):
        return False
    first, second, found = index, size - 1, leaf
    for step in proof:
        if second == 0:
            return False
        if first & 1 or first == second:
            found = node_hash(step, found)
            while not (first & 1 or first == 0):
                first, second = first >> 1, second >> 1
        else:
            found = node_hash(found, step)
        first, second = first >> 1, second >> 1
    return second == 0 and found == root


def consistency_holds(
    *, old_size: int, size: int, proof: tuple[bytes, ...], old_root: bytes, root: bytes
) -> bool:
    """Tells whether a proof shows the old tree to be a prefix of the new (RFC 9162 section 2.1.4.2)."""
    if not 0 < old_size <= size or not _plausible(proof):
        return False
    if old_size == size:
        return not proof and old_root == root
    steps = (old_root, *proof) if old_size & (old_size - 1) == 0 else proof
    if not steps:
        return False
    first, second = old_size - 1, size - 1
    while first & 1:
        first, second = first >> 1, second >> 1
    old_found = found = steps[0]
    for step in steps[1:]:
        if second == 0:
            return False
        if first & 1 or first == second:
            old_found, found = node_hash(step, old_found), node_hash(step, found)
            while not (first & 1 or first == 0):
                first, second = first >> 1, second >> 1
        else:
            found = node_hash(found, step)
        first, second = first >> 1, second >> 1
    return second == 0 and old_found == old_root and found == root


def _plausible(proof: tuple[bytes, ...]) -> bool:
    return len(proof) <= MAX_PROOF_HASHES and all(len(step) == 32 for step in proof)
