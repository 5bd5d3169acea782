"""What is installed, distribution by distribution: each file against its RECORD, and the RECORDs by digest.

Reads the interpreter's own site folders. A Python program is not one file; a changed module of any
distribution changes what runs.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import Distribution, distributions
from pathlib import Path

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.errors import IntegrityError


def installed_manifest_sha256() -> str:
    """Returns the digest over name, version and RECORD of every installed distribution.

    Raises:
        IntegrityError: a file is not what its RECORD says.
    """
    found = sorted(
        (d.metadata["Name"].lower(), d.version, _record_sha256(d)) for d in distributions()
    )
    return digest_sha256([list(item) for item in found])


def _record_sha256(distribution: Distribution) -> str:
    name = distribution.metadata["Name"]
    for file in distribution.files or ():
        if file.hash is None or file.hash.mode != "sha256":
            continue
        path = Path(str(distribution.locate_file(file)))
        if not path.is_file() or _encoded(path) != file.hash.value:
            raise IntegrityError(
                "installed-file-changed",
                f"{name}: expected {file} as its RECORD says, found other bytes or none",
                hint="make the environment again from the hash-pinned lock: `make setup`",
            )
    return sha256_hex((distribution.read_text("RECORD") or "").encode())


def _encoded(path: Path) -> str:
    digest = hashlib.sha256(path.read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
