"""The closed set of names that a bundle's files can have. Pure.

What stands in a folder of memtrial's own, and is none of its files, is refused; any other file, which
nothing recomputes, is told by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from orchestrator.attest import layout
from orchestrator.core.errors import IntegrityError
from orchestrator.gateway.accounts import BODIES_FILE, SPEND_FILE, TRAFFIC_FILE
from orchestrator.pipeline.dossier import Composition

# Checks of their own compare the names in these with what the record gives.
_CHECKED_APART = (layout.BLOBS, layout.AUDITS, "attestations/", "sigstore/", "trust/")
_FOLDERS = ("records/", "proofs/", "keys/", "checkpoints/", "gateway/")
_KNOWN = frozenset(
    {
        layout.CARD,
        layout.PLAN,
        layout.LEDGER,
        layout.CHECKPOINT,
        layout.REPORT,
        layout.REPORT_TEXT,
        layout.KEY,
        layout.SBOM,
        layout.MATERIALS,
        layout.CLAIMS,
        layout.CANARY,
        SPEND_FILE,
        TRAFFIC_FILE,
        BODIES_FILE,
    }
)
_STEM = re.compile(r"[0-9]{8,}-[0-9a-f]{16}")


def strange_names(names: Iterable[str], composed: Composition) -> tuple[str, ...]:
    """Returns the names of files that memtrial did not write.

    Raises:
        IntegrityError: one stands among memtrial's own, or roles stand there without an approval.
    """
    present = frozenset(names)
    known = _KNOWN | set(composed.plain) | set(_earlier(present))
    if layout.APPROVAL in present:
        known |= {layout.APPROVAL, layout.ROLES}
    strange = sorted(n for n in present - known if not n.startswith(_CHECKED_APART))
    own = [n for n in strange if n.startswith(_FOLDERS) or n == layout.ROLES]
    if own:
        raise IntegrityError(
            "file-of-no-kind",
            f"expected only files that the record gives among memtrial's own, found {', '.join(own[:3])}"
            + (f" and {len(own) - 3} more" if len(own) > 3 else ""),
            hint="no memtrial writes them: get the bundle again from its source",
        )
    return tuple(strange)


def _earlier(present: frozenset[str]) -> Iterable[str]:
    """Yields the three names of each earlier checkpoint."""
    for name in present:
        stem = name.removeprefix("checkpoints/")
        if stem != name and _STEM.fullmatch(stem):
            yield from (name, f"keys/{stem}.pub.pem", f"proofs/from-{stem}.json")


def told_names(strange: tuple[str, ...]) -> str:
    """Returns the words for them; none where there are none."""
    if not strange:
        return ""
    more = f" and {len(strange) - 5} more" if len(strange) > 5 else ""
    return f"not of memtrial, by digest alone: {', '.join(strange[:5])}{more}"
