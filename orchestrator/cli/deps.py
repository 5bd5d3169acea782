"""Says for each locked distribution: hash pinned, attested by its publisher, or not what the lock says.

Installed files are compared with their RECORD, and stored provenance (PEP 740, `*.provenance` in the
folder) is verified offline. Many distributions have none: that is said, and is no fault. Exit 1 on a mismatch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

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
        "--trusted-root",
        type=Path,
        metavar="FILE",
        help="sigstore trusted root (default: the one that the sigstore distribution ships)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Checks and prints one line per distribution."""
    from orchestrator.attest.piplock import parse_lock
    from orchestrator.audit.dependencies import check_dependencies
    from orchestrator.core.places import clone_root

    root = clone_root()
    lock = arguments.lock or (root / "requirements" / "run.lock" if root else None)
    if lock is None or not lock.is_file():
        raise UsageError(
            "lock-missing", f"expected a lock, found none at {lock}", hint="add --lock FILE"
        )
    folder = arguments.provenance or lock.parent / "provenance"
    stored = {p.name: p.read_bytes() for p in sorted(folder.glob("*.provenance"))}
    verifier = _verifier(arguments.trusted_root)
    pins = parse_lock(lock.read_text(encoding="utf-8"))
    findings = check_dependencies(pins, stored, verifier)
    counts = {
        standing: sum(1 for f in findings if f.standing == standing)
        for standing in ("attested", "hash_pinned", "not_installed", "not_pinned", "mismatch")
    }
    bad = counts["mismatch"] + counts["not_pinned"]
    if arguments.json:
        told = [asdict(finding) for finding in findings]
        render.document(
            {"counts": counts, "provenance_checked": bool(verifier), "distributions": told}
        )
        return Negative.exit_code if bad else 0
    for f in findings:
        render.text(f"{f.standing:<13} {f.name}=={f.version:<14} {f.files:>5} files  {f.detail}")
    render.text(", ".join(f"{n} {standing.replace('_', ' ')}" for standing, n in counts.items()))
    if verifier is None:
        render.note("provenance was not checked: pip install 'memtrial[sigstore]'")
    if bad:
        raise Negative(
            "dependencies-differ",
            f"expected every distribution as locked, found {counts['mismatch']} that differ and {counts['not_pinned']} without a hash",
            hint="run `make setup` to install from the lock",
        )
    render.text("next: memtrial verify latest")
    return 0


def _verifier(root: Path | None) -> Callable[[str, bytes], tuple[Attested, ...]] | None:
    """Returns what verifies a provenance document, or None without the heavy extra."""
    if find_spec("sigstore") is None or find_spec("pypi_attestations") is None:
        return None
    from orchestrator.attest.provenance import verify_provenance

    trusted = root.read_bytes() if root else None
    return lambda name, data: verify_provenance(data, where=name, trusted_root=trusted)
