"""A bundle as names and bytes, from a folder or an archive; nothing is unpacked and no link is followed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from orchestrator.attest import layout
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError, UsageError
from orchestrator.core.files import read_confined
from orchestrator.core.ustar import ArchiveReader
from orchestrator.ledger.blobs import BlobWithheld, blob_paths, checked, missing, unpack

MAX_FILE_BYTES = 512 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9._/-]{1,100}")


class BundleView(Protocol):
    """Where a bundle's bytes come from."""

    def names(self) -> tuple[str, ...]:
        """Returns the names of all files; raises if something is not a plain file."""

    def read(self, name: str) -> bytes:
        """Returns the bytes of a file; raises if it is not there."""


class FolderView:
    """A bundle in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> tuple[str, ...]:
        """Returns all names, sorted.

        Raises:
            IntegrityError: a link, device, pipe or a name that no bundle has.
        """
        found: list[str] = []
        waiting = [self._folder]
        while waiting:
            folder = waiting.pop()
            with os.scandir(folder) as listed:
                entries = list(listed)
                if not entries and folder != self._folder:
                    raise _not_plain(folder.relative_to(self._folder).as_posix())
                for entry in entries:
                    name = Path(entry.path).relative_to(self._folder).as_posix()
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif not entry.is_file(follow_symlinks=False) or not _NAME.fullmatch(name):
                        raise _not_plain(name)
                    else:
                        found.append(name)
        return tuple(sorted(found))

    def read(self, name: str) -> bytes:
        """Returns the bytes of a file, following no link below the folder."""
        return read_confined(self._folder, name, max_bytes=MAX_FILE_BYTES)


def _not_plain(name: str) -> IntegrityError:
    return IntegrityError(
        "bundle-not-plain",
        f"{name!r}: expected plain files with plain names and no empty folder, found something else",
        hint="get the bundle again from its source; links are never followed",
    )


class ArchiveView:
    """A bundle in an archive that `memtrial export` made."""

    def __init__(self, archive: ArchiveReader) -> None:
        self._archive = archive

    def names(self) -> tuple[str, ...]:
        """Returns all names, sorted."""
        return self._archive.names()

    def read(self, name: str) -> bytes:
        """Returns the bytes of a file."""
        return self._archive.read(name, max_bytes=MAX_FILE_BYTES)


class MemoryView:
    """A bundle held in memory."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def names(self) -> tuple[str, ...]:
        """Returns all names, sorted."""
        return tuple(sorted(self._files))

    def read(self, name: str) -> bytes:
        """Returns the bytes of a file."""
        data = self._files.get(name)
        if data is None:
            raise DocumentError(
                "file-missing", f"expected {name}, found none", hint="get the bundle again"
            )
        return data


class SealedView:
    """The files that a verified SHA256SUMS lists: each read checks the digest again."""

    def __init__(
        self, view: BundleView, digests: Mapping[str, str], withheld: frozenset[str]
    ) -> None:
        self._view = view
        self._digests = digests
        self.withheld = withheld

    def names(self) -> tuple[str, ...]:
        """Returns the listed names that are present."""
        return tuple(name for name in self._digests if name not in self.withheld)

    def has(self, name: str) -> bool:
        """Tells whether a file is listed and present."""
        return name in self._digests and name not in self.withheld

    def digest(self, name: str) -> str:
        """Returns the listed digest of a file."""
        return self._digests[name]

    def optional(self, name: str) -> bytes | None:
        """Returns the bytes of a file, or None if the list has none."""
        return self.read(name) if self.has(name) else None

    def read(self, name: str) -> bytes:
        """Returns the bytes of a listed file.

        Raises:
            IntegrityError: it is not listed, or its bytes are others.
        """
        expected = self._digests.get(name)
        if expected is None:
            raise IntegrityError(
                "file-not-listed",
                f"{name}: expected a line in {layout.SUMS}, found none",
                hint="get the bundle again from its source",
            )
        data = self._view.read(name)
        if sha256_hex(data) != expected:
            raise IntegrityError(
                "file-changed",
                f"{name}: expected SHA-256 {expected}, found {sha256_hex(data)}",
                hint="get the bundle again from its source",
            )
        return data

    def get(self, sha256: str) -> bytes:
        """Returns a blob by the digest of its bytes (the port of `ledger.blobs.BlobReader`)."""
        plain, packed = (layout.BLOBS + path for path in blob_paths(sha256))
        if self.has(plain):
            return checked(sha256, self.read(plain), plain)
        if self.has(packed):
            return checked(sha256, unpack(self.read(packed), where=packed), packed)
        if plain in self.withheld or packed in self.withheld:
            raise BlobWithheld(
                "blob-withheld",
                f"blob {sha256} was withheld from this copy",
                hint="ask the publisher for the whole bundle",
            )
        raise missing(sha256, plain)


def open_view(path: Path) -> tuple[BundleView, ArchiveReader | None]:
    """Opens a bundle's folder or archive; the second value, if any, is to be closed by the caller.

    Raises:
        UsageError: there is neither.
        IntegrityError: an archive that is not in its one form.
    """
    if path.is_dir():
        return FolderView(path.resolve()), None
    if not path.is_file():
        raise UsageError(
            "bundle-missing",
            f"expected a run's folder or an archive, found none at {path}",
            hint="list results/ for the runs that there are",
        )
    archive = ArchiveReader(path)
    return ArchiveView(archive), archive
