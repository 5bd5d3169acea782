"""Archives are read member by member, under bounds; hostile ones are refused by name."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.errors import DocumentError
from orchestrator.sources import archive as archive_module
from orchestrator.sources.archive import read_archive

CASES = Path(__file__).parents[2] / "cases" / "archives"
TYPES = {
    "file": tarfile.REGTYPE,
    "device": tarfile.CHRTYPE,
    "fifo": tarfile.FIFOTYPE,
    "symlink": tarfile.SYMTYPE,
    "hardlink": tarfile.LNKTYPE,
    "pax": tarfile.XHDTYPE,
    "global": tarfile.XGLTYPE,
    "longname": tarfile.GNUTYPE_LONGNAME,
    "longlink": tarfile.GNUTYPE_LONGLINK,
    "unknown": b"Z",
}


def words(value: str | dict[str, Any]) -> bytes:
    """A text as it stands, or a part of it repeated."""
    return (value if isinstance(value, str) else value["repeat"] * value["times"]).encode()


def pax_record(key: str, value: bytes) -> bytes:
    """One record of a pax header: its length counts itself."""
    body = b" " + key.encode() + b"=" + value + b"\n"
    length = len(body)
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


def build(members: list[dict[str, Any]]) -> bytes:
    """Makes a tar whose members are exactly as listed; a member may claim more bytes than it has."""
    out = bytearray()
    for item in members:
        member = tarfile.TarInfo(item["name"])
        member.type = TYPES[item["type"]]
        member.mode = item.get("mode", 0o644)
        member.linkname = item.get("linkname", "")
        data = words(item.get("text", ""))
        data = bytes(item["fill_bytes"]) if "fill_bytes" in item else data
        data += b"".join(pax_record(k, words(v)) for k, v in item.get("records", {}).items())
        member.size = item.get("claim_bytes", len(data))
        data += item.get("padding", "").encode()
        whole = member.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)
        out += whole * item.get("repeat", 1)
    return bytes(out) + bytes(1024)


@pytest.mark.parametrize("case", sorted(CASES.glob("*_refused")), ids=lambda case: case.name)
def test_a_hostile_member_is_refused_or_left_out_by_name(case: Path) -> None:
    described = json.loads((case / "archive.json").read_text(encoding="utf-8"))
    data = gzip.compress(build(described["members"]), compresslevel=1)
    expected = described["expected"]
    if "refused" in expected:
        with pytest.raises(DocumentError) as caught:
            read_archive(data, strip=1, where="hostile.tar.gz")
        assert "hostile.tar.gz" in caught.value.message
        assert expected["refused"] in caught.value.message
        return
    files, notes = read_archive(data, strip=1, where="hostile.tar.gz")
    assert sorted(files) == expected["kept"]
    assert len(notes) == len(expected["noted"])
    for words in expected["noted"]:
        assert any(words in note for note in notes)


GOOD: list[dict[str, Any]] = [
    {"name": "p/a.txt", "type": "file", "text": "hello\n"},
    {"name": "p/run", "type": "file", "text": "#!\n", "mode": 0o764},
    {"name": "p/same", "type": "hardlink", "linkname": "p/a.txt"},
    {"name": "p/link", "type": "symlink", "linkname": "a.txt"},
]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_every_usual_compression_gives_the_same_files(compress: Callable[[bytes], bytes]) -> None:
    files, notes = read_archive(compress(build(GOOD)), strip=1, where="good")
    assert {p: (e.mode, e.data) for p, e in files.items()} == {
        "a.txt": ("100644", b"hello\n"),
        "run": ("100755", b"#!\n"),
        "same": ("100644", b"hello\n"),
        "link": ("120000", b"a.txt"),
    }
    assert notes == ()


def test_more_members_than_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_MEMBERS", 3)
    with pytest.raises(DocumentError, match="at most 3 members"):
        read_archive(build(GOOD), strip=1, where="many")


def test_an_archive_that_unpacks_beyond_the_bound_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archive_module, "MAX_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(DocumentError, match="when unpacked"):
        read_archive(gzip.compress(bytes(1 << 24)), strip=1, where="bomb")


def test_a_header_that_asks_for_gigabytes_costs_no_memory() -> None:
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 8**11 - 1
    with pytest.raises(DocumentError):
        read_archive(header.tobuf(tarfile.USTAR_FORMAT) + bytes(1024), strip=1, where="pax")


def test_a_name_that_is_no_utf8_is_refused() -> None:
    data = build([{"name": "p/aQQ", "type": "file", "text": ""}])
    header = tarfile.TarInfo("p/aQQ").tobuf(tarfile.GNU_FORMAT)
    assert data.startswith(header[:5])
    raw = bytearray(data)
    raw[3:5] = b"\xff\xfe"
    raw[148:156] = b" " * 8
    raw[148:156] = f"{sum(raw[:512]):06o}\0 ".encode()
    with pytest.raises(DocumentError, match="utf-8"):
        read_archive(bytes(raw), strip=1, where="latin")


def test_what_is_no_archive_is_a_document_error() -> None:
    for data in (b"", b"not a tar", b"\x1f\x8b broken", gzip.compress(build(GOOD))[:40]):
        with pytest.raises(DocumentError):
            read_archive(data, strip=1, where="junk")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4 * 1024), st.integers(0, 255)), min_size=1, max_size=8))
def test_no_damage_to_an_archive_escapes_as_anything_but_a_document_error(
    damage: list[tuple[int, int]],
) -> None:
    raw = bytearray(build(GOOD))
    for position, value in damage:
        raw[position % len(raw)] = value
    try:
        files, _ = read_archive(bytes(raw), strip=1, where="damaged")
    except DocumentError:
        return
    assert all(not p.startswith("/") and ".." not in p.split("/") for p in files)


def test_a_long_name_survives_both_common_extensions() -> None:
    name = "p/" + "n" * 90 + "/" + "m" * 90 + ".py"
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=form) as made:
            made.addfile(tarfile.TarInfo(name))
        files, _ = read_archive(buffer.getvalue(), strip=1, where="long")
        assert list(files) == [name[2:]]


def test_an_archive_as_git_writes_it_with_its_global_comment_is_read(tmp_path: Path) -> None:
    def git(*words: str) -> bytes:
        return subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=n", "-c", "user.email=e@example.org", *words],
            check=True,
            capture_output=True,
        ).stdout

    long_name = "d" * 60 + "/" + "e" * 60 + ".txt"
    (tmp_path / long_name).parent.mkdir()
    (tmp_path / long_name).write_text("hello\n")
    (tmp_path / "link").symlink_to("x" * 150)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    data = git("archive", "--prefix=p/", "HEAD")
    assert b"comment=" in data[:1024]
    files, notes = read_archive(data, strip=1, where="git")
    assert sorted(files) == sorted([long_name, "link"])
    assert notes == ()


def test_a_record_that_repeats_the_size_of_the_header_is_no_fault() -> None:
    members: list[dict[str, Any]] = [
        {"name": "p", "type": "pax", "records": {"size": "2"}},
        {"name": "p/a", "type": "file", "text": "hi"},
    ]
    files, _ = read_archive(build(members), strip=1, where="npm")
    assert files["a"].data == b"hi"


def test_links_that_would_cost_too_many_steps_together_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archive_module, "MAX_LINK_STEPS", 50)
    way = "d/../" * 10
    members = [
        {"name": f"p/l{i}", "type": "symlink", "linkname": f"{way}l{i - 1}" if i else "a"}
        for i in range(20)
    ]
    files, notes = read_archive(build(members), strip=1, where="tangled")
    assert "l0" in files
    assert "l19" not in files
    assert len(files) + len(notes) == 20


def test_a_refusal_shows_no_control_character_of_a_member() -> None:
    data = build([{"name": "p/\x1b]0;x\x07\u202eb", "type": "device"}])
    with pytest.raises(DocumentError) as caught:
        read_archive(data, strip=1, where="escape")
    assert caught.value.message.isprintable()
    assert "\\x1b]0;x\\x07\\u202eb" in caught.value.message
