"""A person resolves what was held back: timed, resumable, bound to one store, blind to the task."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.model.review import ReviewLog
from orchestrator.pipeline.byhand import Asked, live_by_hand
from orchestrator.pipeline.reviewing import begin, held, walk

ROOT = Path(__file__).resolve().parents[4]
CASE = ROOT / "tests" / "cases" / "history"
CONTRADICTION = CASE / "silent-contradiction" / "history.json"


@pytest.fixture(scope="module")
def found():
    return live_by_hand(
        Asked(condition="reference_e2e", history=CONTRADICTION), fixtures=ROOT / "fixtures"
    )


class Clock:
    """A clock that is a second and a half further each time it is read."""

    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        self.ms += 1500
        return self.ms


def test_every_answer_is_logged_with_its_time_and_saved_at_once(found):
    saved: list[ReviewLog] = []
    log = walk(found, begin(found, "anna", None), lambda _: "promote", saved.append, Clock())
    assert saved == [log]
    (entry,) = log.entries
    assert (entry.action, entry.seconds_spent, log.seconds_total) == ("promote", 2, 2)
    assert entry.evidence_event_ids
    assert log.open == 0


@pytest.mark.parametrize("answer", ["skip", "stop"])
def test_what_is_left_open_is_not_logged(found, answer):
    saved: list[ReviewLog] = []
    log = walk(found, begin(found, "anna", None), lambda _: answer, saved.append, Clock())
    assert (log.entries, log.open) == ((), 1)
    assert (log.seconds_unanswered, log.seconds_total) == (2, 2)
    assert saved == [log]


def test_what_was_resolved_is_not_asked_again(found):
    first = walk(found, begin(found, "anna", None), lambda _: "reject", lambda _: None, Clock())
    asked: list[str] = []

    def ask(memory):
        asked.append(memory.memory_id)
        return "promote"

    again = walk(found, begin(found, "anna", first), ask, lambda _: None)
    assert asked == []
    assert again == first


def test_a_log_of_another_store_is_refused(found):
    other = live_by_hand(
        Asked(condition="reference_e2e", history=CASE / "secrets" / "history.json"),
        fixtures=ROOT / "fixtures",
    )
    with pytest.raises(IntegrityError) as refused:
        begin(other, "anna", begin(found, "anna", None))
    assert refused.value.reference == "review-of-another-store"


def test_the_answers_of_another_person_are_not_gone_on_with(found):
    with pytest.raises(UsageError, match="expected the answers of bob, found those of anna"):
        begin(found, "bob", begin(found, "anna", None))


def test_an_arm_that_carries_no_answers_out_is_not_reviewed():
    other = live_by_hand(
        Asked(condition="raw_fts", history=CONTRADICTION), fixtures=ROOT / "fixtures"
    )
    with pytest.raises(UsageError, match="expected an adapter that carries reviews out"):
        begin(other, "anna", None)


def test_only_what_is_held_is_shown(found):
    assert [memory.status for memory in held(found)] == ["held"]


def test_by_hand_a_review_is_interrupted_and_gone_on_with(tmp_path: Path):
    log = tmp_path / "review.json"
    command = [
        *(
            sys.executable,
            "-m",
            "orchestrator",
            "memory",
            "review",
            "--history",
            str(CONTRADICTION),
        ),
        *("--condition", "reference_e2e", "--log", str(log), "--reviewer", "anna"),
    ]

    def answered(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env=os.environ,
        )

    first = answered("")
    assert "0 of 1 held candidate resolved" in first.stdout
    assert "port 9443" in first.stderr
    assert "\n  against m0" in first.stderr
    second = answered("x\np\n")
    assert "1 of 1 held candidate resolved" in second.stdout
    assert ReviewLog.parse(log.read_bytes(), where="log").entries[0].action == "promote"
    assert "port 9443" not in answered("").stderr
