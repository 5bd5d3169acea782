"""Writes a sealed run as one archive of one exact form, after a scan for secrets that fails closed.

A public copy leaves named blobs out and says so in `withheld.json`; their digests stay in the sealed list.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from orchestrator.attest import layout
from orchestrator.audit.opening import Opened, check_contents, plain_names, read_seal, read_signer
from orchestrator.audit.readable import readings
from orchestrator.audit.trust import Trust
from orchestrator.audit.view import FolderView, SealedView
from orchestrator.core.errors import Negative, UsageError
from orchestrator.core.files import sync_folder
from orchestrator.core.ustar import write_archive
from orchestrator.gateway.accounts import BODIES_FILE
from orchestrator.ledger.blobs import blob_paths
from orchestrator.memory.redact import MARK, redact
from orchestrator.model.bundle import Withheld, WithheldFile


@dataclass(frozen=True, slots=True)
class ExportOutcome:
    """What was written."""

    path: Path
    files: int
    withheld: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choices:
    """What to leave out, which findings were reviewed (names or blob digests), and secrets by value.

    A known secret's value is never accepted.
    """

    withhold: frozenset[str] = frozenset()
    accept: frozenset[str] = frozenset()
    known_secrets: frozenset[bytes] = frozenset()


def export_run(folder: Path, out: Path, choices: Choices, trust: Trust) -> ExportOutcome:
    """Writes the archive; the name must be free.

    Raises:
        UsageError: `out` exists, or a withheld digest is no blob of the run.
        IntegrityError: the folder is not sealed, or was changed since.
        Negative: something looks like a secret.
    """
    if out.exists():
        raise UsageError(
            "out-exists", f"expected a free name, found {out}", hint="choose another --out"
        )
    opened = open_sealed(folder, trust)
    withheld = _withheld(opened.files, choices.withhold)
    names = [name for name in opened.files.names() if name not in withheld]
    _scan(opened.files, names, choices)
    extra = {name: FolderView(folder).read(name) for name in (layout.SUMS, layout.SEAL)}
    if withheld:
        extra[layout.WITHHELD] = Withheld(
            files=tuple(WithheldFile(path=path, sha256=withheld[path]) for path in sorted(withheld))
        ).canonical()
    temporary = out.parent / f".{out.name}.{secrets.token_hex(6)}.tmp"
    try:
        with temporary.open("xb") as stream:
            count = write_archive(
                stream,
                [*names, *extra],
                lambda name: extra[name] if name in extra else opened.files.read(name),
            )
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(out.parent)
    return ExportOutcome(out, count, tuple(sorted(withheld)))


def open_sealed(folder: Path, trust: Trust) -> Opened:
    """Opens a run's folder after the outer checks of verification."""
    view = FolderView(folder)
    signed = read_signer(view, plain_names(view), trust)
    return check_contents(signed, read_seal(signed), allow_withheld=trust.allow_withheld)


def _withheld(files: SealedView, wanted: Collection[str]) -> dict[str, str]:
    """Returns path and listed digest of every blob file that is to be left out."""
    found: dict[str, str] = {}
    for sha256 in wanted:
        paths = [layout.BLOBS + p for p in blob_paths(sha256) if files.has(layout.BLOBS + p)]
        if not paths:
            raise UsageError(
                "blob-unknown",
                f"expected a blob of this run, found none with digest {sha256}",
                hint="`memtrial audit` lists the blobs of a run",
            )
        found |= {path: files.digest(path) for path in paths}
    return found


def _scan(files: SealedView, names: list[str], choices: Choices) -> None:
    findings: list[str] = []
    for where, data in readings(files, names):
        if where in findings:
            continue
        known = {where, where.rpartition("/")[2].removesuffix(".gz")}
        known |= {BODIES_FILE} if where.startswith(BODIES_FILE) else set()
        if any(secret in data for secret in choices.known_secrets) or (
            not choices.accept & known and _tells_a_secret(data)
        ):
            findings.append(where)
    if findings:
        raise Negative(
            "secrets-found",
            f"expected no secret in {len(names)} files, found something like one in {', '.join(findings[:5])}"
            + (f" and {len(findings) - 5} more" if len(findings) > 5 else ""),
            hint="look at it; leave a blob out with --public --withhold DIGEST, or say --accept NAME if it is none",
        )


def _tells_a_secret(data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    if b"\0" in data:
        # In a binary file, such as a memory system's store, fields stand side by side: a mark ends its value.
        text = MARK.sub(lambda mark: f"{mark[0]}\n", text)
    return redact(text) != text


def secret_values(environment: dict[str, str]) -> frozenset[bytes]:
    """Returns the values of environment variables whose names speak of secrets, of 8 bytes or more."""
    words = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
    return frozenset(
        value.encode()
        for name, value in environment.items()
        if any(word in name.upper() for word in words)
        and len(value) >= 8
        and not Path(value).exists()
    )
