"""Reads a source archive member by member, in memory, under bounds. Nothing is ever extracted to disk.

A member that no honest archive has (a name that leaves the archive, a device, a pipe, special
permissions) refuses the archive; git folders and links that leave the tree are left out and named in
the notes.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections import deque
from dataclasses import dataclass, field

from orchestrator.core.errors import DocumentError
from orchestrator.core.gittree import FileEntry
from orchestrator.core.printable import printable
from orchestrator.sources.tarheaders import check_headers
from orchestrator.sources.tarheaders import refuse as _refuse

MAX_MEMBERS = 50_000
MAX_MEMBER_BYTES = 64 * 1024 * 1024
MAX_TOTAL_BYTES = 256 * 1024 * 1024
# The tar as a whole: contents, headers and padding.
MAX_UNPACKED_BYTES = 384 * 1024 * 1024
MAX_PATH_BYTES = 1024
MAX_PATH_PARTS = 64
# As many links as a kernel follows before it gives up (path_resolution(7)).
MAX_LINKS_FOLLOWED = 40
# Of all links together; a link whose way is longer than what is left counts as leaving the tree.
MAX_LINK_STEPS = 1_000_000
SPECIAL_BITS = 0o7000


def read_archive(
    data: bytes, *, strip: int, where: str
) -> tuple[dict[str, FileEntry], tuple[str, ...]]:
    """Reads a tar archive.

    Args:
        data: the archive's bytes: plain, or compressed by gzip, bzip2 or xz.
        strip: how many leading path components to take off.
        where: name of the archive for the error text.

    Returns:
        The files by path, and notes on members that were left out.

    Raises:
        DocumentError: not an archive, beyond a bound, or a member that no honest archive has.
    """
    found = _Found(where)
    try:
        # Unpacked under a bound first: a single header can otherwise ask for any amount of memory.
        plain = _unpack(data, where)
        check_headers(plain, where)
        with tarfile.open(
            fileobj=io.BytesIO(plain), mode="r:", encoding="utf-8", errors="strict"
        ) as archive:
            for count, member in enumerate(archive):
                if count >= MAX_MEMBERS:
                    raise _refuse(
                        where, member.name, f"expected at most {MAX_MEMBERS} members, found more"
                    )
                path = _inner_path(member.name, strip, where)
                if path is not None and not member.isdir():
                    _take(archive, member, path, found)
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise DocumentError(
            "archive-unreadable",
            f"{where}: expected a whole tar archive, found: {error}",
            hint="fetch the archive again",
        ) from error
    drop_escaping_links(found.files, found.notes)
    return found.files, tuple(found.notes)


@dataclass(slots=True)
class _Found:
    """What has been read so far. `folders` holds every folder that a taken file lies in."""

    where: str
    files: dict[str, FileEntry] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    regular: dict[str, tarfile.TarInfo] = field(default_factory=dict)
    total_bytes: int = 0

    def add(self, member: tarfile.TarInfo, entry: FileEntry) -> None:
        """Takes a file in, unless its path clashes with an earlier one."""
        self.total_bytes += len(entry.data)
        if self.total_bytes > MAX_TOTAL_BYTES:
            raise _refuse(
                self.where,
                member.name,
                f"expected at most {MAX_TOTAL_BYTES} bytes in all, found more",
            )
        parents = _parents(entry.path)
        if (
            entry.path in self.files
            or entry.path in self.folders
            or any(p in self.files for p in parents)
        ):
            raise _refuse(
                self.where,
                member.name,
                "expected each path once, found it twice or as a file and a folder",
            )
        self.files[entry.path] = entry
        self.folders.update(parents)


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _unpack(data: bytes, where: str) -> bytes:
    packed = io.BytesIO(data)
    if data.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=packed) as stream:
            plain = stream.read(MAX_UNPACKED_BYTES + 1)
    elif data.startswith(b"BZh"):
        with bz2.BZ2File(packed) as stream:
            plain = stream.read(MAX_UNPACKED_BYTES + 1)
    elif data.startswith(b"\xfd7zXZ\0"):
        with lzma.LZMAFile(packed) as stream:
            plain = stream.read(MAX_UNPACKED_BYTES + 1)
    else:
        plain = data
    if len(plain) > MAX_UNPACKED_BYTES:
        raise DocumentError(
            "archive-refused",
            f"{where}: expected at most {MAX_UNPACKED_BYTES} bytes when unpacked, found more",
            hint="do not use this archive",
        )
    return plain


def _inner_path(name: str, strip: int, where: str) -> str | None:
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
        raise _refuse(
            where, name, "expected a name that stays inside the archive, found one that leaves it"
        )
    inner = [part for part in parts if part not in {"", "."}][strip:]
    if len(name.encode()) > MAX_PATH_BYTES or len(inner) > MAX_PATH_PARTS:
        raise _refuse(
            where,
            name,
            f"expected a path of at most {MAX_PATH_BYTES} bytes and {MAX_PATH_PARTS} parts, found more",
        )
    return "/".join(inner) or None


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, found: _Found) -> None:
    """Takes one member in, notes it, or refuses the archive."""
    where = found.where
    if not member.issym() and member.mode & SPECIAL_BITS:
        raise _refuse(where, member.name, f"expected plain permissions, found mode {member.mode:o}")
    if any(part.casefold() == ".git" for part in path.split("/")):
        found.notes.append(f"left out git folder member {path}")
    elif member.issym():
        found.add(member, FileEntry(path, "120000", member.linkname.encode()))
    else:
        data = _contents(archive, member, found)
        found.add(member, FileEntry(path, "100755" if member.mode & 0o111 else "100644", data))


def _contents(archive: tarfile.TarFile, member: tarfile.TarInfo, found: _Found) -> bytes:
    """Returns a file's bytes; a hard link gives the bytes of the earlier file that it names."""
    source: tarfile.TarInfo | None = member
    if member.islnk():
        # Only backwards, and only to a file: anything else has no honest use and invites loops.
        source = found.regular.get(_plain(member.linkname))
    else:
        found.regular[_plain(member.name)] = member
    if source is None:
        raise _refuse(
            found.where,
            member.name,
            f"expected a hard link to an earlier file of the archive, found one to {member.linkname!r}",
        )
    if not 0 <= source.size <= MAX_MEMBER_BYTES:
        raise _refuse(
            found.where,
            member.name,
            f"expected at most {MAX_MEMBER_BYTES} bytes, found {source.size}",
        )
    stream = archive.extractfile(source)
    data = stream.read() if stream is not None else b""
    if len(data) != source.size:
        raise _refuse(found.where, member.name, f"expected {source.size} bytes, found {len(data)}")
    return data


def _plain(name: str) -> str:
    return "/".join(part for part in name.split("/") if part not in {"", "."})


def drop_escaping_links(files: dict[str, FileEntry], notes: list[str]) -> None:
    """Leaves out every link whose way, followed through the other links, leaves the tree."""
    links = {path: entry.data.decode() for path, entry in files.items() if entry.mode == "120000"}
    left = MAX_LINK_STEPS
    for path, target in links.items():
        escapes, steps = _escapes(path, links, left)
        left -= steps
        if escapes:
            del files[path]
            shown = printable(f"{path} -> {target}", limit=400)
            notes.append(f"left out link {shown}, which leaves the tree")


def _escapes(path: str, links: dict[str, str], most_steps: int) -> tuple[bool, int]:
    """Walks as the kernel would: a lexical check alone is fooled by links to folders.

    Returns:
        Whether the way leaves the tree or is too long to be followed, and the parts that were walked.
    """
    todo = deque(path.split("/"))
    done: list[str] = []
    followed = steps = 0
    while todo:
        steps += 1
        if steps > most_steps:
            return True, steps
        part = todo.popleft()
        if part == "..":
            if not done:
                return True, steps
            done.pop()
        elif part not in {"", "."}:
            done.append(part)
            # No path of an archive, so no link, has more parts.
            target = links.get("/".join(done)) if len(done) <= MAX_PATH_PARTS else None
            if target is not None:
                followed += 1
                if target.startswith("/") or followed > MAX_LINKS_FOLLOWED:
                    return True, steps
                done.pop()
                parts = target.split("/")
                steps += len(parts)
                todo.extendleft(reversed(parts))
    return False, steps
