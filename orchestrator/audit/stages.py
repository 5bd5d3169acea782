"""The check of a bundle's attempts: every document against its sources, every end against the documents.

Covers all attempts, also those without a verdict: what was thrown away is looked at as closely as what counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from orchestrator.attest import layout
from orchestrator.audit.artifacts import check_artifacts, check_isolation
from orchestrator.audit.asked import check_asked
from orchestrator.audit.attempts import Attempted, attempted
from orchestrator.audit.ends import check_end
from orchestrator.audit.opening import Opened
from orchestrator.audit.products import (
    check_acted,
    check_harvest,
    check_metrics,
)
from orchestrator.audit.recheck import Found
from orchestrator.audit.relive import check_injection, check_life
from orchestrator.audit.searches import check_screening
from orchestrator.ledger.blobs import BlobWithheld
from orchestrator.pipeline.dossier import Dossier

CHECKS: tuple[Callable[[Attempted], None], ...] = (
    check_end,
    check_artifacts,
    check_life,
    check_injection,
    check_isolation,
    check_acted,
    check_asked,
    check_harvest,
    check_screening,
    check_metrics,
)

# In every run, whatever it came to.
OWN_WORD = "exit codes, harvested trees, sizes, listings of images and what memory systems ranked are the record's own word"


def check_stages(opened: Opened, dossier: Dossier) -> Found:
    """Checks every attempt.

    Raises:
        IntegrityError: a document, an artifact or an end does not follow from what it was made of.
    """
    attempts = withheld = 0
    words: Counter[str] = Counter()
    for seen in attempted(dossier, opened.files, _canaries(opened), words):
        attempts += 1
        for check in CHECKS:
            try:
                check(seen)
            except BlobWithheld:
                withheld += 1
    told = [f"{withheld} parts withheld"] if withheld else []
    told += [f"{times} {what}, by the record's own word" for what, times in sorted(words.items())]
    detail = "; ".join([*told, OWN_WORD]) if attempts else "no attempt was made"
    return Found(attempts, detail, not told)


def _canaries(opened: Opened) -> str | None:
    """Returns what the run's canaries are derived from: the one that lay on the host."""
    data = opened.files.optional(layout.CANARY)
    return None if data is None else data.decode("ascii").strip()
