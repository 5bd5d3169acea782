"""Content-addressed bytes below `blobs/`, written whole or not at all and checked on every read.

A blob of digest D lies at `blobs/DD/D`, or compressed (gzip, RFC 1952) at `blobs/DD/D.gz` when that saves
at least an eighth. The name is always the digest of the bytes themselves.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError
from orchestrator.core.files import write_atomic

MAX_BLOB_BYTES = 256 * 1024 * 1024
_GZIP = 31
_MIN_COMPRESSED_BYTES = 512


class BlobWithheld(IntegrityError):
    """A public copy leaves this blob out on purpose."""


class BlobReader(Protocol):
    """Where the bytes of a digest come from."""

    def get(self, sha256: str) -> bytes:
        """Returns the bytes of a digest; raises IntegrityError if they are missing or others."""


class BlobStore:
    """Bytes by their SHA-256."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes) -> str:
        """Stores bytes and returns their SHA-256; equal bytes are stored once."""
        name = sha256_hex(data)
        plain, packed = (self._folder / path for path in blob_paths(name))
        if not plain.exists() and not packed.exists():
            smaller = pack(data)
            write_atomic(plain if smaller is None else packed, data if smaller is None else smaller)
        return name

    def get(self, sha256: str) -> bytes:
        """Returns the bytes of a digest.

        Raises:
            IntegrityError: the blob is missing or its bytes are not the ones recorded.
        """
        plain, packed = (self._folder / path for path in blob_paths(sha256))
        for path, unpacked in ((plain, False), (packed, True)):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue
            return checked(sha256, unpack(data, where=str(path)) if unpacked else data, str(path))
        raise missing(sha256, str(plain))

    def check_all(self) -> int:
        """Reads every blob and compares it with its name; returns how many there are.

        Raises:
            IntegrityError: one is not what its name says.
        """
        names = [path.name for path in sorted(self._folder.glob("??/*")) if path.name[0] != "."]
        for name in names:
            self.get(name.removesuffix(".gz"))
        return len(names)


class StagedBlobs(BlobStore):
    """A store whose new bytes are held in memory until all of them are to be written."""

    def __init__(self, folder: Path, documents: Iterable[bytes] = ()) -> None:
        super().__init__(folder)
        self._staged = {sha256_hex(data): data for data in documents}

    def put(self, data: bytes) -> str:
        """Takes bytes in and returns their SHA-256."""
        name = sha256_hex(data)
        self._staged[name] = data
        return name

    def get(self, sha256: str) -> bytes:
        """Returns the bytes of a digest, held or stored.

        Raises:
            IntegrityError: the blob is missing or its bytes are not the ones recorded.
        """
        staged = self._staged.get(sha256)
        return super().get(sha256) if staged is None else staged

    def store(self) -> None:
        """Writes what is held."""
        for data in self._staged.values():
            super().put(data)


def blob_paths(sha256: str) -> tuple[str, str]:
    """Returns the two places where a blob can be, plain and compressed, relative to the folder."""
    return f"{sha256[:2]}/{sha256}", f"{sha256[:2]}/{sha256}.gz"


def pack(data: bytes) -> bytes | None:
    """Returns the compressed bytes, or None where that would not pay."""
    if len(data) < _MIN_COMPRESSED_BYTES:
        return None
    deflate = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    packed = deflate.compress(data) + deflate.flush()
    return packed if len(packed) * 8 <= len(data) * 7 else None


def unpack(packed: bytes, *, where: str) -> bytes:
    """Decompresses one gzip member within the bound of a blob.

    Raises:
        IntegrityError: not one whole gzip member, or more than MAX_BLOB_BYTES.
    """
    inflate = zlib.decompressobj(_GZIP)
    try:
        data = inflate.decompress(packed, MAX_BLOB_BYTES + 1)
    except zlib.error as error:
        raise _unreadable(where, str(error)) from error
    if not inflate.eof or inflate.unused_data or len(data) > MAX_BLOB_BYTES:
        raise _unreadable(where, "an unfinished stream, bytes after it, or too many bytes")
    return data


def checked(sha256: str, data: bytes, where: str) -> bytes:
    """Returns the bytes if they are the ones that the digest names."""
    found = sha256_hex(data)
    if found != sha256:
        raise IntegrityError(
            "blob-changed",
            f"{where}: expected SHA-256 {sha256}, found {found}",
            hint="restore the results folder from a copy",
        )
    return data


def missing(sha256: str, where: str) -> IntegrityError:
    """Returns the refusal of a blob that is not there."""
    return IntegrityError(
        "blob-missing",
        f"expected blob {sha256}, found no file {where}",
        hint="restore the results folder from a copy",
    )


def _unreadable(where: str, found: str) -> IntegrityError:
    return IntegrityError(
        "blob-unreadable",
        f"{where}: expected one gzip member of at most {MAX_BLOB_BYTES} bytes, found {found}",
        hint="restore the results folder from a copy",
    )
