"""Checks that the blobs of a record are the ones it names. Reads every one of them, writes nothing."""

from __future__ import annotations

from orchestrator.core.errors import IntegrityError
from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.history import RunRecord


def check_blobs(run: RunRecord, blobs: BlobStore) -> int:
    """Reads every blob that the ledger names, graded attempt or not; returns how many there are.

    Raises:
        IntegrityError: one is missing or has other bytes; the text says whose it is.
    """
    seen: set[str] = set()
    for sha256, what in _named(run):
        if sha256 in seen:
            continue
        try:
            blobs.get(sha256)
        except IntegrityError as error:
            raise IntegrityError(
                error.reference, f"{what}: {error.message}", hint=error.hint
            ) from error
        seen.add(sha256)
    return len(seen)


def _named(run: RunRecord) -> list[tuple[str, str]]:
    found = []
    for key, trial in run.trials.items():
        for attempt in trial.attempts:
            whose = f"{key} attempt {attempt.number}"
            for stage, done in attempt.stages.items():
                found.append((done.document_sha256, f"{whose}, {stage.value} document"))
                found += [(a.sha256, f"{whose}, {stage.value} {a.name}") for a in done.artifacts]
            if attempt.ended and attempt.ended.evidence:
                found.append((attempt.ended.evidence.sha256, f"{whose}, evidence"))
    return found
