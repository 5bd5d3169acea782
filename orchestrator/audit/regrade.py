"""Grades every trial again from what a bundle holds: raw test reports, diff, injection, answer key.

Nothing is taken over from the recorded verdict; the two must be equal to the byte.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from orchestrator.audit.reports import began, check_ended, count_words, ended_as, told
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError, Negative
from orchestrator.ledger.blobs import BlobReader, BlobWithheld
from orchestrator.ledger.history import AttemptRecord
from orchestrator.model.isolation import Isolation, Screening
from orchestrator.model.memory import Injection
from orchestrator.model.outcome import outcome_of_trial
from orchestrator.model.plan import Plan, Trial
from orchestrator.model.record import Prepared, Sealed, Stage
from orchestrator.model.task import Brief, Key, TaskCard
from orchestrator.model.verdict import Acted, Harvest, Seal, TestReport, Verdict
from orchestrator.pipeline.condemned import condemned
from orchestrator.pipeline.dossier import Dossier, load_key, stage_document
from orchestrator.scoring.runners import exam_for, normalise
from orchestrator.scoring.seal import Phase
from orchestrator.scoring.verdict import grade

PHASES: tuple[Phase, ...] = ("pass_to_pass", "fail_to_pass")


@dataclass(frozen=True, slots=True)
class Regraded:
    """How many verdicts were recomputed, how many of misconduct, and which were not for want of a blob.

    `words`: what of them hangs on the record's own word about how tests ended.
    """

    verdicts: int
    condemned: int
    withheld: tuple[str, ...]
    words: str


def regrade_all(dossier: Dossier, blobs: BlobReader) -> Regraded:
    """Recomputes the verdict of every graded trial.

    Raises:
        Negative: a verdict, an outcome or a normalised report differs from the recorded one.
        IntegrityError: a trial's documents do not belong together, or two verifications drew one seal.
    """
    verdicts, condemned_, withheld = 0, 0, []
    tasks = _Tasks(dossier.plan, blobs)
    drawn: set[str] = set()
    for trial in dossier.plan.trials:
        attempt = dossier.run.trial(trial.key).graded
        if attempt is None:
            continue
        try:
            condemned_ += _regrade(dossier, trial, attempt, tasks, drawn).misconduct
        except BlobWithheld:
            withheld.append(trial.key)
        else:
            verdicts += 1
    return Regraded(verdicts, condemned_, tuple(withheld), told(tasks.words))


class _Tasks:
    """The graders' views of the plan's tasks, each read once from the bundle's blobs; `words` counts what is told."""

    def __init__(self, plan: Plan, blobs: BlobReader) -> None:
        self._plan = plan
        self.blobs = blobs
        self.words: Counter[str] = Counter()
        self._views: dict[str, tuple[TaskCard, Key, Brief]] = {}

    def of(self, task_id: str) -> tuple[TaskCard, Key, Brief]:
        """Returns card, key and brief; raises BlobWithheld where one of them was left out."""
        if task_id not in self._views:
            pins = self._plan.task(task_id).digests
            self._views[task_id] = (
                TaskCard.parse_canonical(
                    self.blobs.get(pins.card_sha256), where=f"card of {task_id}"
                ),
                load_key(self._plan, task_id, self.blobs),
                Brief.parse_canonical(
                    self.blobs.get(pins.brief_sha256), where=f"brief of {task_id}"
                ),
            )
        return self._views[task_id]


def _regrade(
    dossier: Dossier, trial: Trial, attempt: AttemptRecord, tasks: _Tasks, drawn: set[str]
) -> Verdict:
    """Recomputes verdict and outcome of one attempt from its evidence; `drawn` are the seals of all before."""
    plan, blobs = dossier.plan, tasks.blobs
    _check_prepared(plan, trial, stage_document(blobs, attempt, Stage.PREPARE, Prepared))
    injection = stage_document(blobs, attempt, Stage.INJECT, Injection)
    if sha256_hex(injection.text.encode()) != injection.text_sha256:
        raise _mixed_up(trial.key, "an injected text with the digest that its document gives")
    recorded = stage_document(blobs, attempt, Stage.GRADE, Verdict)
    if recorded.misconduct:
        verdict = _condemned_again(plan, trial, attempt, tasks, recorded)
    else:
        _check_sealed(dossier.plan_sha256, trial, attempt, blobs)
        _check_drawn(trial, attempt, blobs, drawn)
        verdict = _graded_again(plan, trial, attempt, tasks, injection)
    if verdict != recorded:
        wrong = [n for n, value in verdict if value != getattr(recorded, n)]
        raise Negative(
            "verdict-differs",
            f"{trial.key}: expected the recorded verdict to follow from its evidence, found another {', '.join(wrong)}",
            hint="the verdict was not made from this evidence: do not rely on this run",
        )
    acted = (
        stage_document(blobs, attempt, Stage.ACT, Acted) if Stage.ACT in attempt.stages else None
    )
    outcome = outcome_of_trial(acted, verdict)
    if attempt.ended is None or attempt.ended.outcome is not outcome:
        raise Negative(
            "outcome-differs",
            f"{trial.key}: expected outcome {outcome.value}, found another",
            hint="the outcome does not follow from how the agent ended: do not rely on this run",
        )
    return verdict


def _check_drawn(trial: Trial, attempt: AttemptRecord, blobs: BlobReader, drawn: set[str]) -> None:
    """Each verification draws a seal of its own: one that is seen twice was lent to another trial."""
    for phase in PHASES:
        name = f"{phase.replace('_', '-')}-seal"
        data = blobs.get(artifact(attempt, Stage.GRADE, name))
        nonce = Seal.parse_canonical(data, where=f"{trial.key} {name}").nonce
        if nonce in drawn:
            raise _mixed_up(
                trial.key, f"a seal of its own for {phase}, drawn for no other run of tests"
            )
        drawn.add(nonce)


def _graded_again(
    plan: Plan, trial: Trial, attempt: AttemptRecord, tasks: _Tasks, injection: Injection
) -> Verdict:
    """Grades from the runner's own reports, after the proofs around `act` were found clean."""
    blobs = tasks.blobs
    harvest = stage_document(blobs, attempt, Stage.HARVEST, Harvest)
    acted = stage_document(blobs, attempt, Stage.ACT, Acted)
    isolation = stage_document(blobs, attempt, Stage.ISOLATE, Isolation)
    screening = stage_document(blobs, attempt, Stage.SCREEN, Screening)
    if isolation.findings or isolation.differences or screening.findings:
        raise _mixed_up(trial.key, "a graded trial without a leak or an undeclared thing")
    if (acted.agent, acted.output_sha256) != (trial.agent, artifact(attempt, Stage.ACT, "output")):
        raise _mixed_up(trial.key, "the output that its document names")
    _, key, brief = tasks.of(trial.task_id)
    reports = [_report(trial, attempt, phase, tasks, harvest) for phase in PHASES]
    return grade(
        trial=trial,
        key=key,
        brief=brief,
        acted=acted,
        harvest=harvest,
        injection=injection,
        diff=blobs.get(artifact(attempt, Stage.HARVEST, "diff")),
        pass_to_pass=reports[0],
        fail_to_pass=reports[1],
        diagnostic=plan.diagnostic,
    )


def _condemned_again(
    plan: Plan, trial: Trial, attempt: AttemptRecord, tasks: _Tasks, recorded: Verdict
) -> Verdict:
    """Makes the verdict of misconduct again; what was seen is the record's own evidence."""
    blobs = tasks.blobs
    harvest = (
        stage_document(blobs, attempt, Stage.HARVEST, Harvest)
        if Stage.HARVEST in attempt.stages
        else None
    )
    return condemned(
        trial=trial,
        key=tasks.of(trial.task_id)[1],
        tree=harvest.tree if harvest else plan.task(trial.task_id).tree,
        diff_sha256=harvest.diff_sha256 if harvest else sha256_hex(b""),
        injection=stage_document(blobs, attempt, Stage.INJECT, Injection),
        violation=recorded.violations[0],
        diagnostic=plan.diagnostic,
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


def _check_sealed(
    plan_sha256: str, trial: Trial, attempt: AttemptRecord, blobs: BlobReader
) -> None:
    documents = {stage: done.document_sha256 for stage, done in attempt.stages.items()}
    expected = Sealed(
        trial=trial.key,
        plan_sha256=plan_sha256,
        prepared_sha256=documents[Stage.PREPARE],
        remembered_sha256=documents[Stage.REMEMBER],
        injection_sha256=documents[Stage.INJECT],
        isolation_sha256=documents[Stage.ISOLATE],
        acted_sha256=documents[Stage.ACT],
        harvest_sha256=documents[Stage.HARVEST],
        screening_sha256=documents[Stage.SCREEN],
        verdict_sha256=documents[Stage.GRADE],
    )
    if stage_document(blobs, attempt, Stage.SEAL, Sealed) != expected:
        raise _mixed_up(trial.key, "a seal over this attempt's own documents")


def _check_prepared(plan: Plan, trial: Trial, prepared: Prepared) -> None:
    pin = plan.pin_of(trial)
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


def _report(
    trial: Trial,
    attempt: AttemptRecord,
    phase: Phase,
    tasks: _Tasks,
    harvest: Harvest,
) -> TestReport:
    """Normalises the runner's own report again; how the container ended is the record's word, if it can be so."""
    name, blobs = phase.replace("_", "-"), tasks.blobs
    data = blobs.get(artifact(attempt, Stage.GRADE, f"{name}-tests"))
    recorded = TestReport.parse_canonical(data, where=f"{trial.key} {name}")
    drawn = blobs.get(artifact(attempt, Stage.GRADE, f"{name}-seal"))
    raw = blobs.get(artifact(attempt, Stage.GRADE, f"{name}-report"))
    card, key, _ = tasks.of(trial.task_id)
    seal = Seal.parse_canonical(drawn, where=f"{trial.key} {name} seal")
    exam = exam_for(card.runner, key, seal)
    log = blobs.get(artifact(attempt, Stage.GRADE, f"{name}-log"))
    where = f"{trial.key} {name}"
    check_ended(where, recorded, raw=raw, log=log, exam=exam, harvest=harvest)
    again = normalise(ended_as(recorded, exam, raw), exam)
    if (seal.phase, again) != (phase, recorded):
        raise Negative(
            "test-report-differs",
            f"{trial.key}: expected the recorded {name} tests to follow from the runner's report, found others",
            hint="the tests were not read from this report: do not rely on this run",
        )
    if not harvest.diff_truncated:
        count_words(recorded, exam, raw, tasks.words)
    elif began(recorded, exam):
        raise _mixed_up(trial.key, "no test run over a diff that was cut off")
    return recorded


def _mixed_up(where: str, expected: str) -> IntegrityError:
    return IntegrityError(
        "documents-mixed-up",
        f"{where}: expected {expected}, found others",
        hint="no memtrial writes such a record: get the bundle again from its source",
    )
