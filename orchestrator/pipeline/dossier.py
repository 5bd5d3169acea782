"""Reads a run's record as a whole and composes all that a seal says about it. Pure over the bytes it is given.

The seal signs what `compose` returns, and verification composes it again from the bundle and compares:
one function, so that a statement can say nothing that the record does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from orchestrator.attest import layout
from orchestrator.attest.handout import render_guide, render_script
from orchestrator.attest.statements import RunFacts, TrialFacts, run_statement, trial_statements
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError
from orchestrator.core.notes import Checkpoint
from orchestrator.ledger.blobs import BlobReader, BlobWithheld
from orchestrator.ledger.chain import LedgerContent, parse_ledger
from orchestrator.ledger.history import AttemptRecord, RunRecord, replay
from orchestrator.model.attribution import Charge
from orchestrator.model.base import Document
from orchestrator.model.bundle import (
    BundleCard,
    InclusionProof,
    LinePin,
    TrialProofs,
    TrialRecordCard,
)
from orchestrator.model.memory import Injection, Remembered
from orchestrator.model.outcome import Outcome
from orchestrator.model.plan import Plan, Trial
from orchestrator.model.record import AttemptEnded, AttemptStarted, MemoryStep, Stage, StageDone
from orchestrator.model.report import RunReport, report_bytes
from orchestrator.model.spending import Spending
from orchestrator.model.statement import ArmResult, CheckpointPin
from orchestrator.model.task import Key
from orchestrator.model.verdict import Verdict

D = TypeVar("D", bound=Document)


@dataclass(frozen=True, slots=True)
class Dossier:
    """A run as recorded: plan, ledger, and the lines of each trial."""

    plan: Plan
    content: LedgerContent
    run: RunRecord
    lines: dict[str, tuple[int, ...]]

    @property
    def run_id(self) -> str:
        """The id under which the ledger began."""
        return self.run.started.run_id if self.run.started else "none"

    @property
    def plan_sha256(self) -> str:
        """The plan's digest, by the ledger's first line; `read_dossier` has compared the two."""
        return self.run.started.plan_sha256 if self.run.started else ""

    def checkpoint(self) -> Checkpoint:
        """Returns the ledger's size and root under its name."""
        return Checkpoint(
            f"memtrial.local/{self.run_id}", self.content.tree.size, self.content.tree.root()
        )


@dataclass(frozen=True, slots=True)
class Attached:
    """The files beside the record that the summary of a run names; `report` is what `report_data` says."""

    report_data: bytes
    report: RunReport
    approval_data: bytes | None
    claims_data: bytes | None

    @classmethod
    def read(
        cls, read: Callable[[str], bytes | None], report_data: bytes, *, trials: int
    ) -> Attached:
        """Reads them.

        Args:
            read: gives a file of the run by name; None where there is none.
            report_data: report.json as it stands, or is to stand, beside the record.
            trials: of the plan; they bound how large the report may be.

        Raises:
            DocumentError: the report is malformed.
        """
        bound = report_bytes(trials)
        report = RunReport.parse(report_data, where=layout.REPORT, max_bytes=bound)
        return cls(report_data, report, read(layout.APPROVAL), read(layout.CLAIMS))

    def charges(self) -> dict[str, Charge | None]:
        """Returns to what the report charges each trial."""
        return {row.trial: row.charge for row in self.report.trials}

    def arms(self) -> tuple[ArmResult, ...]:
        """Returns what the report counts for each arm."""
        return tuple(
            ArmResult(
                agent=row.agent,
                condition=row.condition_id,
                verdicts=row.verdicts,
                resolved=row.resolved.passed,
            )
            for row in self.report.arms
        )


@dataclass(frozen=True, slots=True)
class Composition:
    """What a seal writes: files as they are, and payloads to be signed, one a line of their file.

    A payload is None where it needs a blob that is withheld.
    """

    plain: dict[str, bytes]
    payloads: dict[str, tuple[bytes | None, ...]]


def read_dossier(plan_data: bytes, ledger_data: bytes) -> Dossier:
    """Reads plan and ledger and checks that they belong together.

    Raises:
        DocumentError: one of them is malformed or not canonical.
        IntegrityError: the ledger is broken, torn, or of another plan.
    """
    plan = Plan.parse_canonical(plan_data, where=layout.PLAN)
    content = parse_ledger(ledger_data, where=layout.LEDGER)
    run = replay(content.entries)
    if run.started is None or run.started.plan_sha256 != plan.digest_sha256() or content.torn_bytes:
        raise IntegrityError(
            "plan-changed",
            f"expected whole lines that begin with plan {plan.digest_sha256()[:16]}, found {content.torn_bytes} torn bytes or another plan",
            hint="run `memtrial resume`, or restore the run's folder from a copy",
        )
    lines: dict[str, list[int]] = {}
    for entry in content.entries:
        if isinstance(entry.body, AttemptStarted | MemoryStep | StageDone | AttemptEnded):
            lines.setdefault(entry.body.trial, []).append(entry.seq)
    return Dossier(plan, content, run, {key: tuple(seqs) for key, seqs in lines.items()})


def stage_document(blobs: BlobReader, attempt: AttemptRecord, stage: Stage, kind: type[D]) -> D:
    """Reads the document of a recorded stage.

    Raises:
        IntegrityError: the stage is not recorded, or its blob is missing or changed.
    """
    done = attempt.stages.get(stage)
    if done is None:
        raise IntegrityError(
            "stage-missing",
            f"attempt {attempt.number}: expected stage {stage.value} of a graded attempt, found none",
            hint="restore the run's folder from a copy",
        )
    data = blobs.get(done.document_sha256)
    return kind.parse_canonical(data, where=f"{done.trial} {stage.value}")


def load_key(plan: Plan, task_id: str, blobs: BlobReader) -> Key:
    """Reads the answer key of a task from the bundle's blobs."""
    sha256 = plan.task(task_id).digests.key_sha256
    return Key.parse_canonical(blobs.get(sha256), where=f"answer key of {task_id}")


def plan_inputs(plan: Plan) -> set[str]:
    """Returns the digests of everything that a plan pins and a bundle must hold."""
    wanted = {
        value
        for pin in plan.tasks
        for name, value in pin.digests.model_dump().items()
        if name.endswith("_sha256")
    }
    wanted |= {sha256 for pin in plan.curated for sha256 in (pin.file_sha256, pin.log_sha256)}
    wanted |= {pin.log_sha256 for pin in plan.reviews}
    wanted |= {pin.validation_sha256 for pin in plan.tasks if pin.validation_sha256 is not None}
    return wanted | {agent.program_sha256 for agent in plan.agents}


def compose(
    dossier: Dossier,
    card: BundleCard,
    blobs: BlobReader,
    *,
    keys: dict[str, Key | None],
    attached: Attached,
    spending: Mapping[str, Spending],
) -> Composition:
    """Composes records, proofs, statements and handouts of a run.

    Args:
        dossier: the run.
        card: what the seal says of itself.
        blobs: where stage documents come from.
        keys: answer key by task id; None where it is withheld.
        attached: the files beside the record that the summary names.
        spending: what each trial spent, for those that asked a model.

    Raises:
        MemtrialError: a stage's document is missing or malformed.
    """
    checkpoint = dossier.checkpoint()
    pin = CheckpointPin(
        origin=checkpoint.origin, size=checkpoint.size, root_sha256=checkpoint.root.hex()
    )
    plain = {layout.GUIDE: render_guide(card, pin), layout.SCRIPT: render_script()}
    payloads: dict[str, tuple[bytes | None, ...]] = {}
    charges, known = attached.charges(), True
    for trial in dossier.plan.trials:
        record, proofs = _record(dossier, trial, pin)
        plain[layout.record_name(trial.seq)] = record
        if proofs is not None:
            plain[layout.proof_name(trial.seq)] = proofs
        name = layout.attestation_name(trial.seq)
        try:
            facts = _facts(dossier, trial, sha256_hex(record), blobs, spending.get(trial.key))
        except BlobWithheld:
            payloads[name] = (None,) * 3
            known = False
            continue
        charged = replace(facts, attribution=charges.get(trial.key))
        payloads[name] = trial_statements(charged, dossier.plan, card, keys[trial.task_id])
    summary = _summary(dossier, card, pin, attached)
    payloads[layout.SUMMARY] = (summary if known else None,)
    return Composition(plain, payloads)


def _summary(dossier: Dossier, card: BundleCard, pin: CheckpointPin, attached: Attached) -> bytes:
    optional = {layout.APPROVAL: attached.approval_data, layout.CLAIMS: attached.claims_data}
    ledger_data = b"".join(line + b"\n" for line in dossier.content.lines)
    files = {
        layout.PLAN: dossier.plan_sha256,
        layout.REPORT: sha256_hex(attached.report_data),
        layout.LEDGER: sha256_hex(ledger_data),
        **{name: sha256_hex(data) for name, data in optional.items() if data is not None},
    }
    return run_statement(
        RunFacts(
            plan=dossier.plan,
            card=card,
            checkpoint=pin,
            files=tuple(sorted(files.items())),
            report_sha256=files[layout.REPORT],
            complete=attached.report.complete,
            arms=attached.arms(),
            approval_sha256=files.get(layout.APPROVAL),
            claims_sha256=files.get(layout.CLAIMS),
        )
    )


def _record(dossier: Dossier, trial: Trial, pin: CheckpointPin) -> tuple[bytes, bytes | None]:
    """Returns record and inclusion proofs of one trial; no proofs where nothing is recorded."""
    seqs = dossier.lines.get(trial.key, ())
    graded = dossier.run.trial(trial.key).graded
    card = TrialRecordCard(
        run_id=dossier.run_id,
        trial=trial.key,
        plan_sha256=dossier.plan_sha256,
        lines=tuple(
            LinePin(seq=seq, line_sha256=sha256_hex(dossier.content.lines[seq])) for seq in seqs
        ),
        sealed_sha256=graded.stages[Stage.SEAL].document_sha256
        if graded and Stage.SEAL in graded.stages
        else None,
        verdict_sha256=graded.ended.verdict_sha256 if graded and graded.ended else None,
    )
    tree = dossier.content.tree
    proofs = TrialProofs(
        trial=trial.key,
        size=pin.size,
        root_sha256=pin.root_sha256,
        proofs=tuple(
            InclusionProof(
                seq=seq,
                leaf_sha256=tree.leaf(seq).hex(),
                path=tuple(step.hex() for step in tree.inclusion(seq)),
            )
            for seq in seqs
        ),
    )
    return card.canonical(), proofs.canonical() if seqs else None


def _facts(
    dossier: Dossier,
    trial: Trial,
    record_sha256: str,
    blobs: BlobReader,
    spending: Spending | None,
) -> TrialFacts:
    record = dossier.run.trial(trial.key)
    graded = record.graded
    seqs = dossier.lines.get(trial.key, ()) or (0,)
    ended = [attempt.ended for attempt in record.attempts if attempt.ended]
    return TrialFacts(
        trial=trial,
        plan_sha256=dossier.plan_sha256,
        record_name=layout.record_name(trial.seq),
        record_sha256=record_sha256,
        started_on=dossier.content.entries[seqs[0]].at,
        finished_on=dossier.content.entries[seqs[-1]].at,
        attempts=len(record.attempts),
        infra_errors=record.count(Outcome.INFRA_ERROR),
        ended=ended[-1].outcome if ended else None,
        wall_ms=sum(end.wall_ms for end in ended),
        container_ms=sum(end.container_ms for end in ended),
        verdict=stage_document(blobs, graded, Stage.GRADE, Verdict) if graded else None,
        injection=stage_document(blobs, graded, Stage.INJECT, Injection) if graded else None,
        store_sha256=stage_document(blobs, graded, Stage.REMEMBER, Remembered).store_sha256
        if graded
        else None,
        spending=spending,
        attribution=None,
        approval_sha256=dossier.run.approved.approval_sha256 if dossier.run.approved else None,
    )
