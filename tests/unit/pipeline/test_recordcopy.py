"""Promise: the operator's copy of a record is what the supervisor wrote, byte for byte, or nothing is added to it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from orchestrator.core.errors import IntegrityError
from orchestrator.model.dispatch import RECORD_FILES
from orchestrator.pipeline.recordcopy import RecordCopy


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name in RECORD_FILES:
        (folder / name).write_bytes(b"one\ntwo\n")
    return folder


def follow(copy: RecordCopy, theirs: Path, *, compare: bool = False) -> None:
    with ExitStack() as files:
        handles = [
            files.enter_context((theirs / name).open("rb")).fileno() for name in RECORD_FILES
        ]
        copy.follow(handles, compare=compare)


def grow(theirs: Path) -> None:
    for name in RECORD_FILES:
        with (theirs / name).open("ab") as file:
            file.write(b"three\n")


def test_a_copy_grows_with_the_record(theirs, tmp_path):
    copy = RecordCopy(tmp_path / "mine")
    follow(copy, theirs)
    grow(theirs)
    follow(copy, theirs, compare=True)
    for name in RECORD_FILES:
        assert (tmp_path / "mine" / name).read_bytes() == b"one\ntwo\nthree\n"


def test_a_copy_of_an_earlier_part_of_the_run_is_gone_on_with(theirs, tmp_path):
    follow(RecordCopy(tmp_path / "mine"), theirs)
    grow(theirs)
    follow(RecordCopy(tmp_path / "mine"), theirs)
    assert (tmp_path / "mine" / RECORD_FILES[0]).read_bytes() == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("name", RECORD_FILES)
@pytest.mark.parametrize(
    "found", [b"One\ntwo\n", b"one\ntwo\nmore\n", b"x"], ids=["edited", "longer", "another"]
)
def test_a_folder_that_holds_something_else_is_not_added_to(theirs, tmp_path, name, found):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / name).write_bytes(found)
    with pytest.raises(IntegrityError, match=name):
        follow(RecordCopy(mine), theirs)
    assert (mine / name).read_bytes() == found


def test_a_copy_that_somebody_else_wrote_to_is_found_before_anything_is_added(theirs, tmp_path):
    copy = RecordCopy(tmp_path / "mine")
    follow(copy, theirs)
    path = tmp_path / "mine" / RECORD_FILES[1]
    path.write_bytes(b"one\n")
    grow(theirs)
    with pytest.raises(IntegrityError, match="8 bytes that were copied, found 4"):
        follow(copy, theirs)
    assert path.read_bytes() == b"one\n"


def test_a_copy_that_was_edited_in_place_is_found_at_the_end(theirs, tmp_path):
    copy = RecordCopy(tmp_path / "mine")
    follow(copy, theirs)
    (tmp_path / "mine" / RECORD_FILES[2]).write_bytes(b"one\nTwo\n")
    with pytest.raises(IntegrityError, match=RECORD_FILES[2]):
        follow(copy, theirs, compare=True)
