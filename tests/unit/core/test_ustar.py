"""Promise: an archive has one form: the same files give the same bytes, and any other bytes are refused."""

from __future__ import annotations

import io
import random
import tarfile

import pytest

from orchestrator.core.errors import DocumentError, IntegrityError, MemtrialError, UsageError
from orchestrator.core.ustar import ArchiveReader, write_archive

FILES = {"a.txt": b"one", "b/c.bin": bytes(range(256)) * 3, "b/empty": b"", "z": b"x" * 512}


def packed(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    write_archive(stream, files, files.__getitem__)
    return stream.getvalue()


def contents(path) -> dict[str, bytes]:
    archive = ArchiveReader(path)
    try:
        return {name: archive.read(name, max_bytes=10_000) for name in archive.names()}
    finally:
        archive.close()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "bundle.tar"
    path.write_bytes(packed(FILES))
    return path


def test_what_goes_in_comes_out(path):
    assert contents(path) == FILES


def test_the_same_files_in_another_order_give_the_same_bytes():
    assert packed(dict(reversed(FILES.items()))) == packed(FILES)


def test_any_tar_reads_it(path):
    with tarfile.open(path) as archive:
        found = {m.name: archive.extractfile(m) for m in archive}
        assert {name: stream.read() for name, stream in found.items() if stream} == FILES


def test_every_single_changed_byte_is_seen(path):
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(bytes(changed))
        try:
            found = contents(path)
        except MemtrialError:
            continue
        assert found != FILES


def test_every_cut_is_refused(path):
    whole = path.read_bytes()
    for size in range(0, len(whole), 37):
        path.write_bytes(whole[:size])
        with pytest.raises(IntegrityError):
            contents(path)


def member(name: str, data: bytes = b"x", **fields: object) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + b"\0" * (-len(data) % 512)


END = b"\0" * 1024
HOSTILE = {
    "zip slip": member("../outside") + END,
    "absolute name": member("/etc/outside") + END,
    "backslash": member("..\\outside") + END,
    "dot part": member("a/./b") + END,
    "symbolic link": member("a", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd") + END,
    "hard link": member("a", b"", type=tarfile.LNKTYPE, linkname="b") + END,
    "device": member("a", b"", type=tarfile.CHRTYPE) + END,
    "pipe": member("a", b"", type=tarfile.FIFOTYPE) + END,
    "folder": member("a", b"", type=tarfile.DIRTYPE) + END,
    "second of a name": member("a") + member("a") + END,
    "names out of order": member("b") + member("a") + END,
    "executable": member("a", mode=0o755) + END,
    "owner": member("a", uid=1000) + END,
    "time": member("a", mtime=1) + END,
    "name with a prefix field": member("d" * 90 + "/" + "n" * 60) + END,
    "extended header": member("a", type=tarfile.XHDTYPE) + END,
    "bytes after the end": member("a") + END + b"\0" * 512,
    "one zero block": member("a") + b"\0" * 512,
    "no end": member("a"),
    "gigantic size": tarfile.TarInfo.tobuf(
        type("Big", (tarfile.TarInfo,), {})("a"), tarfile.USTAR_FORMAT
    ).replace(b"00000000000", b"77777777777", 1)
    + END,
    "empty file": b"",
    "text": b"not an archive at all",
    "padding used": member("a")[:-5] + b"hello" + END,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_archives_are_refused_by_name_and_nothing_is_written(tmp_path, data):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "bundle.tar"
    path.write_bytes(data)
    with pytest.raises(IntegrityError) as refused:
        contents(path)
    assert refused.value.reference == "archive-not-plain"
    assert [p.name for p in tmp_path.rglob("*")] == ["folder", "bundle.tar"]


def test_names_that_the_form_cannot_hold_are_refused_at_writing():
    for name in ("../a", "/a", "a b", "a" * 101, "ä", ""):
        with pytest.raises(DocumentError):
            packed({name: b""})


def test_random_bytes_never_raise_anything_but_a_refusal(path):
    rng = random.Random(7)
    whole = path.read_bytes()
    for _ in range(300):
        start = rng.randrange(len(whole))
        size = rng.randrange(1, 64)
        path.write_bytes(whole[:start] + rng.randbytes(size) + whole[start + rng.randrange(size) :])
        try:
            found = contents(path)
        except MemtrialError:
            continue
        assert found != FILES or path.read_bytes() == whole


def test_a_file_that_is_not_there_is_no_archive(tmp_path):
    with pytest.raises(UsageError) as refused:
        ArchiveReader(tmp_path / "none.tar")
    assert refused.value.reference == "archive-missing"


def test_a_link_in_an_archives_place_is_not_followed(path, tmp_path):
    (tmp_path / "link.tar").symlink_to(path)
    with pytest.raises(UsageError, match="expected an archive"):
        ArchiveReader(tmp_path / "link.tar")


def test_a_member_larger_than_its_reader_bears_is_refused(path):
    archive = ArchiveReader(path)
    try:
        with pytest.raises(DocumentError, match="at most 2 bytes, found 3 bytes"):
            archive.read("a.txt", max_bytes=2)
    finally:
        archive.close()
