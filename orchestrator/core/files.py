"""Files that are written whole or not at all, and read without following links out of a folder.

Writes only where it is told to. `write_atomic` survives a crash at any instant: the name holds the old
bytes or the new ones.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path, PurePosixPath

from orchestrator.core.errors import DocumentError, EnvironmentMissing


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Writes bytes to a neighbour, syncs them, and moves them into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
    try:
        with temporary.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def make_folders(folder: Path) -> None:
    """Makes a folder and what is missing above it, mode 0755 whatever the umask; leaves the mode of what is there."""
    if not folder.is_dir():
        make_folders(folder.parent)
        folder.mkdir()
        folder.chmod(0o755)


def require_writable(folder: Path, purpose: str) -> None:
    """Refuses a folder in which no file can be made, or its nearest parent that exists; leaves nothing.

    Only trying tells: permissions, read-only mounts, quotas and full disks look alike from outside.

    Raises:
        EnvironmentMissing: with what the system said.
    """
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    probe = place / f".memtrial-probe.{secrets.token_hex(6)}.tmp"
    try:
        try:
            with probe.open("xb") as handle:
                handle.write(b"probe")
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise EnvironmentMissing(
            "folder-not-writable",
            f"expected to write into {folder} ({purpose}), found: {error.strerror or error}",
            hint="make it writable, or name another folder (runs: MEMTRIAL_RESULTS)",
        ) from error


def sync_folder(folder: Path) -> None:
    """Makes a new or renamed name in the folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def safe_relative(path: str, *, where: str) -> PurePosixPath:
    """Returns a relative path that cannot leave its folder.

    Raises:
        DocumentError: empty, absolute, with `.`, `..`, an empty part, a NUL or a backslash.
    """
    parts = path.split("/")
    if not path or "\0" in path or "\\" in path or any(part in {"", ".", ".."} for part in parts):
        raise DocumentError(
            "path-not-confined",
            f"{where}: expected a plain relative path, found {path!r}",
            hint="use forward slashes, no leading slash and no '..'",
        )
    return PurePosixPath(path)


def read_confined(folder: Path, relative: str, *, max_bytes: int) -> bytes:
    """Reads a regular file below the folder without following any symbolic link below it.

    Raises:
        DocumentError: the path is unsafe, missing, not a regular file, or larger than `max_bytes`.
    """
    where = f"{folder.name}/{relative}"
    current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        parts = safe_relative(relative, where=where).parts
        for part in parts[:-1]:
            following = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
            os.close(current)
            current = following
        handle = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=current)
    except OSError as error:
        raise DocumentError(
            "file-missing",
            f"{where}: expected a regular file, found {error.strerror or error}",
            hint=f"restore {relative} below {folder}",
        ) from error
    finally:
        os.close(current)
    # A folder can be opened, but not as a stream; so its kind is asked first.
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_size > max_bytes:
        os.close(handle)
        raise DocumentError(
            "file-not-usable",
            f"{where}: expected a regular file of at most {max_bytes} bytes, found {found.st_size} bytes, type {stat.filemode(found.st_mode)[0]}",
            hint=f"replace {relative} below {folder}",
        )
    with os.fdopen(handle, "rb") as stream:
        return stream.read(max_bytes + 1)


def relink(link: Path, target: str) -> None:
    """Points a symbolic link at a target, in one step, whether it was there before or not.

    Args:
        link: the link; its folder exists.
        target: relative to that folder.

    Raises:
        OSError: the folder cannot be written.
    """
    temporary = link.with_name(f".{link.name}.{secrets.token_hex(4)}")
    try:
        temporary.symlink_to(target)
        temporary.replace(link)
    finally:
        temporary.unlink(missing_ok=True)
