"""Promise: a bundle's archive or folder that is not plain is refused by name, and nothing is written for it."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.attest import layout
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import open_view
from orchestrator.core.errors import MemtrialError
from orchestrator.core.ustar import write_archive
from tests.evidence.conftest import Sealed

CASES = sorted((Path(__file__).resolve().parents[1] / "cases" / "bundle_paths").glob("*_refused"))
END = bytes(1024)


def member(name: str, data: bytes = b"x", **fields: object) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)


def archive(path: Path, sealed: Sealed, change: Callable[[bytes], bytes]) -> None:
    """Writes a sound archive, changed."""
    with path.open("wb") as stream:
        write_archive(stream, sealed.files, sealed.files.__getitem__)
    path.write_bytes(change(path.read_bytes()))


def with_last(data: bytes, *members: bytes) -> bytes:
    return data[: -len(END)] + b"".join(members) + END


def sized(name: str, digits: bytes) -> bytes:
    """A header whose size field says something else, under a checksum that fits."""
    header = bytearray(member(name)[:512])
    header[124:136] = digits
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


# A name behind every real one, so that only what is wrong with the member can be at fault.
LAST = "zz"
ARCHIVES: dict[str, Callable[[bytes], bytes]] = {
    "cut_in_a_member": lambda data: data[: len(data) // 2],
    "cut_at_the_end": lambda data: data[:-512],
    "member_outside": lambda data: with_last(data, member("zz/../../outside")),
    "member_absolute": lambda data: with_last(member("/outside") + data),
    "member_is_a_link": lambda data: with_last(
        data, member(LAST, b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")
    ),
    "member_is_a_hard_link": lambda data: with_last(
        data, member(LAST, b"", type=tarfile.LNKTYPE, linkname="plan.json")
    ),
    "member_is_a_pipe": lambda data: with_last(data, member(LAST, b"", type=tarfile.FIFOTYPE)),
    "name_twice": lambda data: with_last(data, member(LAST), member(LAST, b"y")),
    "name_long": lambda data: with_last(data, member(f"zz/{'d' * 60}/{'n' * 60}")),
    "size_gigantic": lambda data: with_last(data, sized(LAST, b"77777777777\0")),
    "size_in_base_256": lambda data: with_last(data, sized(LAST, b"\x80" + b"\xff" * 11)),
    "size_negative": lambda data: with_last(data, sized(LAST, b"-0000000001\0")),
    "bytes_after_the_end": lambda data: data + b"more",
    "empty": lambda _: b"",
}


def zipped(path: Path, sealed: Sealed) -> None:
    with zipfile.ZipFile(path, "w") as target:
        target.writestr("../outside", "x")
        target.writestr("plan.json", sealed.files[layout.PLAN])


def link(path: Path, name: str, target: str) -> None:
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(target)


def moved_and_linked(path: Path) -> None:
    """The same bytes by way of a link: even a link that leads to the right ones is refused."""
    outside = path.parent / "outside"
    shutil.move(path / layout.PLAN, outside)
    link(path, layout.PLAN, "../outside")


def moved_and_linked_folder(path: Path) -> None:
    outside = path.parent / "outside"
    shutil.move(path / "blobs", outside)
    (path / "blobs").symlink_to(outside)


FOLDERS: dict[str, Callable[[Path], None]] = {
    "link_in_place_of_a_file": moved_and_linked,
    "link_in_place_of_a_folder": moved_and_linked_folder,
    "link_added": lambda path: link(path, "added", "/etc/passwd"),
    "link_to_itself": lambda path: link(path, "added", "added"),
    "pipe_added": lambda path: os.mkfifo(path / "added"),
    "name_with_a_newline": lambda path: (path / "a\nb").touch(),
    "name_not_utf8": lambda path: os.close(os.open(os.fsencode(path) + b"/\xff", os.O_CREAT)),
    "name_with_a_backslash": lambda path: (path / "..\\outside").touch(),
}


def make(case: str, sealed: Sealed, folder: Path) -> Path:
    path = folder / "bundle"
    if case in ARCHIVES:
        archive(path, sealed, ARCHIVES[case])
    elif case == "zip":
        zipped(path, sealed)
    else:
        shutil.copytree(sealed.folder, path)
        FOLDERS[case](path)
    return path


def listing(folder: Path) -> list[bytes]:
    return sorted(os.fsencode(path) for path in folder.rglob("*"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_a_case_is_refused_by_name_and_nothing_is_written(path, tiny, tmp_path):
    case = json.loads((path / "case.json").read_bytes())
    bundle = make(case["make"], tiny, tmp_path)
    before = listing(tmp_path)
    opened = None
    try:
        view, opened = open_view(bundle)
        answer = verify_bundle(view, tiny.trust, name="bundle")
        told = {(str(check.reference), int(answer.exit_code)) for check in answer.failed}
    except MemtrialError as error:
        told = {(error.reference, error.exit_code)}
    finally:
        if opened is not None:
            opened.close()
    assert (case["expect"]["reference"], case["expect"]["exit_code"]) in told
    assert listing(tmp_path) == before


def test_every_way_has_a_case_that_says_why():
    cases = [json.loads((path / "case.json").read_bytes())["make"] for path in CASES]
    assert sorted(cases) == sorted([*ARCHIVES, *FOLDERS, "zip"])
    assert all((path / "README.md").read_text(encoding="utf-8").strip() for path in CASES)


@pytest.mark.parametrize("form", ["archive", "folder"])
def test_the_same_bundle_unchanged_passes_in_both_forms(form, tiny, tmp_path):
    """The cases above must be able to fail: nothing but their change is at fault."""
    path = tmp_path / "bundle"
    if form == "archive":
        archive(path, tiny, lambda data: data)
    else:
        shutil.copytree(tiny.folder, path)
    view, opened = open_view(path)
    assert verify_bundle(view, tiny.trust, name="bundle").exit_code == 0
    if opened is not None:
        opened.close()
