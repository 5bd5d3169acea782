"""Moves the verified cache to a machine without indexes: every file with its hash, checked on both sides.

An export is a folder of `downloads/<key>/<name>` and one manifest. Nothing is taken over whose bytes do not
have the hash of the manifest, and nothing at all unless all of it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError, UsageError
from orchestrator.core.files import read_confined, safe_relative, write_atomic
from orchestrator.model.base import Closed, Document, Sha256, Text

MANIFEST = "manifest.json"
MAX_FILE_BYTES = 1024 * 1024 * 1024


class MovedFile(Closed):
    """A file of an export, by its path in the cache."""

    path: Text
    sha256: Sha256
    bytes: int = Field(ge=0)


class CacheManifest(Document):
    """`manifest.json` of an export."""

    files: tuple[MovedFile, ...] = Field(min_length=1)


def export_cache(cache: Path, paths: Iterable[Path], out: Path) -> CacheManifest:
    """Copies files of the cache into a new folder and writes the manifest last.

    Raises:
        DocumentError: the folder holds files already.
    """
    if out.exists() and any(out.iterdir()):
        raise DocumentError(
            "out-not-empty",
            f"{out}: expected a new or empty folder, found files",
            hint="choose another folder",
        )
    moved = []
    for path in sorted(set(paths)):
        name = path.relative_to(cache).as_posix()
        data = path.read_bytes()
        write_atomic(out / name, data)
        moved.append(MovedFile(path=name, sha256=sha256_hex(data), bytes=len(data)))
    manifest = CacheManifest(files=tuple(moved))
    write_atomic(out / MANIFEST, manifest.canonical() + b"\n")
    return manifest


def import_cache(folder: Path, cache: Path) -> CacheManifest:
    """Checks every file of an export, then takes all of them over.

    Raises:
        UsageError: there is no export.
        IntegrityError: a file is missing or has other bytes; nothing was taken over.
        DocumentError: the manifest names a path outside the cache.
    """
    if not (folder / MANIFEST).is_file():
        raise UsageError(
            "export-missing",
            f"expected {MANIFEST} in {folder}, found none",
            hint="make one with `memtrial sources export DIR` on a machine with indexes",
        )
    manifest = CacheManifest.parse((folder / MANIFEST).read_bytes(), where=MANIFEST)
    for moved in manifest.files:
        where = safe_relative(moved.path, where=MANIFEST)
        if where.parts[0] not in {"downloads", "images"}:
            raise DocumentError(
                "path-not-confined",
                f"{MANIFEST}: expected files of downloads and images, found {moved.path}",
                hint="do not use this export",
            )
        found = sha256_hex(read_confined(folder, moved.path, max_bytes=MAX_FILE_BYTES))
        if found != moved.sha256:
            raise IntegrityError(
                "archive-changed",
                f"{moved.path}: expected SHA-256 {moved.sha256}, found {found}",
                hint="copy the export again",
            )
    for moved in manifest.files:
        data = read_confined(folder, moved.path, max_bytes=MAX_FILE_BYTES)
        write_atomic(cache / moved.path, data)
    return manifest
