"""Promise: a valid proof is accepted, and no other, for every size and place."""

from __future__ import annotations

import hashlib
import random

import pytest

from orchestrator.core.merkle import (
    MerkleTree,
    consistency_holds,
    inclusion_holds,
    leaf_hash,
    node_hash,
)

# Leaves and roots that the reference implementation of RFC 6962 publishes with its tests.
LEAVES = (
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    bytes(range(96, 112)).hex(),
)
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
SIZE = 64


@pytest.fixture(scope="module")
def tree() -> MerkleTree:
    return MerkleTree(leaf_hash(b"record %d" % i) for i in range(SIZE))


def recursive_root(leaves: list[bytes]) -> bytes:
    """The definition of RFC 6962 section 2.1, written down once more."""
    if len(leaves) <= 1:
        return leaves[0] if leaves else hashlib.sha256(b"").digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return node_hash(recursive_root(leaves[:split]), recursive_root(leaves[split:]))


def mutants(proof: tuple[bytes, ...], rng: random.Random) -> list[tuple[bytes, ...]]:
    """Every way to spoil a proof: a bit, a hash less, more, doubled, swapped."""
    spoiled = [(*proof, rng.randbytes(32)), (rng.randbytes(32), *proof)]
    if proof:
        place = rng.randrange(len(proof))
        step = bytearray(proof[place])
        step[rng.randrange(32)] ^= 1 << rng.randrange(8)
        spoiled += [
            (*proof[:place], bytes(step), *proof[place + 1 :]),
            proof[:-1],
            proof[1:],
            (*proof, proof[-1]),
            (*proof[:place], proof[place][:31], *proof[place + 1 :]),
        ]
        if len(proof) > 1:
            spoiled.append(proof[::-1])
    return [item for item in spoiled if item != proof]


def test_the_published_roots_come_out():
    tree = MerkleTree()
    for leaf, root in zip(LEAVES, ROOTS, strict=True):
        tree.append(leaf_hash(bytes.fromhex(leaf)))
        assert tree.root().hex() == root


def test_the_growing_tree_equals_the_definition_at_every_size(tree):
    leaves = [tree.leaf(i) for i in range(SIZE)]
    assert [tree.root(n) for n in range(SIZE + 1)] == [
        recursive_root(leaves[:n]) for n in range(SIZE + 1)
    ]


def test_two_thousand_inclusion_proofs_hold_and_none_of_their_mutants(tree):
    rng = random.Random(6962)
    valid = refused = 0
    for size in range(1, SIZE + 1):
        root = tree.root(size)
        for index in range(size):
            proof = tree.inclusion(index, size)
            leaf = tree.leaf(index)

            def holds(proof=proof, leaf=leaf, index=index, size=size, root=root):
                return inclusion_holds(leaf=leaf, index=index, size=size, proof=proof, root=root)

            assert holds()
            valid += 1
            assert not holds(leaf=leaf_hash(b"another"))
            assert not holds(root=rng.randbytes(32))
            assert not holds(index=index + size)
            assert size == 1 or not holds(index=(index + 1) % size)
            assert not any(holds(proof=mutant) for mutant in mutants(proof, rng))
            refused += 4 + len(mutants(proof, rng))
    assert valid == SIZE * (SIZE + 1) // 2 >= 2000
    assert refused > 10_000


def test_two_thousand_consistency_proofs_hold_and_none_of_their_mutants(tree):
    rng = random.Random(9162)
    valid = refused = 0
    for size in range(1, SIZE + 1):
        for old in range(1, size + 1):
            proof = tree.consistency(old, size)
            was, now = tree.root(old), tree.root(size)

            def holds(proof=proof, old=old, size=size, old_root=was, root=now):
                return consistency_holds(
                    old_size=old, size=size, proof=proof, old_root=old_root, root=root
                )

            assert holds()
            valid += 1
            assert not holds(old_root=rng.randbytes(32))
            assert not holds(root=rng.randbytes(32))
            assert not holds(old=0)
            assert not holds(size=old - 1)
            assert not any(holds(proof=mutant) for mutant in mutants(proof, rng))
            refused += 4 + len(mutants(proof, rng))
    assert valid >= 2000
    assert refused > 10_000


def test_a_leaf_cannot_pass_for_a_node_nor_a_node_for_a_leaf(tree):
    left, right = tree.leaf(0), tree.leaf(1)
    assert leaf_hash(left + right) != node_hash(left, right)


def test_proofs_of_what_is_not_there_are_not_made(tree):
    for call in (
        lambda: tree.inclusion(SIZE),
        lambda: tree.inclusion(0, 0),
        lambda: tree.root(SIZE + 1),
        lambda: tree.consistency(0),
        lambda: tree.consistency(5, 4),
    ):
        with pytest.raises(ValueError, match="tree"):
            call()


@pytest.mark.parametrize("old_size", [3, 5, 6, 7])
def test_growth_without_a_proof_is_not_consistent(tree, old_size):
    old = MerkleTree(leaf_hash(b"record %d" % i) for i in range(old_size))
    assert not consistency_holds(
        old_size=old_size, size=SIZE, proof=(), old_root=old.root(), root=tree.root()
    )
