"""Names the programs on this side that decide what is injected and what a suite is run by.

Reads their versions and the digests of their data; runs none of them.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.memory.sqlite.search import sqlite_version
from orchestrator.memory.tokens import tokenizer_identity
from orchestrator.model.plan import Toolchain


def toolchain(images: Path) -> Toolchain:
    """Returns what this installation works with.

    Args:
        images: folder of the image recipes.
    """
    package, version, data_sha256 = tokenizer_identity()
    return Toolchain(
        sqlite_version=sqlite_version(),
        tokenizer=f"{package} {version}",
        tokenizer_data_sha256=data_sha256,
        python_lock_sha256=sha256_hex((images / "python" / "requirements.lock").read_bytes()),
    )
