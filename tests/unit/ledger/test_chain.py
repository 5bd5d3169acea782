"""Promise: a recorded line cannot be changed, dropped, moved or half-written without being noticed."""

import pytest

from orchestrator.core.errors import IntegrityError, MemtrialError, UsageError
from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.chain import Ledger, read_entries
from orchestrator.model.record import AttemptStarted, RunEnded


@pytest.fixture
def path(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.jsonl")
    for number in range(1, 5):
        ledger.append(AttemptStarted(trial="t", attempt=number))
    ledger.close()
    return tmp_path / "ledger.jsonl"


def test_entries_come_back_in_order(path):
    entries, _, torn = read_entries(path)
    assert [e.body.attempt for e in entries if isinstance(e.body, AttemptStarted)] == [1, 2, 3, 4]
    assert torn == 0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda lines: [lines[0].replace(b'"attempt":1', b'"attempt":9'), *lines[1:]],
            id="changed",
        ),
        pytest.param(lambda lines: [lines[0], *lines[2:]], id="dropped"),
        pytest.param(lambda lines: [lines[1], lines[0], *lines[2:]], id="swapped"),
        pytest.param(lambda lines: [*lines, lines[-1]], id="repeated"),
        pytest.param(lambda lines: [lines[0].replace(b":", b": ", 1), *lines[1:]], id="respaced"),
        pytest.param(lambda lines: [lines[0], b"{}", *lines[1:]], id="foreign"),
    ],
)
def test_tampering_is_noticed(path, change):
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join(change(lines)) + b"\n")
    with pytest.raises(MemtrialError):
        read_entries(path)


def test_a_torn_last_line_is_refused_without_repair_and_cut_off_with_it(path):
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"at":"2026-')
    with pytest.raises(IntegrityError, match="unfinished"):
        Ledger.open_for_append(path)
    ledger, entries, torn = Ledger.open_for_append(path, repair=True)
    ledger.append(RunEnded(trials=1, completed=1, wall_ms=1))
    ledger.close()
    assert (len(entries), torn) == (4, 12)
    assert len(read_entries(path)[0]) == 5


def test_every_possible_cut_is_torn_or_whole_and_never_wrong(path):
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        entries, _, torn = read_entries(path)
        assert len(entries) == whole[:cut].count(b"\n")
        assert torn == len(whole[:cut].rpartition(b"\n")[2])


def test_a_second_process_cannot_open_it(path):
    ledger, _, _ = Ledger.open_for_append(path)
    with pytest.raises(UsageError, match="another process"):
        Ledger.open_for_append(path)
    ledger.close()


def test_a_changed_blob_is_noticed(tmp_path):
    blobs = BlobStore(tmp_path)
    name = blobs.put(b"bytes")
    (tmp_path / name[:2] / name).write_bytes(b"other")
    with pytest.raises(IntegrityError, match="expected SHA-256"):
        blobs.get(name)
