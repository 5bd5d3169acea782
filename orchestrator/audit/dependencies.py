"""Compares installed Python distributions with the lock, their RECORDs and stored provenance.

Reads the lock, the installed files and a folder of provenance; writes nothing, asks no index.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from orchestrator.attest.piplock import Pin, normalised
from orchestrator.attest.provenance import Attested
from orchestrator.core.errors import MemtrialError

Standing = Literal["hash_pinned", "attested", "not_installed", "not_pinned", "mismatch"]


@dataclass(frozen=True, slots=True)
class DependencyFinding:
    """What is known of one locked distribution."""

    name: str
    version: str
    standing: Standing
    files: int
    detail: str


def check_dependencies(
    pins: Iterable[Pin],
    provenance: Mapping[str, bytes],
    verify: Callable[[str, bytes], tuple[Attested, ...]] | None,
) -> tuple[DependencyFinding, ...]:
    """Judges each locked distribution.

    Args:
        pins: the lock.
        provenance: stored provenance documents by file name.
        verify: verifies one document; None where the heavy extra is missing.
    """
    attested, refused = _attestations(provenance, verify)
    return tuple(_judge(pin, attested, refused) for pin in pins)


def _attestations(
    provenance: Mapping[str, bytes],
    verify: Callable[[str, bytes], tuple[Attested, ...]] | None,
) -> tuple[dict[str, Attested], dict[str, str]]:
    """Returns verified statements by digest of their file, and refusals by distribution."""
    attested: dict[str, Attested] = {}
    refused: dict[str, str] = {}
    for name, data in sorted(provenance.items()) if verify else ():
        try:
            found = verify(name, data) if verify else ()
        except MemtrialError as error:
            refused[normalised(name.partition("-")[0])] = error.message
        else:
            attested |= {item.sha256: item for item in found}
            for item in found:
                # A statement about another file than the lock's is as bad as one that does not verify.
                attested.setdefault(f"for {normalised(item.filename.partition('-')[0])}", item)
    return attested, refused


def _judge(pin: Pin, attested: dict[str, Attested], refused: dict[str, str]) -> DependencyFinding:
    files, wrong = _installed(pin)
    wrong = wrong or refused.get(pin.name, "")
    found = next((attested[sha256] for sha256 in sorted(pin.sha256s) if sha256 in attested), None)
    other = attested.get(f"for {pin.name}")
    hashes = f"{len(pin.sha256s)} hashes in the lock"
    cases: tuple[tuple[bool, Standing, str], ...] = (
        (not pin.sha256s, "not_pinned", "the lock gives no hash"),
        (bool(wrong), "mismatch", wrong),
        (
            other is not None and found is None,
            "mismatch",
            f"provenance is of {other.filename if other else ''}, which the lock does not pin",
        ),
        (
            found is not None,
            "attested",
            f"{found.filename} published by {found.publisher}" if found else "",
        ),
        (not files, "not_installed", hashes),
    )
    for holds, standing, detail in cases:
        if holds:
            return DependencyFinding(pin.name, pin.version, standing, files, detail)
    return DependencyFinding(
        pin.name, pin.version, "hash_pinned", files, f"{hashes}, no provenance stored"
    )


def _installed(pin: Pin) -> tuple[int, str]:
    """Compares the installed files with their RECORD; returns how many, and what is wrong."""
    try:
        found = metadata.distribution(pin.name)
    except metadata.PackageNotFoundError:
        return 0, ""
    if found.version != pin.version:
        return 0, f"version {found.version} is installed"
    count = 0
    for file in found.files or ():
        if file.hash is None or file.hash.mode != "sha256":
            continue
        path = Path(str(found.locate_file(file)))
        data = path.read_bytes() if path.is_file() else b""
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if digest != file.hash.value:
            return count, f"{file} is not the installed one"
        count += 1
    return count, "" if count else "no RECORD with hashes"
