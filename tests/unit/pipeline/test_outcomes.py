"""Promise: an attempt's end is recorded with its evidence, retried only where policy says, never lost."""

from __future__ import annotations

from collections import Counter

import pytest

from orchestrator.core.errors import (
    ApprovalRefused,
    BudgetExhausted,
    Inadmissible,
    IntegrityError,
    Misconduct,
)
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.outcome import Outcome
from orchestrator.model.resources import Resources
from orchestrator.pipeline.run import Run
from orchestrator.report.build import build_report
from orchestrator.report.terminal import render_report
from tests.fakes.sandbox import FakeSandbox

ONE = {"tasks": ("depotfeed-returns",)}


def fails(kind, *, at, trial="", times=99, **more):
    """A fault that raises at one step of the trials whose key holds a text, so many times."""
    left = Counter({"times": times})

    def fault(key, step):
        if step == at and trial in key and left["times"] > 0:
            left["times"] -= 1
            raise kind("planted-fault", "something was seen", hint="none", **more)

    return fault


def ends(run):
    record = replay(read_entries(run.folder / "ledger.jsonl")[0])
    return {key: [a.ended for a in trial.attempts] for key, trial in record.trials.items()}


def test_an_unknown_failure_is_retried_to_the_end_of_the_policy_and_never_scored(
    make_plan, run_with
):
    def fault(key, step):
        raise RuntimeError("nobody knows")

    plan = make_plan(**ONE)
    run = run_with(plan, FakeSandbox(fault))
    (attempts,) = ends(run).values()
    assert [a.outcome for a in attempts] == [Outcome.INFRA_ERROR] * 3
    report = build_report(run.folder)
    assert report.arms[0].resolved.of == report.arms[0].verdicts == 0
    assert [(c.outcome, c.attempts) for c in report.arms[0].outcomes] == [(Outcome.INFRA_ERROR, 3)]
    assert "noop under no_memory: 3 infra_error of 3 attempts" in render_report(report)
    assert not report.complete


def test_a_failure_that_passes_is_retried_to_a_verdict_and_still_counted(make_plan, run_with):
    run = run_with(make_plan(**ONE), FakeSandbox(fails(IntegrityError, at="harvest", times=1)))
    (attempts,) = ends(run).values()
    assert [a.outcome for a in attempts] == [Outcome.INFRA_ERROR, Outcome.COMPLETED]
    report = build_report(run.folder)
    assert report.complete
    assert report.arms[0].attempts == 2
    assert "1 infra_error of 2 attempts" in render_report(report)


def test_resume_grants_the_policy_anew(make_plan, run_with):
    plan = make_plan(**ONE)
    run = run_with(plan, FakeSandbox(fails(IntegrityError, at="open")))
    run.close()
    again = Run.resume(run.folder)
    run_with(plan, FakeSandbox(), run=again)
    (attempts,) = ends(again).values()
    assert [a.outcome for a in attempts] == [*[Outcome.INFRA_ERROR] * 3, Outcome.COMPLETED]


@pytest.mark.parametrize("step", ["act", "harvest", "verify"])
def test_misconduct_is_a_failed_trial_with_a_verdict_and_is_not_retried(make_plan, run_with, step):
    seen = ("output holds the string of a hidden test", "line 3")
    run = run_with(make_plan(**ONE), FakeSandbox(fails(Misconduct, at=step, evidence=seen)))
    (attempts,) = ends(run).values()
    assert [a.outcome for a in attempts] == [Outcome.MISCONDUCT]
    report = build_report(run.folder)
    (trial,) = report.trials
    assert (trial.status, trial.outcome) == ("unresolved", Outcome.MISCONDUCT)
    assert "planted-fault" in trial.why
    assert report.arms[0].resolved.of == 1
    assert report.complete
    kept = [
        artifact
        for attempt in replay(read_entries(run.folder / "ledger.jsonl")[0])
        .trials[trial.trial]
        .attempts
        for done in attempt.stages.values()
        for artifact in done.artifacts
        if artifact.name == "misconduct"
    ]
    assert run.blobs.get(kept[0].sha256).decode().splitlines() == list(seen)


def test_misconduct_before_the_agent_began_is_the_harness_at_fault(make_plan, run_with):
    run = run_with(make_plan(**ONE), FakeSandbox(fails(Misconduct, at="open")))
    (attempts,) = ends(run).values()
    assert {a.outcome for a in attempts} == {Outcome.INFRA_ERROR}


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [
        ("exited", Outcome.COMPLETED),
        ("time_limit", Outcome.TIMEOUT),
        ("output_limit", Outcome.BUDGET),
        ("oom_killed", Outcome.BUDGET),
    ],
)
def test_a_limit_that_ended_the_agent_is_a_failed_trial_with_a_verdict(
    make_plan, run_with, ended, outcome
):
    run = run_with(make_plan(**ONE), FakeSandbox(ended=ended))
    (attempts,) = ends(run).values()
    assert [a.outcome for a in attempts] == [outcome]
    assert build_report(run.folder).arms[0].resolved.of == 1


def test_a_cap_of_the_run_that_is_used_up_gives_no_verdict_and_no_retry(make_plan, run_with):
    run = run_with(make_plan(**ONE), FakeSandbox(fails(BudgetExhausted, at="act")))
    (attempts,) = ends(run).values()
    assert [(a.outcome, a.verdict_sha256) for a in attempts] == [(Outcome.BUDGET, None)]
    assert not build_report(run.folder).complete


def test_an_approval_that_does_not_hold_any_more_stops_the_run_and_leaves_it_resumable(
    make_plan, run_with
):
    plan = make_plan(**ONE, epochs=6)
    run = run_with(plan, FakeSandbox(fails(ApprovalRefused, at="open")))
    begun = [attempt for attempts in ends(run).values() for attempt in attempts]
    # One for each of the two workers.
    assert [a.outcome for a in begun] == [Outcome.CANCELLED] * len(begun)
    assert len(begun) <= 2
    told = [trial.why for trial in build_report(run.folder).trials]
    assert "ApprovalRefused: something was seen" in told
    run.close()
    again = Run.resume(run.folder)
    run_with(plan, FakeSandbox(), run=again)
    assert all(attempts[-1].outcome is Outcome.COMPLETED for attempts in ends(again).values())


def test_an_inadmissible_trial_drops_its_task_and_epoch_in_every_arm_and_says_so(
    make_plan, run_with
):
    plan = make_plan(
        tasks=("depotfeed-returns", "cachetools-account-key"),
        conditions=("no_memory", "raw_fts"),
        agents=("noop", "oracle"),
        epochs=2,
    )
    hit = "depotfeed-returns/raw_fts/noop/e2"
    fault = fails(Inadmissible, at="open", trial=hit, evidence=("canary in /etc/motd",))
    run = run_with(plan, FakeSandbox(fault))
    report = build_report(run.folder)
    dropped = {t.trial for t in report.trials if t.status == "dropped"}
    assert dropped == {
        f"depotfeed-returns/{condition}/{agent}/e2"
        for condition in ("no_memory", "raw_fts")
        for agent in ("noop", "oracle")
    }
    assert [(b.task_id, b.epoch) for b in report.inadmissible_blocks] == [("depotfeed-returns", 2)]
    assert all((arm.dropped, arm.resolved.of) == (1, 3) for arm in report.arms)
    assert [t.outcome for t in report.trials if t.trial == hit] == [Outcome.INADMISSIBLE]
    assert report.complete
    text = render_report(report)
    assert "0/3 (1 dropped)" in text
    assert "1 of 4 task x epoch blocks (25 %)" in text
    assert f"depotfeed-returns e2: {hit}: Inadmissible: something was seen" in text
    (ended,) = ends(run)[hit]
    assert ended.evidence is not None
    assert run.blobs.get(ended.evidence.sha256) == b"canary in /etc/motd\n"


def test_an_inadmissible_trial_is_never_tried_again(make_plan, run_with):
    plan = make_plan(**ONE)
    run = run_with(plan, FakeSandbox(fails(Inadmissible, at="act")))
    run.close()
    again = Run.resume(run.folder)
    assert again.pending() == []
    again.close()


USED = Resources(
    source="cgroup-v2",
    samples=3,
    memory_peak_bytes=90 * 1024**2,
    memory_peak_exact=True,
    cpu_ms=400,
    throttled_ms=0,
    periods=5,
    throttled_periods=0,
    pids_peak=7,
    pids_peak_exact=False,
    forks_refused=0,
    oom_kills=0,
    work_bytes=4096,
    work_inodes=12,
)


def test_an_arm_that_met_no_limit_has_figures_and_no_line(make_plan, run_with):
    run = run_with(make_plan(**ONE), FakeSandbox(used=USED))
    report = build_report(run.folder)
    assert report.trials[0].resources == USED
    assert (
        report.arms[0].resources.memory_peak_bytes,
        report.arms[0].resources.work_inodes_max,
    ) == (
        90 * 1024**2,
        12,
    )
    assert "Held up" not in render_report(report)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"oom_kills": 1}, "noop under no_memory: 1 out of memory; of 1 attempt, peak 90 MiB"),
        ({"throttled_ms": 70}, "1 throttled (70 ms of 400 ms CPU time)"),
        ({"forks_refused": 3}, "3 forks refused"),
    ],
)
def test_an_arm_that_was_held_up_by_a_limit_is_visible(make_plan, run_with, change, line):
    run = run_with(make_plan(**ONE), FakeSandbox(used=USED.model_copy(update=change)))
    assert line in render_report(build_report(run.folder))


def test_what_an_attempt_used_is_kept_when_it_fails_after_the_agents_end(make_plan, run_with):
    fault = fails(IntegrityError, at="verify", times=1)
    run = run_with(make_plan(**ONE), FakeSandbox(fault, used=USED))
    (attempts,) = ends(run).values()
    assert [a.resources for a in attempts] == [USED, USED]
