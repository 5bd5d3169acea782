"""Reads a source archive member by member, in memory, under bounds. Nothing is ever extracted to disk.

A name that leaves the archive, a device or a pipe refuses the archive; git folders and links that leave
the tree are left out and named in the notes.
"""

from __future__ import annotations

import io
import posixpath
import tarfile

from orchestrator.core.errors import DocumentError
from orchestrator.core.gittree import FileEntry

MAX_MEMBERS = 50_000
MAX_MEMBER_BYTES = 64 * 1024 * 1024
MAX_TOTAL_BYTES = 512 * 1024 * 1024


def read_archive(data: bytes, *, strip: int, where: str) -> tuple[dict[str, FileEntry], tuple[str, ...]]:
    """Reads a tar archive.

    Args:
        data: the archive's bytes (any compression that tarfile knows).
        strip: how many leading path components to take off.
        where: name of the archive for the error text.

    Returns:
        The files by path, and notes on members that were left out.

    Raises:
        DocumentError: not an archive, beyond a bound, or a member that no honest archive has.
    """
    files: dict[str, FileEntry] = {}
    notes: list[str] = []
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for count, member in enumerate(archive):
                total += max(member.size, 0)
                if count >= MAX_MEMBERS or member.size > MAX_MEMBER_BYTES or total > MAX_TOTAL_BYTES:
                    raise _refuse(where, member.name, f"expected at most {MAX_MEMBERS} members, {MAX_MEMBER_BYTES} bytes each and {MAX_TOTAL_BYTES} in all, found more")
                path = _inner_path(member.name, strip, where)
                if path is not None:
                    _take(archive, member, path, where, files, notes)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DocumentError("archive-unreadable", f"{where}: expected a tar archive, found: {error}", hint="fetch the archive again") from error
    return files, tuple(notes)


def _refuse(where: str, member: str, message: str) -> DocumentError:
    return DocumentError("archive-refused", f"{where}, member {member!r}: {message}", hint="do not use this archive")


def _inner_path(name: str, strip: int, where: str) -> str | None:
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
        raise _refuse(where, name, "expected a name that stays inside the archive, found one that leaves it")
    inner = [part for part in parts if part not in {"", "."}][strip:]
    return "/".join(inner) or None


def _take(
    archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, where: str,
    files: dict[str, FileEntry], notes: list[str],
) -> None:
    """Takes one member in, notes it, or refuses the archive."""
    if member.isdir():
        return
    if any(part.casefold() == ".git" for part in path.split("/")):
        notes.append(f"left out git folder member {path}")
    elif member.issym():
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), member.linkname))
        if member.linkname.startswith("/") or target == ".." or target.startswith("../"):
            notes.append(f"left out link {path} -> {member.linkname}, which leaves the tree")
        else:
            files[path] = FileEntry(path, "120000", member.linkname.encode())
    elif member.isfile() or member.islnk():
        if member.mode & 0o7000:
            raise _refuse(where, member.name, f"expected plain permissions, found mode {member.mode:o}")
        stream = archive.extractfile(member)
        if stream is None:
            raise _refuse(where, member.name, "expected a file, found a link to nothing")
        files[path] = FileEntry(path, "100755" if member.mode & 0o111 else "100644", stream.read())
    else:
        raise _refuse(where, member.name, "expected files, folders and links, found a device or pipe")
