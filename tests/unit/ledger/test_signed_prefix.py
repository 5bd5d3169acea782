"""Promise: what a checkpoint signed is opened fast and never differently; the rest is checked line by line."""

from __future__ import annotations

import os
import threading

import pytest

from orchestrator.core.errors import IntegrityError, MemtrialError
from orchestrator.core.merkle import MerkleTree, leaf_hash
from orchestrator.ledger.blobs import BlobStore, pack, unpack
from orchestrator.ledger.chain import Ledger, Prefix, parse_ledger
from orchestrator.model.record import AttemptStarted


@pytest.fixture
def path(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.jsonl")
    for number in range(1, 9):
        ledger.append(AttemptStarted(trial="t", attempt=number))
    ledger.close()
    return tmp_path / "ledger.jsonl"


def prefix_of(data: bytes, size: int) -> Prefix:
    tree = MerkleTree(leaf_hash(line) for line in data.split(b"\n")[:size])
    return Prefix(size, tree.root())


def test_with_a_signed_prefix_the_same_entries_and_head_come_back(path):
    data = path.read_bytes()
    whole = parse_ledger(data, where="ledger")
    for size in range(9):
        fast = parse_ledger(data, where="ledger", signed=prefix_of(data, size))
        assert fast.entries == whole.entries
        assert (fast.head_sha256, fast.tree.root()) == (whole.head_sha256, whole.tree.root())


def test_a_change_below_the_signed_size_is_refused_and_one_above_it_too(path):
    data = path.read_bytes()
    signed = prefix_of(data, 5)
    for line in range(8):
        lines = data.split(b"\n")
        lines[line] = lines[line].replace(b'"trial":"t"', b'"trial":"u"')
        # The last line has no follower that could miss its digest: only a checkpoint over it would tell.
        if line == 7:
            continue
        with pytest.raises(IntegrityError):
            parse_ledger(b"\n".join(lines), where="ledger", signed=signed)


def test_a_ledger_shorter_than_its_checkpoint_is_refused(path):
    data = path.read_bytes()
    signed = prefix_of(data, 8)
    for size in range(8):
        cut = b"".join(line + b"\n" for line in data.split(b"\n")[:size])
        with pytest.raises(IntegrityError, match="lines that do not give it"):
            parse_ledger(cut, where="ledger", signed=signed)


def test_a_write_that_fails_half_way_leaves_whole_lines_and_a_usable_ledger(path, monkeypatch):
    before = path.read_bytes()
    ledger, _, _ = Ledger.open_for_append(path)
    real = os.fsync
    calls = []

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        ledger.append(AttemptStarted(trial="t", attempt=9))
    assert path.read_bytes() == before
    ledger.append(AttemptStarted(trial="t", attempt=9))
    ledger.close()
    assert len(parse_ledger(path.read_bytes(), where="ledger").entries) == 9


def test_threads_append_together_and_every_line_follows_the_one_before(path):
    ledger, _, _ = Ledger.open_for_append(path)
    threads = [
        threading.Thread(target=ledger.append, args=(AttemptStarted(trial="t", attempt=9 + i),))
        for i in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger.close()
    assert len(parse_ledger(path.read_bytes(), where="ledger").entries) == 28


def test_large_blobs_are_compressed_small_and_random_ones_are_not_and_all_come_back(tmp_path):
    blobs = BlobStore(tmp_path)
    for data, packed in ((b"line\n" * 1000, True), (b"short", False), (os.urandom(4096), False)):
        name = blobs.put(data)
        assert blobs.put(data) == name
        assert (tmp_path / name[:2] / f"{name}.gz").exists() is packed
        assert (tmp_path / name[:2] / name).exists() is not packed
        assert blobs.get(name) == data
    assert blobs.check_all() == 3


def test_a_blob_of_an_older_run_that_lies_there_uncompressed_is_read_and_not_written_twice(
    tmp_path,
):
    data = b"line\n" * 1000
    name = BlobStore(tmp_path / "other").put(data)
    (tmp_path / name[:2]).mkdir()
    (tmp_path / name[:2] / name).write_bytes(data)
    blobs = BlobStore(tmp_path)
    assert (blobs.get(name), blobs.put(data)) == (data, name)
    assert not (tmp_path / name[:2] / f"{name}.gz").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda packed: packed[:-1],
        lambda packed: packed + b"\0",
        lambda packed: packed + packed,
        lambda packed: b"\0" + packed,
        lambda packed: b"",
        lambda packed: packed[:12] + b"\xff" + packed[13:],
    ],
    ids=["cut", "byte after", "two members", "byte before", "empty", "changed"],
)
def test_a_spoiled_compressed_blob_is_refused(change):
    packed = pack(b"line\n" * 1000)
    assert packed is not None
    with pytest.raises(MemtrialError):
        unpack(change(packed), where="blob")


def test_a_decompression_bomb_is_refused_within_the_bound(monkeypatch):
    monkeypatch.setattr("orchestrator.ledger.blobs.MAX_BLOB_BYTES", 10_000)
    packed = pack(bytes(1_000_000))
    assert packed is not None
    with pytest.raises(IntegrityError, match="too many bytes"):
        unpack(packed, where="blob")
