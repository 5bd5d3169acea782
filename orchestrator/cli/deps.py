"""Says for each locked distribution: hash pinned, attested by its pinned publisher, or not what the lock says.

Installed files are compared with their RECORD, and that with the locked wheel's where it is at hand. Stored
provenance (PEP 740, `*.provenance` in the folder) is verified offline; many distributions have none, which
is said and no fault. Exit 1 on a mismatch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from orchestrator.cli import render
from orchestrator.core.errors import Negative, UsageError

if TYPE_CHECKING:
    from orchestrator.attest.provenance import Attested


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("action", choices=["verify"])
    parser.add_argument(
        "--lock", type=Path, metavar="FILE", help="default: the clone's requirements/run.lock"
    )
    parser.add_argument(
        "--provenance",
        type=Path,
        metavar="DIR",
        help="folder of stored provenance documents (default: provenance/ beside the lock)",
    )
    parser.add_argument(
        "--wheels",
        type=Path,
        metavar="DIR",
        help="folder of wheels to look for the locked ones in, beside memtrial's own cache",
    )
    parser.add_argument(
        "--trusted-root",
        type=Path,
        metavar="FILE",
        help="sigstore trusted root (default: the one that the sigstore distribution ships)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Checks and prints one line per distribution."""
    from orchestrator.attest.piplock import parse_lock
    from orchestrator.audit.dependencies import BAD, Standing, check_dependencies
    from orchestrator.core.places import clone_root

    root = clone_root()
    lock = arguments.lock or (root / "requirements" / "run.lock" if root else None)
    if lock is None or not lock.is_file():
        raise UsageError(
            "lock-missing", f"expected a lock, found none at {lock}", hint="add --lock FILE"
        )
    verifier = _verifier(arguments.trusted_root)
    pins = parse_lock(lock.read_text(encoding="utf-8"))
    findings = check_dependencies(
        pins,
        _stored(arguments.provenance, lock.parent / "provenance"),
        verifier,
        publishers=_publishers(root / "requirements" / "publishers.json" if root else None),
        wheels=_wheels(arguments.wheels),
    )
    counts = {
        standing: sum(1 for f in findings if f.standing == standing)
        for standing in get_args(Standing)
    }
    bad = sum(counts[standing] for standing in BAD)
    if arguments.json:
        told = [asdict(finding) for finding in findings]
        render.document(
            {"counts": counts, "provenance_checked": bool(verifier), "distributions": told}
        )
        return Negative.exit_code if bad else 0
    for f in findings:
        named = f"{f.name}=={f.version}" if f.version else f.name
        render.text(f"{_told(f.standing):<31} {named:<28} {f.files:>5} files  {f.detail}")
    render.text(", ".join(f"{n} {_told(standing)}" for standing, n in counts.items()))
    if verifier is None:
        render.note("provenance was not checked: pip install 'memtrial[sigstore]'")
    if bad:
        raise Negative(
            "dependencies-differ",
            f"expected every distribution as locked, found {counts['mismatch']} that differ, {counts['not_pinned']} without a hash and {counts['not_locked']} provenance documents of others",
            hint="run `make setup` to install from the lock",
        )
    render.text("next: memtrial verify latest")
    return 0


def _told(standing: str) -> str:
    told = {"publisher_not_pinned": "attested, publisher not pinned"}
    return told.get(standing, standing.replace("_", " "))


def _stored(given: Path | None, default: Path) -> dict[str, bytes]:
    """Returns the stored provenance documents; a folder that was asked for must be there."""
    folder = given or default
    if given is not None and not folder.is_dir():
        raise _missing("a folder of provenance", folder, "--provenance")
    return {p.name: p.read_bytes() for p in sorted(folder.glob("*.provenance"))}


def _publishers(path: Path | None) -> dict[str, str]:
    """Returns who publishes what; only the clone's own table counts."""
    from orchestrator.model.publishers import Publishers

    if path is None or not path.is_file():
        return {}
    return Publishers.parse(path.read_bytes(), where=path.name).publishers


def _wheels(folder: Path | None) -> Callable[[frozenset[str]], tuple[str, bytes] | None]:
    """Returns what finds a wheel by its digest: in the folder, then in memtrial's cache."""
    from orchestrator.core.canonical import sha256_hex
    from orchestrator.core.places import cache_root
    from orchestrator.sources.cache import cached

    if folder is not None and not folder.is_dir():
        raise _missing("a folder of wheels", folder, "--wheels")
    given = {sha256_hex(p.read_bytes()): p for p in sorted(folder.glob("*.whl"))} if folder else {}

    def find(sha256s: frozenset[str]) -> tuple[str, bytes] | None:
        for sha256 in sorted(sha256s):
            path = given.get(sha256) or cached(cache_root(), sha256, suffix=".whl")
            if path is not None:
                return path.name, path.read_bytes()
        return None

    return find


def _missing(what: str, path: Path, option: str) -> UsageError:
    return UsageError(
        "file-missing", f"expected {what} at {path}, found none", hint=f"check the path of {option}"
    )


def _verifier(root: Path | None) -> Callable[[str, bytes], tuple[Attested, ...]] | None:
    """Returns what verifies a provenance document, or None without the heavy extra.

    Raises:
        UsageError: there is no file at the trusted root's path.
        DocumentError: it is no trusted root.
    """
    if root is not None and not root.is_file():
        raise _missing("a trusted root", root, "--trusted-root")
    if find_spec("sigstore") is None or find_spec("pypi_attestations") is None:
        return None
    from orchestrator.attest.provenance import verify_provenance
    from orchestrator.attest.trustroots import check_root

    trusted = root.read_bytes() if root else None
    if trusted is not None:
        check_root(trusted, where="trusted root")
    return lambda name, data: verify_provenance(data, where=name, trusted_root=trusted)
