"""Promise: a memory system that breaks its contract costs its own arm and nothing else; the record says where it broke."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.core.canonical import sha256_hex
from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import AttemptRecord, replay
from orchestrator.model.lifecycle import CompiledContext, Step, StepRecord
from orchestrator.model.memory import Injection, Remembered
from orchestrator.model.outcome import Outcome
from orchestrator.model.record import MemoryStep, Stage
from orchestrator.model.verdict import Verdict
from orchestrator.pipeline.options import PlanRequest
from tests.recorded import record_run, seal
from tests.unit.testing import planted

REQUEST = PlanRequest(
    agents=("follower",),
    tasks=("cachetools-account-key",),
    conditions=("no_memory", "curated_file_budgeted", "raw_fts", "raw_history_tail"),
)
NAME = "history_tail"


def as_tail(kind: type[planted.Sound]) -> type[planted.Sound]:
    """Returns the faulty system under the name that the arm pins."""
    return type(kind.__name__, (kind,), {"name": NAME})


def attempts(folder: Path) -> dict[str, list[AttemptRecord]]:
    record = replay(read_entries(folder / "ledger.jsonl")[0])
    return {key.split("/")[1]: trial.attempts for key, trial in record.trials.items()}


def document(folder: Path, attempt: AttemptRecord, stage: Stage, kind):
    blobs = BlobStore(folder / "blobs")
    return kind.parse(blobs.get(attempt.stages[stage].document_sha256), where=stage.value)


@pytest.mark.parametrize(
    ("kind", "step", "how", "rule"),
    [
        (planted.CrashesInSettle, Step.SETTLE, "crashed", "step-without-exception"),
        (planted.LeavesTheInterpreter, Step.SETTLE, "crashed", "step-without-exception"),
        (planted.NamesNoRule, Step.SETTLE, "crashed", "adapter-fault"),
        (planted.LeavesWhileItIsTold, Step.SETTLE, "crashed", "adapter-fault"),
        (planted.FaultThatActs, Step.SETTLE, "crashed", "alive"),
        (planted.AnswersWithCode, Step.SETTLE, "crashed", "step-without-exception"),
        (planted.Floods, Step.SETTLE, "flooded", "answer-bounded"),
        (planted.LiesAboutTheHash, Step.FREEZE, "contract_broken", "true-hash"),
        (planted.DropsSilently, Step.INGEST, "contract_broken", "event-accounted-for"),
        (planted.AnswersNonsense, Step.SETTLE, "answer_invalid", "typed-answer"),
        (planted.OwnTemplate, Step.COMPILE, "contract_broken", "shared-template"),
        (planted.WritesAtRetrieval, Step.RETRIEVE, "contract_broken", "frozen-is-frozen"),
    ],
)
def test_a_broken_contract_is_one_graded_trial_of_its_arm_charged_to_its_step(
    tmp_path, kind, step, how, rule
):
    folder = record_run(tmp_path, REQUEST, adapters={"raw_history_tail": as_tail(kind)})
    found = attempts(folder)
    (attempt,) = found["raw_history_tail"]
    remembered = document(folder, attempt, Stage.REMEMBER, Remembered)
    assert remembered.failure is not None
    assert (remembered.failure.step, remembered.failure.kind, remembered.failure.rule) == (
        step,
        how,
        rule,
    )
    assert attempt.ended is not None
    assert attempt.ended.outcome is Outcome.COMPLETED
    assert document(folder, attempt, Stage.INJECT, Injection).text == ""
    assert not document(folder, attempt, Stage.GRADE, Verdict).resolved
    (curated,) = found["curated_file_budgeted"]
    assert document(folder, curated, Stage.GRADE, Verdict).resolved
    assert all(len(tried) == 1 for tried in found.values())


def test_each_step_is_a_line_of_the_ledger_with_the_digest_of_a_stored_answer(tmp_path):
    folder = record_run(tmp_path, REQUEST)
    entries = read_entries(folder / "ledger.jsonl")[0]
    (attempt,) = attempts(folder)["raw_fts"]
    trial = attempt.stages[Stage.REMEMBER].trial
    steps = [e.body for e in entries if isinstance(e.body, MemoryStep) and e.body.trial == trial]
    assert [line.record.step for line in steps] == list(Step)
    remembered = document(folder, attempt, Stage.REMEMBER, Remembered)
    assert tuple(line.record for line in steps) == remembered.steps
    blobs = BlobStore(folder / "blobs")
    for line in steps:
        if line.record.answer_sha256:
            assert blobs.get(line.record.answer_sha256)


def test_the_frozen_store_is_archived_for_every_trial(tmp_path):
    folder = record_run(tmp_path, REQUEST)
    for arm, tried in attempts(folder).items():
        artifacts = {item.name: item for item in tried[0].stages[Stage.REMEMBER].artifacts}
        assert {"dump", "store.tar"} <= set(artifacts)
        remembered = document(folder, tried[0], Stage.REMEMBER, Remembered)
        if arm != "no_memory":
            assert remembered.store_sha256 == artifacts["dump"].sha256
            assert remembered.archive_sha256 == artifacts["store.tar"].sha256


def test_every_arm_is_told_the_same_sessions(tmp_path):
    folder = record_run(tmp_path, REQUEST)
    told = set()
    for tried in attempts(folder).values():
        steps: tuple[StepRecord, ...] = document(folder, tried[0], Stage.REMEMBER, Remembered).steps
        told.add(next(record.input_sha256 for record in steps if record.step is Step.INGEST))
    assert len(told) == 1
    assert sha256_hex(b"") not in told


def test_the_injection_is_what_the_context_said(tmp_path):
    folder = record_run(tmp_path, REQUEST)
    (attempt,) = attempts(folder)["raw_fts"]
    blobs = BlobStore(folder / "blobs")
    (artifact,) = [a for a in attempt.stages[Stage.REMEMBER].artifacts if a.name == "context"]
    context = CompiledContext.parse(blobs.get(artifact.sha256), where="context")
    assert document(folder, attempt, Stage.INJECT, Injection).text == context.text


def test_a_run_with_a_broken_memory_system_is_sealed_and_verified_like_any_other(tmp_path, capsys):
    broken = as_tail(planted.CrashesInSettle)
    folder = record_run(tmp_path, REQUEST, adapters={"raw_history_tail": broken})
    seal(folder)
    assert main(["verify", str(folder)]) == 0, capsys.readouterr()
