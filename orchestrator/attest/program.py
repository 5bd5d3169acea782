"""Which program made a bundle: the digest over memtrial's own source. Reads the package, knows no run.

A version says too little between releases. Words in reports and handouts change with the program; figures
must not, so a verifier that is another program compares those alone and says so.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from orchestrator.core.canonical import digest_sha256, sha256_hex

_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def program_sha256() -> str:
    """Returns the digest over names and contents of every source file of this installation."""
    sources = [path for kind in ("*.py", "*.sh") for path in _PACKAGE.rglob(kind)]
    return digest_sha256(
        [
            [path.relative_to(_PACKAGE).as_posix(), sha256_hex(path.read_bytes())]
            for path in sorted(sources)
            if "_data" not in path.relative_to(_PACKAGE).parts
        ]
    )
