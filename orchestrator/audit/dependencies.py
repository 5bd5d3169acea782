"""Compares installed Python distributions with the lock, locked wheels at hand, RECORDs and stored provenance.

Who may publish a distribution comes from a table, never from the provenance itself. Reads the installed
files; writes nothing, asks no index.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Literal

from orchestrator.attest.piplock import Pin, normalised
from orchestrator.attest.provenance import PUBLISHER_UNKNOWN, Attested
from orchestrator.audit.wheels import not_of_the_wheel
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import MemtrialError

Standing = Literal[
    "attested",
    "publisher_not_pinned",
    "hash_pinned",
    "not_installed",
    "not_pinned",
    "not_locked",
    "mismatch",
]
BAD: tuple[Standing, ...] = ("mismatch", "not_pinned", "not_locked")
Wheels = Callable[[frozenset[str]], tuple[str, bytes] | None]
Verify = Callable[[str, bytes], tuple[Attested, ...]]


@dataclass(frozen=True, slots=True)
class DependencyFinding:
    """What is known of one locked distribution."""

    name: str
    version: str
    standing: Standing
    files: int
    detail: str


@dataclass(slots=True)
class _Stored:
    """What stored provenance says: statements by digest and by distribution, refusals, kinds not checked."""

    by_sha256: dict[str, Attested] = field(default_factory=dict)
    by_name: dict[str, Attested] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    unchecked: dict[str, str] = field(default_factory=dict)
    documents: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Present:
    """What is installed of a distribution: how many files, what is wrong, and the wheel that it is tied to."""

    files: int
    wrong: str = ""
    wheel: str = ""
    wheel_sha256: str = ""

    @property
    def told(self) -> str:
        """Where the installed files come from."""
        if not self.files:
            return ""
        if self.wheel:
            return f"; installed files are those of {self.wheel}"
        return "; installed files as their own RECORD alone, for want of a locked wheel"


def check_dependencies(
    pins: Iterable[Pin],
    provenance: Mapping[str, bytes],
    verify: Verify | None,
    *,
    publishers: Mapping[str, str] | None = None,
    wheels: Wheels = lambda _: None,
) -> tuple[DependencyFinding, ...]:
    """Judges each locked distribution, and each stored document that is of none of them.

    Args:
        pins: the lock.
        provenance: stored provenance documents by file name.
        verify: verifies one document; None where the heavy extra is missing.
        publishers: who publishes a distribution, by its name: the address of a repository.
        wheels: returns name and bytes of a wheel that has one of some digests, if one is at hand.
    """
    locked = tuple(pins)
    stored = _read(provenance, verify)
    names = {pin.name for pin in locked}
    findings = [_judge(pin, stored, publishers or {}, wheels) for pin in locked]
    findings += [
        DependencyFinding(
            name, "", "not_locked", 0, f"{document} is of a distribution that the lock has not"
        )
        for document, name in sorted(stored.documents.items())
        if name not in names
    ]
    return tuple(findings)


def _read(provenance: Mapping[str, bytes], verify: Verify | None) -> _Stored:
    stored = _Stored()
    for document, data in sorted(provenance.items()):
        name = normalised(document.partition("-")[0])
        stored.documents[document] = name
        if verify is None:
            continue
        try:
            found = verify(document, data)
        except MemtrialError as error:
            kind = stored.unchecked if error.reference == PUBLISHER_UNKNOWN else stored.refused
            kind[name] = error.message
            continue
        for item in found:
            stored.by_sha256[item.sha256] = item
            stored.by_name[normalised(item.filename.partition("-")[0])] = item
    return stored


def _judge(
    pin: Pin, stored: _Stored, publishers: Mapping[str, str], wheels: Wheels
) -> DependencyFinding:
    present = _installed(pin, wheels)
    standing, detail = _stands(pin, stored, publishers.get(pin.name), present)
    told = present.told if standing not in BAD else ""
    return DependencyFinding(pin.name, pin.version, standing, present.files, detail + told)


def _stands(
    pin: Pin, stored: _Stored, publisher: str | None, present: _Present
) -> tuple[Standing, str]:
    if not pin.sha256s:
        return "not_pinned", "the lock gives no hash"
    found, other = _about(pin, stored, present), stored.by_name.get(pin.name)
    unchecked = stored.unchecked.get(pin.name, "")
    wrong = present.wrong or stored.refused.get(pin.name, "")
    if not wrong and found is None and other is not None:
        # A statement about another file than the lock's is as bad as one that does not verify.
        wrong = f"provenance is of {other.filename}, which the lock does not pin"
    if not wrong and publisher is not None and found is not None and found.publisher != publisher:
        wrong = f"{found.filename} was published by {found.publisher}, expected {publisher}"
    if not wrong and publisher is not None and unchecked:
        wrong = f"expected a statement by {publisher}, found: {unchecked}"
    if wrong:
        return "mismatch", wrong
    if found is not None and _covers(found, present):
        standing: Standing = "publisher_not_pinned" if publisher is None else "attested"
        return standing, f"{found.filename} published by {found.publisher}"
    hashes = f"{len(pin.sha256s)} hashes in the lock"
    if found is not None:
        hashes += f", provenance of {found.filename} alone, which is not what is installed"
    elif unchecked:
        hashes += f", provenance not checked: {unchecked}"
    elif present.files:
        hashes += ", no provenance stored"
    return "hash_pinned" if present.files else "not_installed", hashes


def _about(pin: Pin, stored: _Stored, present: _Present) -> Attested | None:
    """Returns the statement about the installed wheel, else about a locked wheel, else about any locked file."""
    found = [stored.by_sha256[sha256] for sha256 in pin.sha256s if sha256 in stored.by_sha256]
    found.sort(
        key=lambda item: (
            item.sha256 != present.wheel_sha256,
            not item.filename.endswith(".whl"),
            item.filename,
        )
    )
    return found[0] if found else None


def _covers(found: Attested, present: _Present) -> bool:
    """Whether a statement can be about what is installed: a source distribution never is."""
    if not present.files:
        return True
    if present.wheel_sha256:
        return found.sha256 == present.wheel_sha256
    return found.filename.endswith(".whl")


def _installed(pin: Pin, wheels: Wheels) -> _Present:
    """Compares the installed files with their RECORD, and that with a locked wheel's, if one is at hand."""
    try:
        found = metadata.distribution(pin.name)
    except metadata.PackageNotFoundError:
        return _Present(0)
    if found.version != pin.version:
        return _Present(0, f"version {found.version} is installed")
    count = 0
    for file in found.files or ():
        if file.hash is None or file.hash.mode != "sha256":
            continue
        path = Path(str(found.locate_file(file)))
        data = path.read_bytes() if path.is_file() else b""
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if digest != file.hash.value:
            return _Present(count, f"{file} is not the installed one")
        count += 1
    if not count:
        return _Present(0, "no RECORD with hashes")
    at_hand = wheels(pin.sha256s)
    if at_hand is None:
        return _Present(count)
    name, wheel = at_hand
    wrong = not_of_the_wheel(found, wheel, name=name)
    return _Present(count, wrong, name, sha256_hex(wheel))
