"""The smoke run of agents: each solves a task with its own tools against the scripted model, with and without memory.

An ordinary plan and an ordinary run; afterwards its record is held against what a sound agent must show.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import AttemptRecord, replay
from orchestrator.model.agentreport import AgentRow, AgentsReport
from orchestrator.model.base import Document
from orchestrator.model.gateway import Traffic
from orchestrator.model.plan import Trial
from orchestrator.model.proof import InjectionProof
from orchestrator.model.record import Stage
from orchestrator.model.transcript import Transcript
from orchestrator.model.verdict import Verdict
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.run import recorded_plan
from orchestrator.pipeline.setup import make_plan, start_run
from orchestrator.pipeline.watch import Watch

TASK = "depotfeed-returns"
WITHOUT, WITH = "no_memory", "curated_file_budgeted"
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
D = TypeVar("D", bound=Document)


def smoke_agents(
    agents: tuple[str, ...], *, watch: Watch, workers: int
) -> tuple[Path, AgentsReport]:
    """Runs the smoke of some agents; returns the folder of the run and what it shows.

    Raises:
        MemtrialError: an image cannot be made, or the machine is not fit to run.
    """
    request = PlanRequest(
        agents=agents, tasks=(TASK,), conditions=(WITHOUT, WITH), namespace="agents-smoke"
    )
    plan = make_plan(request, watch.say, install=True)
    folder = start_run(plan, watch=watch, workers=workers)
    return folder, report_of(folder)


def report_of(folder: Path) -> AgentsReport:
    """Returns what a finished run shows of its agents, from its record alone."""
    plan = recorded_plan(folder)
    record = replay(read_entries(folder / "ledger.jsonl")[0])
    blobs = BlobStore(folder / "blobs")
    rows = []
    for trial in sorted(plan.trials, key=lambda t: (t.agent, t.condition_id != WITHOUT, t.seq)):
        attempts = record.trial(trial.key).attempts
        if attempts:
            rows.append(_row(trial, attempts[-1], blobs))
    return AgentsReport(
        run_id=folder.name,
        task_id=plan.tasks[0].digests.id,
        rows=tuple(rows),
        sound=len(rows) == len(plan.trials) and not any(row.wrong for row in rows),
    )


def transcripts_of(folder: Path) -> dict[str, Transcript]:
    """Returns the transcript of each trial of a run whose agent asked a model, by the trial's key."""
    record = replay(read_entries(folder / "ledger.jsonl")[0])
    blobs = BlobStore(folder / "blobs")
    found = {
        key: _parsed(trial.attempts[-1], blobs, "transcript", Transcript)
        for key, trial in record.trials.items()
        if trial.attempts
    }
    return {key: transcript for key, transcript in sorted(found.items()) if transcript is not None}


def _parsed(attempt: AttemptRecord, blobs: BlobStore, name: str, kind: type[D]) -> D | None:
    """Returns a document of the act stage, or None if it was not kept."""
    done = attempt.stages.get(Stage.ACT)
    found = [item.sha256 for item in done.artifacts if item.name == name] if done else []
    if not found:
        return None
    return kind.parse(blobs.get(found[0]), where=name, max_bytes=MAX_DOCUMENT_BYTES)


def _row(trial: Trial, attempt: AttemptRecord, blobs: BlobStore) -> AgentRow:
    traffic = _parsed(attempt, blobs, "traffic", Traffic)
    proof = _parsed(attempt, blobs, "injection-proof", InjectionProof)
    transcript = _parsed(attempt, blobs, "transcript", Transcript)
    ended, acted = attempt.ended, attempt.stages.get(Stage.ACT)
    verdict = None
    if ended is not None and ended.verdict_sha256 is not None:
        verdict = Verdict.parse(blobs.get(ended.verdict_sha256), where="verdict")
    resources = ended.resources if ended else None
    row = AgentRow(
        agent=trial.agent,
        condition_id=trial.condition_id,
        outcome=ended.outcome.value if ended else "unfinished",
        resolved=verdict.resolved if verdict else None,
        calls=sum(role.calls for role in traffic.roles) if traffic else 0,
        proof=proof.result if proof else None,
        lookups=traffic.lookups if traffic else (),
        wall_ms=acted.wall_ms if acted else 0,
        memory_peak_bytes=resources.memory_peak_bytes if resources else None,
        turns=transcript.turns if transcript else None,
        wrong=(),
    )
    return row.model_copy(update={"wrong": wrong_with(row)})


def wrong_with(row: AgentRow) -> tuple[str, ...]:
    """Returns what differs from a sound agent: it follows memory, and only declared memory reaches it."""
    with_memory = row.condition_id != WITHOUT
    expected: tuple[tuple[str, object, object], ...] = (
        ("outcome", "completed", row.outcome),
        ("resolved", with_memory, row.resolved),
        ("injection proof", "shown" if with_memory else "absent", row.proof),
        ("look-ups", (), row.lookups),
        ("calls", True, row.calls > 0),
        ("turns in the transcript", True, bool(row.turns)),
    )
    return tuple(
        f"{what}: expected {wanted}, found {found}"
        for what, wanted, found in expected
        if wanted != found
    )
