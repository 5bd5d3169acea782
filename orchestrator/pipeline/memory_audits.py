"""Composes the memory audits of a recorded run, for its seal and for its verification.

Reads traces, stages and verdicts through the run's blobs; needs no answer key.
"""

from __future__ import annotations

from orchestrator.ledger.blobs import BlobReader, BlobWithheld
from orchestrator.ledger.history import AttemptRecord
from orchestrator.model.attribution import CONTROL_CONDITION
from orchestrator.model.memory import Injection, Remembered
from orchestrator.model.memory_audit import AnyAudit
from orchestrator.model.plan import Trial
from orchestrator.model.record import Stage
from orchestrator.model.trace import TRACE, MemoryTrace
from orchestrator.model.verdict import Verdict
from orchestrator.pipeline.dossier import Dossier, stage_document
from orchestrator.pipeline.tracing import is_audited
from orchestrator.scoring.contract import Audited, audit_of


def artifact_of(attempt: AttemptRecord, stage: Stage, name: str) -> str | None:
    """Returns the digest of an artifact of a recorded stage; None if there is none of that name."""
    done = attempt.stages.get(stage)
    found = [item.sha256 for item in done.artifacts if item.name == name] if done else []
    return found[0] if found else None


def recorded_trace(attempt: AttemptRecord, blobs: BlobReader) -> MemoryTrace | None:
    """Reads the trace that a grade recorded; None for an arm without memory."""
    sha256 = artifact_of(attempt, Stage.GRADE, TRACE)
    if sha256 is None:
        return None
    return MemoryTrace.parse_canonical(blobs.get(sha256), where="memory trace")


def audits_of(dossier: Dossier, blobs: BlobReader) -> dict[int, AnyAudit | None]:
    """Composes the audit of every graded trial of an arm that puts memory before its agent, by the trial's place in the plan.

    An audit that needs a withheld blob is None, and so is one whose trace is not recorded: which arms have
    memory is for the plan to say.
    """
    audits: dict[int, AnyAudit | None] = {}
    for trial in dossier.plan.trials:
        attempt = dossier.run.trial(trial.key).graded
        if attempt is None or not is_audited(dossier.plan.condition(trial.condition_id)):
            continue
        try:
            audits[trial.seq] = _audit(dossier, trial, attempt, blobs)
        except BlobWithheld:
            audits[trial.seq] = None
    return audits


def _audit(
    dossier: Dossier, trial: Trial, attempt: AttemptRecord, blobs: BlobReader
) -> AnyAudit | None:
    trace = recorded_trace(attempt, blobs)
    if trace is None:
        return None
    return audit_of(
        Audited(
            plan_sha256=dossier.plan_sha256,
            trial=trial.key,
            remembered=stage_document(blobs, attempt, Stage.REMEMBER, Remembered),
            injection=stage_document(blobs, attempt, Stage.INJECT, Injection),
            trace=trace,
            verdict=stage_document(blobs, attempt, Stage.GRADE, Verdict),
            control=_control(dossier, trial, blobs),
        )
    )


def _control(dossier: Dossier, trial: Trial, blobs: BlobReader) -> bool | None:
    """Returns whether the same cell without memory was resolved; None if it has no verdict."""
    twin = trial.model_copy(update={"condition_id": CONTROL_CONDITION})
    attempt = dossier.run.trial(twin.key).graded
    return stage_document(blobs, attempt, Stage.GRADE, Verdict).resolved if attempt else None
