"""Content-addressed bytes below `blobs/`, written whole or not at all and checked on every read."""

from __future__ import annotations

from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError
from orchestrator.core.files import write_atomic


class BlobStore:
    """Bytes by their SHA-256."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes) -> str:
        """Stores bytes and returns their SHA-256; equal bytes are stored once."""
        name = sha256_hex(data)
        path = self._path(name)
        if not path.exists():
            write_atomic(path, data)
        return name

    def get(self, sha256: str) -> bytes:
        """Returns the bytes of a digest.

        Raises:
            IntegrityError: the blob is missing or its bytes are not the ones recorded.
        """
        path = self._path(sha256)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise IntegrityError(
                "blob-missing",
                f"expected blob {sha256}, found no file {path}",
                hint="restore the results folder from a copy",
            ) from error
        found = sha256_hex(data)
        if found != sha256:
            raise IntegrityError(
                "blob-changed",
                f"{path}: expected SHA-256 {sha256}, found {found}",
                hint="restore the results folder from a copy",
            )
        return data

    def _path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256
