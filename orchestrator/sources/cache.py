"""The download cache: files by the SHA-256 of their bytes, so that everything works offline once fetched.

Writes only below `<cache>/downloads`, and only bytes that have the hash they are filed under. A file
whose bytes no longer have it is as good as absent.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError
from orchestrator.core.files import write_atomic

FOLDER = "downloads"


def cached(cache: Path, sha256: str, *, suffix: str = "") -> Path | None:
    """Returns the cached file of a hash whose name ends in `suffix`, its bytes checked; None without one."""
    folder = cache / FOLDER / sha256
    for path in sorted(folder.glob("*")) if folder.is_dir() else []:
        whole = path.name.endswith(suffix) and not path.name.startswith(".") and path.is_file()
        if whole and sha256_hex(path.read_bytes()) == sha256:
            return path
    return None


def keep(cache: Path, sha256: str, name: str, data: bytes) -> Path:
    """Files bytes under their hash and returns the path.

    Raises:
        IntegrityError: the bytes have another hash.
    """
    found = sha256_hex(data)
    if found != sha256:
        raise IntegrityError(
            "archive-changed",
            f"{name}: expected SHA-256 {sha256}, found {found}",
            hint="do not use this file; check the pin",
        )
    path = cache / FOLDER / sha256 / name
    write_atomic(path, data)
    return path
