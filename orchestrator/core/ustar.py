"""Archives with exactly one possible form: plain files, sorted, one fixed header per name and size.

Format: POSIX.1-2017 ustar, written by the standard library; mode 0644, owner 0, time 0, no folder entries,
two zero blocks at the end and nothing after them. Reading rebuilds each header and demands equality, so
links, devices, odd names, second names and any changed byte are refused. Nothing is ever unpacked.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from orchestrator.core.errors import DocumentError, IntegrityError, UsageError
from orchestrator.core.files import safe_relative

BLOCK_BYTES = 512
MAX_MEMBERS = 1_000_000
MAX_MEMBER_BYTES = 1024 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9._/-]{1,100}")
_END = b"\0" * (2 * BLOCK_BYTES)


def write_archive(stream: IO[bytes], names: Iterable[str], read: Callable[[str], bytes]) -> int:
    """Writes the named files in sorted order; returns how many. The same files give the same bytes.

    Raises:
        DocumentError: a name that the format cannot hold.
    """
    count = 0
    for name in sorted(names):
        data = read(name)
        stream.write(_header(name, len(data)))
        stream.write(data)
        stream.write(b"\0" * (-len(data) % BLOCK_BYTES))
        count += 1
    stream.write(_END)
    return count


class ArchiveReader:
    """An archive on disk, indexed once; members are read on demand."""

    def __init__(self, path: Path) -> None:
        try:
            self._handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(
                "archive-missing",
                f"expected an archive, found {error.strerror} at {path}",
                hint="give a run's folder or an archive made by `memtrial export`",
            ) from error
        self._where = path.name
        self._members = self._index(os.fstat(self._handle).st_size)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._handle)

    def names(self) -> tuple[str, ...]:
        """Returns the names in order."""
        return tuple(self._members)

    def read(self, name: str, *, max_bytes: int) -> bytes:
        """Returns the bytes of a member.

        Raises:
            DocumentError: there is none, or it is larger than `max_bytes`.
        """
        offset, size = self._members.get(name, (0, -1))
        if not 0 <= size <= max_bytes:
            raise DocumentError(
                "file-missing",
                f"{self._where}/{name}: expected a file of at most {max_bytes} bytes, found {'none' if size < 0 else f'{size} bytes'}",
                hint="get the archive again from its source",
            )
        return self._at(offset, size)

    def _index(self, total: int) -> dict[str, tuple[int, int]]:
        members: dict[str, tuple[int, int]] = {}
        offset, last = 0, ""
        while True:
            header = self._at(offset, BLOCK_BYTES)
            if header == b"\0" * BLOCK_BYTES:
                if total - offset != len(_END) or self._at(offset, len(_END)) != _END:
                    raise self._refuse(offset, "two zero blocks at the end and nothing after them")
                return members
            name, size = self._parse(header, offset)
            if name <= last or len(members) >= MAX_MEMBERS:
                raise self._refuse(offset, "names in order, each once")
            members[name] = (offset + BLOCK_BYTES, size)
            end = offset + BLOCK_BYTES + size
            padding = -size % BLOCK_BYTES
            if end + padding > total or self._at(end, padding).strip(b"\0"):
                raise self._refuse(offset, "the whole member and zeros after it")
            offset, last = end + padding, name

    def _parse(self, header: bytes, offset: int) -> tuple[str, int]:
        try:
            name = header[:100].rstrip(b"\0").decode("ascii")
            size = int(header[124:135], 8)
        except ValueError as error:
            raise self._refuse(offset, "a plain header") from error
        if not 0 <= size <= MAX_MEMBER_BYTES:
            raise self._refuse(offset, f"a member of at most {MAX_MEMBER_BYTES} bytes")
        try:
            rebuilt = _header(name, size)
        except DocumentError as error:
            raise self._refuse(offset, "a plain relative name") from error
        if rebuilt != header:
            raise self._refuse(offset, "the header of a plain file")
        return name, size

    def _at(self, offset: int, size: int) -> bytes:
        data = os.pread(self._handle, size, offset)
        if len(data) != size:
            raise self._refuse(offset, f"{size} bytes")
        return data

    def _refuse(self, offset: int, expected: str) -> IntegrityError:
        return IntegrityError(
            "archive-not-plain",
            f"{self._where} at byte {offset}: expected {expected}, found something else",
            hint="get the archive again from its source; `memtrial export` writes one exact form",
        )


def _header(name: str, size: int) -> bytes:
    safe_relative(name, where="archive")
    if not _NAME.fullmatch(name):
        raise DocumentError(
            "name-not-portable",
            f"{name!r}: expected at most 100 letters, digits, dots, dashes, underscores, slashes",
            hint="rename the file",
        )
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(format=tarfile.USTAR_FORMAT)
