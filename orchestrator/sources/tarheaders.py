"""Checks every header of a tar before a tar reader sees it: kinds, sizes, extended records, their number.

Pure. `tarfile` follows extended headers by recursion, copies all global records into every member and
believes sizes that records give; what it would do with such an archive is decided here, by refusing it.
Formats: POSIX.1-2017 pax, "pax Interchange Format"; GNU tar manual, "Basic Tar Format".
"""

from __future__ import annotations

import re
import tarfile
from dataclasses import dataclass
from typing import Final

from orchestrator.core.errors import DocumentError
from orchestrator.core.printable import printable

BLOCK: Final = tarfile.BLOCKSIZE
MAX_HEADERS: Final = 150_000
# A path and a link's target, each in its own header, and a pax header beside them.
MAX_EXTENDED_IN_A_ROW: Final = 4
MAX_EXTENDED_BYTES: Final = 64 * 1024
# git-archive(1) writes one global header that holds the commit as `comment`, and no other.
MAX_GLOBAL_HEADERS: Final = 1
MAX_GLOBAL_BYTES: Final = 1024
# No longer target can be made on Linux (PATH_MAX, path_resolution(7)).
MAX_LINK_BYTES: Final = 4096

PAX: Final = frozenset({tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE})
LONG: Final = frozenset({tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK})
EXTENDED: Final = PAX | LONG | {tarfile.XGLTYPE}
FILES: Final = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE})
PLAIN: Final = FILES | {tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE}
_RECORD: Final = re.compile(rb"(\d{1,6}) ([^=\n]+)=")


@dataclass(slots=True)
class _Seen:
    headers: int = 0
    in_a_row: int = 0
    globals: int = 0
    # A size that a record claims for the member that follows.
    claimed: bytes | None = None


def check_headers(plain: bytes, where: str) -> None:
    """Walks all headers of an unpacked tar.

    Raises:
        DocumentError: a header that no honest archive has.
        ValueError: a name that is not UTF-8.
    """
    seen = _Seen()
    offset = 0
    while offset + BLOCK <= len(plain):
        try:
            header = tarfile.TarInfo.frombuf(plain[offset : offset + BLOCK], "utf-8", "strict")
        except tarfile.HeaderError:
            # The end of the archive, or what a reader stops at as well.
            return
        seen.headers += 1
        if seen.headers > MAX_HEADERS:
            raise refuse(where, header.name, f"expected at most {MAX_HEADERS} headers, found more")
        offset += BLOCK
        if header.type in EXTENDED:
            _check_extended(header, plain[offset : offset + MAX_EXTENDED_BYTES], seen, where)
        else:
            _check_plain(header, seen, where)
        if header.type in EXTENDED or header.type in FILES:
            offset += -(-header.size // BLOCK) * BLOCK


def refuse(where: str, member: str, message: str) -> DocumentError:
    """Returns the refusal of an archive because of one member."""
    return DocumentError(
        "archive-refused",
        f"{where}, member '{printable(member, limit=200)}': {message}",
        hint="do not use this archive",
    )


def _check_plain(header: tarfile.TarInfo, seen: _Seen, where: str) -> None:
    if header.type not in PLAIN:
        raise refuse(
            where,
            header.name,
            "expected files, folders and links, found a device, a pipe or a sparse file",
        )
    if header.size < 0 or seen.claimed not in {None, b"%d" % header.size}:
        raise refuse(
            where,
            header.name,
            f"expected one size, found {header.size} in the header and {(seen.claimed or b'none')[:20]!r} in a record",
        )
    seen.in_a_row = 0
    seen.claimed = None


def _check_extended(header: tarfile.TarInfo, data: bytes, seen: _Seen, where: str) -> None:
    seen.in_a_row += 1
    if seen.in_a_row > MAX_EXTENDED_IN_A_ROW:
        found = f"expected at most {MAX_EXTENDED_IN_A_ROW} extended headers for one member"
        raise refuse(where, header.name, f"{found}, found more")
    is_global = header.type == tarfile.XGLTYPE
    bound = MAX_GLOBAL_BYTES if is_global else MAX_EXTENDED_BYTES
    if not 0 <= header.size <= bound:
        found = f"expected an extended header of at most {bound} bytes"
        raise refuse(where, header.name, f"{found}, found {header.size}")
    padded = data[: -(-header.size // BLOCK) * BLOCK]
    if header.type in LONG:
        if header.type == tarfile.GNUTYPE_LONGLINK:
            _check_link(padded.split(b"\0")[0], header.name, where)
        return
    records = _records(padded, header, where)
    if is_global:
        seen.globals += 1
        if seen.globals > MAX_GLOBAL_HEADERS or set(records) - {b"comment"}:
            raise refuse(
                where,
                header.name,
                "expected one global header that holds a comment, as git writes it, found more",
            )
        return
    if any(key.startswith(b"GNU.sparse.") for key in records):
        raise refuse(where, header.name, "expected plain files, found a sparse file")
    _check_link(records.get(b"linkpath", b""), header.name, where)
    seen.claimed = records.get(b"size", seen.claimed)


def _check_link(target: bytes, member: str, where: str) -> None:
    if len(target) > MAX_LINK_BYTES:
        found = f"expected a link target of at most {MAX_LINK_BYTES} bytes, found {len(target)}"
        raise refuse(where, member, found)


def _records(padded: bytes, header: tarfile.TarInfo, where: str) -> dict[bytes, bytes]:
    """Returns the records of a pax header, which must fill it up to its padding of zeros."""
    records: dict[bytes, bytes] = {}
    position = 0
    while match := _RECORD.match(padded, position):
        end = position + int(match[1])
        if end <= match.end() or padded[end - 1 : end] != b"\n":
            break
        records[match[2]] = padded[match.end() : end - 1]
        position = end
    if padded[position:].strip(b"\0"):
        raise refuse(where, header.name, "expected whole pax records, found others")
    return records
