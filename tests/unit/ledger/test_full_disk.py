"""Promise: an append that finds no room fails aloud and leaves every acknowledged record and no other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.ledger.chain import Ledger
from orchestrator.model.record import AttemptStarted

WRITER = Path(__file__).with_name("full_writer.py")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Four appends under every limit from one line to two, byte by byte."""
    folder = tmp_path_factory.mktemp("full")
    probe = Ledger.create(folder / "probe.jsonl")
    probe.append(AttemptStarted(trial="trial-0", attempt=1))
    probe.close()
    line_bytes = (folder / "probe.jsonl").stat().st_size
    finished = subprocess.run(
        [sys.executable, str(WRITER), str(folder), str(line_bytes), str(2 * line_bytes)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return line_bytes, json.loads(finished.stdout)


def test_every_acknowledged_record_is_there_and_no_other_wherever_the_room_ended(told):
    for case in told[1]:
        assert case["found"] == case["acknowledged"], case["limit_bytes"]
        assert case["torn_bytes"] == 0


def test_the_failed_appends_said_so_and_nothing_of_them_stayed_in_the_file(told):
    line_bytes, cases = told
    for case in cases:
        room = 2 if case["limit_bytes"] == 2 * line_bytes else 1
        assert len(case["acknowledged"]) == room + 1
        assert case["errors"] == ["EFBIG"] * (4 - room)
        assert case["size_bytes"] == room * line_bytes


def test_the_ledger_goes_on_when_there_is_room_again(told):
    assert all(case["found"][-1] == "afterwards" for case in told[1])
    assert len(told[1]) > 150


def test_a_write_that_cannot_be_undone_closes_the_ledger_until_resume_cuts_the_rest(
    tmp_path, monkeypatch
):
    """Also shows that the limits above would tear a ledger that does not undo its writes."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger.create(path)
    ledger.append(AttemptStarted(trial="first", attempt=1))

    class Full:
        """A handle over a disk with room for ten bytes more, which cannot be cut back either."""

        def __init__(self, handle):
            self._handle = handle
            self._left = 10

        def write(self, data):
            if not self._left:
                raise OSError(28, "No space left on device")
            written = self._handle.write(bytes(data[: self._left]))
            self._left -= written
            return written

        def truncate(self, size):
            raise OSError(5, "Input/output error")

        def __getattr__(self, name):
            return getattr(self._handle, name)

    handle = ledger._handle
    monkeypatch.setattr(ledger, "_handle", Full(handle))
    with pytest.raises(OSError, match="Input/output"):
        ledger.append(AttemptStarted(trial="second", attempt=1))
    with pytest.raises(Exception, match="whose last write failed"):
        ledger.append(AttemptStarted(trial="third", attempt=1))
    handle.close()
    assert path.read_bytes().count(b"\n") == 1
    assert not path.read_bytes().endswith(b"\n")
    repaired, entries, torn_bytes = Ledger.open_for_append(path, repair=True)
    repaired.close()
    found = [e.body.trial for e in entries if isinstance(e.body, AttemptStarted)]
    assert (found, torn_bytes) == (["first"], 10)
