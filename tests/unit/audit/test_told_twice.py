"""Promise: a path is harvested or left out, and names that only look like one path are taken for two."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import pytest

from orchestrator.audit.products import MAX_NAMED_CHARACTERS, told_twice
from orchestrator.core.places import images_root
from orchestrator.model.verdict import Harvest, LeftOut
from tests.unit.audit.test_ended_runs import harvest

FOLDER = "d" * 199
LONG = f"{FOLDER}/{'e' * (MAX_NAMED_CHARACTERS - len(FOLDER) - 1)}"


@pytest.fixture
def walked(tmp_path, monkeypatch):
    """Walks a work area with the harvester's own program; returns its record."""
    verifier = images_root() / "verifier"
    monkeypatch.setattr(sys, "path", [str(verifier), *sys.path])
    program = runpy.run_path(str(verifier / "harvest.py"))

    def walk(*names: bytes, pinned: tuple[str, ...] = ()) -> Harvest:
        for name in names:
            place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("x")
        found = program["Walk"](frozenset(pinned))
        found.folder(os.fsencode(tmp_path), b"")
        return recorded(list(found.modes), found.left_out)

    return walk


def recorded(paths: list[str], left_out: list[dict[str, str]]) -> Harvest:
    left = tuple(LeftOut.model_validate(one) for one in left_out)
    return harvest(*sorted(paths), left_out=left)


def test_a_name_that_was_cut_off_is_not_the_path_that_it_then_reads_like(walked):
    found = walked(LONG.encode(), LONG.encode() + b"e")
    assert [change.path for change in found.changes] == [LONG]
    assert [left.name for left in found.left_out] == [LONG]
    assert told_twice(found) == []


def test_a_name_that_was_escaped_is_not_the_path_that_it_then_reads_like(walked):
    found = walked(b"a\\xff", b"a\xff", pinned=("a\\xff",))
    assert [change.path for change in found.changes] == ["a\\xff"]
    assert [left.name for left in found.left_out] == ["a\\xff"]
    assert told_twice(found) == []


def test_a_path_that_was_harvested_and_left_out_is_told():
    left = [{"name": "src/a.py", "reason": "too-large"}]
    assert told_twice(recorded(["src/a.py"], left)) == ["src/a.py"]


def test_a_path_that_was_deleted_may_have_been_left_out():
    """A pinned file may have given way to something that no diff can hold."""
    found = recorded(["src/a.py"], [{"name": "src/a.py", "reason": "special-file"}])
    gone = found.changes[0].model_copy(update={"status": "deleted", "new_mode": None})
    assert told_twice(found.model_copy(update={"changes": (gone,)})) == []
