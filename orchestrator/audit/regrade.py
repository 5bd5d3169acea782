"""Grades every trial again from what a bundle holds: raw test reports, diff, injection, answer key.

Nothing is taken over from the recorded verdict; the two must be equal to the byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError, Negative
from orchestrator.ledger.blobs import BlobReader, BlobWithheld
from orchestrator.ledger.history import AttemptRecord
from orchestrator.model.memory import Injection
from orchestrator.model.plan import Plan, Trial
from orchestrator.model.record import Prepared, Sealed, Stage
from orchestrator.model.task import Brief
from orchestrator.model.verdict import Acted, Harvest, TestReport, Verdict
from orchestrator.pipeline.dossier import Dossier, load_key, stage_document
from orchestrator.protocols import VerifyOutcome
from orchestrator.scoring.runners import normalise
from orchestrator.scoring.verdict import grade

PHASES: tuple[Literal["pass_to_pass", "fail_to_pass"], ...] = ("pass_to_pass", "fail_to_pass")


@dataclass(frozen=True, slots=True)
class Regraded:
    """How many verdicts were recomputed, and which trials could not be for want of a blob."""

    verdicts: int
    withheld: tuple[str, ...]


def regrade_all(dossier: Dossier, blobs: BlobReader) -> Regraded:
    """Recomputes the verdict of every completed trial.

    Raises:
        Negative: a verdict or a normalised report differs from the recorded one.
        IntegrityError: a trial's documents do not belong together.
    """
    verdicts, withheld = 0, []
    for trial in dossier.plan.trials:
        attempt = dossier.run.trial(trial.key).completed
        if attempt is None:
            continue
        try:
            regrade(dossier.plan, trial, attempt, blobs)
        except BlobWithheld:
            withheld.append(trial.key)
        else:
            verdicts += 1
    return Regraded(verdicts, tuple(withheld))


def regrade(plan: Plan, trial: Trial, attempt: AttemptRecord, blobs: BlobReader) -> None:
    """Recomputes one verdict from the evidence of its attempt."""
    _check_sealed(plan, trial, attempt, blobs)
    _check_prepared(plan, trial, stage_document(blobs, attempt, Stage.PREPARE, Prepared))
    harvest = stage_document(blobs, attempt, Stage.HARVEST, Harvest)
    acted = stage_document(blobs, attempt, Stage.ACT, Acted)
    injection = stage_document(blobs, attempt, Stage.INJECT, Injection)
    _check_digests(trial, attempt, acted, injection)
    reports = [_report(trial, attempt, harvest, phase, blobs) for phase in PHASES]
    pins = plan.task(trial.task_id).digests
    verdict = grade(
        trial=trial,
        key=load_key(plan, trial.task_id, blobs),
        brief=Brief.parse_canonical(blobs.get(pins.brief_sha256), where=f"brief of {trial.key}"),
        acted=acted,
        harvest=harvest,
        injection=injection,
        diff=blobs.get(artifact(attempt, Stage.HARVEST, "diff")),
        pass_to_pass=reports[0],
        fail_to_pass=reports[1],
        diagnostic=plan.diagnostic,
    )
    recorded = stage_document(blobs, attempt, Stage.GRADE, Verdict)
    if verdict != recorded:
        wrong = [n for n, value in verdict if value != getattr(recorded, n)]
        raise Negative(
            "verdict-differs",
            f"{trial.key}: expected the recorded verdict to follow from its evidence, found another {', '.join(wrong)}",
            hint="the verdict was not made from this evidence: do not rely on this run",
        )


def artifact(attempt: AttemptRecord, stage: Stage, name: str) -> str:
    """Returns the digest of a named artifact of a stage.

    Raises:
        IntegrityError: the stage recorded none of that name, or several.
    """
    done = attempt.stages.get(stage)
    found = [item.sha256 for item in done.artifacts if item.name == name] if done else []
    if len(found) != 1:
        raise _mixed_up(f"attempt {attempt.number}", f"one artifact {name} of {stage.value}")
    return found[0]


def _check_sealed(plan: Plan, trial: Trial, attempt: AttemptRecord, blobs: BlobReader) -> None:
    documents = {stage: done.document_sha256 for stage, done in attempt.stages.items()}
    expected = Sealed(
        trial=trial.key,
        plan_sha256=plan.digest_sha256(),
        prepared_sha256=documents[Stage.PREPARE],
        remembered_sha256=documents[Stage.REMEMBER],
        injection_sha256=documents[Stage.INJECT],
        acted_sha256=documents[Stage.ACT],
        harvest_sha256=documents[Stage.HARVEST],
        verdict_sha256=documents[Stage.GRADE],
    )
    if stage_document(blobs, attempt, Stage.SEAL, Sealed) != expected:
        raise _mixed_up(trial.key, "a seal over this attempt's own documents")


def _check_prepared(plan: Plan, trial: Trial, prepared: Prepared) -> None:
    pin = plan.task(trial.task_id)
    expected = (
        trial.task_id,
        pin.agent_image.id,
        pin.verifier_image.id,
        pin.tree,
        plan.profile_sha256,
    )
    found = (
        prepared.task_id,
        prepared.agent_image,
        prepared.verifier_image,
        prepared.tree,
        prepared.profile_sha256,
    )
    if expected != found:
        raise _mixed_up(trial.key, "containers as the plan pins them")


def _check_digests(
    trial: Trial, attempt: AttemptRecord, acted: Acted, injection: Injection
) -> None:
    output = artifact(attempt, Stage.ACT, "output")
    text = sha256_hex(injection.text.encode())
    if (acted.agent, acted.output_sha256) != (trial.agent, output) or text != injection.text_sha256:
        raise _mixed_up(
            trial.key, "output and injected text with the digests that their documents give"
        )


def _report(
    trial: Trial,
    attempt: AttemptRecord,
    harvest: Harvest,
    phase: Literal["pass_to_pass", "fail_to_pass"],
    blobs: BlobReader,
) -> TestReport:
    """Normalises the runner's own report again; how the container ended is taken from the record."""
    name = phase.replace("_", "-")
    data = blobs.get(artifact(attempt, Stage.GRADE, f"{name}-tests"))
    recorded = TestReport.parse_canonical(data, where=f"{trial.key} {name}")
    raw = blobs.get(artifact(attempt, Stage.GRADE, f"{name}-report"))
    outcome = VerifyOutcome(
        compiled=recorded.compiled,
        compile_error=recorded.compile_error,
        timed_out=recorded.timed_out,
        exit_code=recorded.exit_code,
        report=raw or None,
        log=b"",
    )
    if normalise(outcome, phase) != recorded or (harvest.diff_truncated and recorded.tests):
        raise Negative(
            "test-report-differs",
            f"{trial.key}: expected the recorded {name} tests to follow from the runner's report, found others",
            hint="the tests were not read from this report: do not rely on this run",
        )
    return recorded


def _mixed_up(where: str, expected: str) -> IntegrityError:
    return IntegrityError(
        "documents-mixed-up",
        f"{where}: expected {expected}, found others",
        hint="no memtrial writes such a record: get the bundle again from its source",
    )
