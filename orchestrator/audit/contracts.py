"""The check of a bundle's memory: traces are made again from the stages, audits verified and made again.

Reads one opened bundle. Contracts that memory systems broke are counted and told; they refuse nothing.
"""

from __future__ import annotations

from collections import Counter

from orchestrator.attest import layout
from orchestrator.audit.memory import AuditFacts, verify_audit
from orchestrator.audit.opening import Opened
from orchestrator.audit.recheck import Found
from orchestrator.core.errors import IntegrityError, Negative
from orchestrator.ledger.blobs import BlobWithheld
from orchestrator.ledger.history import AttemptRecord
from orchestrator.model.memory import Injection, Remembered
from orchestrator.model.memory_audit import AnyAudit
from orchestrator.model.plan import Trial
from orchestrator.model.record import Stage
from orchestrator.model.task import History, Key
from orchestrator.pipeline.dossier import Dossier, load_key, stage_document
from orchestrator.pipeline.memory_audits import artifact_of, audits_of, recorded_trace
from orchestrator.pipeline.tracing import asked_of, is_traced, trace_trial


def check_memory(opened: Opened, dossier: Dossier) -> Found:
    """Verifies every trace and every audit.

    Raises:
        Negative: one does not follow from the record.
        IntegrityError: an audit is missing, or one too many is there.
        DocumentError: one has an unsupported version, an unknown field, or is not canonical.
    """
    made = audits_of(dossier, opened.files)
    present = {name for name in opened.files.names() if name.startswith(layout.AUDITS)}
    known = {layout.audit_name(seq) for seq in made}
    if present != known:
        odd = min(present ^ known)
        raise IntegrityError(
            "memory-audits-unexpected",
            f"expected one memory audit for each graded trial with memory, found {len(present)} for {len(known)}; {odd} differs",
            hint="get the bundle again from its source",
        )
    statuses: Counter[str] = Counter()
    tasks = _Tasks(opened, dossier)
    looked = withheld = 0
    for trial in dossier.plan.trials:
        if not _is_followed(dossier, trial):
            continue
        looked += 1
        try:
            audited = trial.seq in made
            status = (
                _verified(opened, dossier, trial, made[trial.seq])
                if audited
                else _status(opened, dossier, trial)
            )
            _retraced(opened, dossier, trial, tasks)
        except BlobWithheld:
            withheld += 1
            continue
        statuses[status] += 1
    told = ", ".join(
        f"{count} {name.replace('_', ' ')}" for name, count in sorted(statuses.items())
    )
    left_out = f"{withheld} withheld" if withheld else ""
    detail = "; ".join(part for part in (told, left_out) if part) or "no arm has memory"
    return Found(looked - withheld, detail, whole=not withheld)


def _is_followed(dossier: Dossier, trial: Trial) -> bool:
    """Whether a trial has a trace: it was graded, in an arm with memory."""
    graded = dossier.run.trial(trial.key).graded is not None
    return graded and is_traced(dossier.plan.condition(trial.condition_id))


def _status(opened: Opened, dossier: Dossier, trial: Trial) -> str:
    """Returns how the contract was kept in a trial without an audit, whose agent asked tools."""
    trace = recorded_trace(_attempt(dossier, trial), opened.files)
    return "not_applicable" if trace is None else trace.status


def _attempt(dossier: Dossier, trial: Trial) -> AttemptRecord:
    attempt = dossier.run.trial(trial.key).graded
    if attempt is None:
        raise IntegrityError(
            "stage-missing",
            f"{trial.key}: expected a graded attempt, found none",
            hint="restore the run's folder from a copy",
        )
    return attempt


def _verified(opened: Opened, dossier: Dossier, trial: Trial, again: AnyAudit | None) -> str:
    """Verifies one audit on its own, then compares it with the one that the record gives."""
    name = layout.audit_name(trial.seq)
    data = opened.files.read(name)
    attempt = _attempt(dossier, trial)
    trace = recorded_trace(attempt, opened.files)
    facts = AuditFacts(
        plan_sha256=dossier.plan_sha256,
        trial=trial.key,
        applies=trace is not None and trace.applies,
        remembered=stage_document(opened.files, attempt, Stage.REMEMBER, Remembered),
        injection=stage_document(opened.files, attempt, Stage.INJECT, Injection),
        trace=trace,
    )
    status = verify_audit(data, facts, where=name)
    if again is not None and again.canonical() != data:
        raise Negative(
            "memory-audit-differs",
            f"{name}: expected the audit that the record gives, found another",
            hint="the audit does not follow from the record: do not rely on what it says of memory",
        )
    return status


class _Tasks:
    """Timeline and key of the plan's tasks, each read once."""

    def __init__(self, opened: Opened, dossier: Dossier) -> None:
        self._opened = opened
        self._plan = dossier.plan
        self._read: dict[str, tuple[History, Key]] = {}

    def of(self, task_id: str) -> tuple[History, Key]:
        """Returns both; raises BlobWithheld where one of them was left out."""
        if task_id not in self._read:
            sha256 = self._plan.task(task_id).digests.history_sha256
            data = self._opened.files.get(sha256)
            history = History.parse_canonical(data, where=f"history of {task_id}")
            self._read[task_id] = history, load_key(self._plan, task_id, self._opened.files)
        return self._read[task_id]


def _retraced(opened: Opened, dossier: Dossier, trial: Trial, tasks: _Tasks) -> None:
    """Follows the facts again, from the stages' own documents."""
    attempt = _attempt(dossier, trial)
    condition = dossier.plan.condition(trial.condition_id)

    def read(name: str, stage: Stage = Stage.REMEMBER) -> bytes | None:
        sha256 = artifact_of(attempt, stage, name)
        return opened.files.get(sha256) if sha256 else None

    history, key = tasks.of(trial.task_id)
    again = trace_trial(
        trial.key,
        condition,
        history=history,
        key=key,
        read=read,
        remembered=stage_document(opened.files, attempt, Stage.REMEMBER, Remembered),
        injection=stage_document(opened.files, attempt, Stage.INJECT, Injection),
        diff=_bytes(opened, attempt, Stage.HARVEST, "diff"),
        output=_bytes(opened, attempt, Stage.ACT, "output"),
        asked=asked_of(lambda name: read(name, Stage.ACT)),
    )
    if again != recorded_trace(attempt, opened.files) or not is_traced(condition):
        raise Negative(
            "memory-trace-differs",
            f"{trial.key}: expected the memory trace that the stages give, found another",
            hint="the attribution was not made from this evidence: do not rely on it",
        )


def _bytes(opened: Opened, attempt: AttemptRecord, stage: Stage, name: str) -> bytes:
    sha256 = artifact_of(attempt, stage, name)
    return opened.files.get(sha256) if sha256 else b""
