"""Plays a recorded run again: same plan, same containers, recorded answers; then compares the two.

Reads the recorded run, writes a new one beside it and `replay.json` into it. Nothing is asked of any model.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.core.errors import UsageError
from orchestrator.core.files import write_atomic
from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import AttemptRecord, RunRecord, replay
from orchestrator.model.gateway import CassetteUse, ReplayedTrial, ReplayReport, Traffic
from orchestrator.model.plan import Plan
from orchestrator.model.record import Stage
from orchestrator.pipeline.run import check_plan_is_recorded, read_plan
from orchestrator.pipeline.setup import start_run
from orchestrator.pipeline.watch import Watch

TRAFFIC = "traffic"


def replay_run(folder: Path, *, watch: Watch, workers: int) -> tuple[Path, ReplayReport]:
    """Replays a run; returns the folder of the new run and the comparison.

    Raises:
        UsageError: the run called no model, or no trial of it has a verdict.
    """
    plan, record = _recorded(folder)
    cassette = cassette_of(folder, plan, record)
    made = start_run(plan, watch=watch, workers=workers, cassette=cassette)
    report = compare(folder, made)
    write_atomic(made / "replay.json", report.canonical() + b"\n")
    return made, report


def cassette_of(folder: Path, plan: Plan, record: RunRecord) -> CassetteUse:
    """Returns which recorded attempts are to be played: those that carry the verdicts.

    Raises:
        UsageError: there are none.
    """
    attempts = tuple(
        (trial.key, completed.number)
        for trial in plan.trials
        if (completed := record.trial(trial.key).graded) is not None
    )
    if plan.gateway is None or not attempts:
        raise UsageError(
            "nothing-to-replay",
            f"{folder.name}: expected a run whose trials called a model and have verdicts, found none",
            hint="make one with `memtrial plan --agent chat`, then `memtrial run`",
        )
    return CassetteUse(folder=str(folder / "gateway"), attempts=attempts)


def compare(recorded: Path, replayed: Path) -> ReplayReport:
    """Compares two runs of one plan, trial by trial."""
    plan, before = _recorded(recorded)
    _, after = _recorded(replayed)
    blobs = BlobStore(replayed / "blobs")
    trials = []
    for trial in plan.trials:
        completed = before.trial(trial.key).graded
        if completed is None or completed.ended is None:
            continue
        attempts = after.trial(trial.key).attempts
        traffic = _traffic(attempts[-1], blobs) if attempts else None
        matches = dict(traffic.matches) if traffic else {}
        again = after.trial(trial.key).graded
        trials.append(
            ReplayedTrial(
                trial=trial.key,
                exact=matches.get("exact", 0),
                normalised=matches.get("normalised", 0),
                divergence=traffic.divergence if traffic else None,
                recorded_verdict_sha256=str(completed.ended.verdict_sha256),
                replayed_verdict_sha256=again.ended.verdict_sha256
                if again and again.ended
                else None,
            )
        )
    return ReplayReport(
        recorded_run=recorded.name,
        replayed_run=replayed.name,
        trials=tuple(trials),
        same=all(trial.same for trial in trials),
    )


def _traffic(attempt: AttemptRecord, blobs: BlobStore) -> Traffic | None:
    done = attempt.stages.get(Stage.ACT)
    artifacts = done.artifacts if done is not None else ()
    found = next((a for a in artifacts if a.name == TRAFFIC), None)
    return Traffic.parse(blobs.get(found.sha256), where=TRAFFIC) if found else None


def _recorded(folder: Path) -> tuple[Plan, RunRecord]:
    plan = read_plan(folder / "plan.json")
    record = replay(read_entries(folder / "ledger.jsonl")[0])
    check_plan_is_recorded(plan, record, folder)
    return plan, record
