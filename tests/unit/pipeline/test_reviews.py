"""Promise: an arm carries out what a person answered on its own store, on no other, and its time is known."""

from __future__ import annotations

import json

import pytest

from orchestrator.cli.main import main
from orchestrator.core.errors import DocumentError, IntegrityError, Negative, UsageError
from orchestrator.core.places import fixtures_root
from orchestrator.memory.checks import check_extraction
from orchestrator.memory.faults import AdapterFault
from orchestrator.pipeline.reviews import pinned_reviews, review_of, try_reviews
from orchestrator.report.build import build_report
from orchestrator.report.terminal import render_report
from orchestrator.sources.loader import load_task
from tests.recorded import make_plan, record_run
from tests.reviewed import ARM, REVIEWED, TASK, answered, arm, install, lived


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMTRIAL_CONDITIONS", str(install(tmp_path, None)))
    return tmp_path


def history():
    return load_task(fixtures_root(), TASK).history


def silent(_: str) -> None:
    return


def statuses(found):
    return {memory.text: memory.status for memory in found.dump().memories}


def test_what_a_person_promoted_is_a_memory_like_any_other(folder):
    held = [text for text, status in statuses(lived(reviewed=False)).items() if status == "held"]
    log = answered("promote")
    install(folder, log)
    found = lived()
    assert held
    assert "held" not in statuses(found).values()
    (entry,) = log.entries
    candidate = next(c for c in found.extraction().candidates if c.rule == "p4-reviewed")
    assert candidate.candidate_id == entry.candidate_id
    assert candidate.memory_id in {m.memory_id for m in found.dump().memories}


def test_what_a_person_declined_is_in_no_store(folder):
    install(folder, answered("reject"))
    found = lived()
    assert "held" not in statuses(found).values()
    assert [c.rule for c in found.extraction().candidates if c.rule == "r5-declined"]
    assert not [c for c in found.extraction().candidates if c.rule == "p4-reviewed"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [("promote", "promote (p4-reviewed)"), ("reject", "reject (r5-declined)")],
)
def test_ingest_names_what_came_of_each_answer_and_by_which_rule(folder, capsys, answer, told):
    log = answered(answer)
    install(folder, log)
    assert main(["memory", "ingest", "--condition", ARM, "--task", TASK]) == 0
    said = capsys.readouterr().out
    for entry in log.entries:
        assert f"answered: {entry.candidate_id} {told}" in said


def test_ingest_without_a_log_names_no_answer(folder, capsys):
    install(folder, answered("promote"))
    assert main(["memory", "ingest", "--condition", "reference_e2e", "--task", TASK]) == 0
    assert "answered:" not in capsys.readouterr().out


def test_what_a_person_promoted_changes_no_memory_that_was_never_found_to_contradict_it(folder):
    before = {m.memory_id: m.text for m in lived(reviewed=False).dump().memories}
    install(folder, answered("promote"))
    found = lived()
    promoted = next(c.memory_id for c in found.extraction().candidates if c.rule == "p4-reviewed")
    after = {m.memory_id: m.text for m in found.dump().memories}
    told = after.pop(promoted or "")
    assert after == {name: text for name, text in before.items() if name in after}
    assert told.endswith("(its answer called it contested, a person kept it)")


def test_what_a_person_left_open_stays_held_and_is_counted(folder):
    log = answered("skip")
    install(folder, log)
    found = lived()
    assert "held" in statuses(found).values()
    review = found.extraction().review
    assert review is not None
    assert (review.log_sha256, review.resolved, review.open) == (log.digest_sha256(), 0, 1)


def test_the_same_answers_give_the_same_store(folder):
    install(folder, answered("promote"))
    assert lived().documents["dump"] == lived().documents["dump"]
    assert lived().documents["store.tar"] == lived().documents["store.tar"]


@pytest.mark.parametrize(
    "change",
    [
        {"dump_sha256": "0" * 64},
        {"held": 2},
        {"entries": "another text"},
        {"entries": "another candidate"},
    ],
)
def test_answers_on_another_store_break_the_arm_before_a_trial_is_paid_for(folder, change):
    log = answered("promote")
    (entry,) = log.entries
    if change == {"entries": "another text"}:
        change = {"entries": (entry.model_copy(update={"text_sha256": "0" * 64}),)}
    elif change == {"entries": "another candidate"}:
        change = {"entries": (entry.model_copy(update={"candidate_id": "c99999"}),)}
    install(folder, log.model_copy(update=change))
    failure = lived().remembered.failure
    assert failure is not None
    assert failure.rule == "review-of-this-store"
    with pytest.raises(Negative, match=f"{ARM}, task {TASK}: review-of-this-store") as refused:
        try_reviews(make_plan(REVIEWED), silent)
    assert f"memtrial memory review --condition {ARM} --task {TASK} --log" in str(
        refused.value.hint
    )


@pytest.mark.parametrize("answer", ["promote", "reject", "skip"])
def test_a_report_that_decides_otherwise_than_the_person_breaks_the_contract(folder, answer):
    log = answered(answer)
    install(folder, log)
    report = lived().extraction()
    events = frozenset(e for c in report.candidates for e in c.evidence_event_ids)
    check_extraction(report, events, log)
    name = log.entries[0].candidate_id if log.entries else None
    turned = tuple(
        c.model_copy(update={"decision": "reject" if c.decision != "reject" else "hold"})
        if c.candidate_id == name or (name is None and c.decision == "hold")
        else c
        for c in report.candidates
    )
    assert turned != report.candidates
    with pytest.raises(AdapterFault, match="expected"):
        check_extraction(report.model_copy(update={"candidates": turned}), events, log)


@pytest.mark.parametrize(
    "change", [{"adapter": "raw_fts"}, {"variant": "fts_only"}, {"sessions_sha256": "0" * 64}]
)
def test_a_log_of_another_system_or_history_makes_no_plan(folder, change):
    install(folder, answered("promote").model_copy(update=change))
    with pytest.raises(DocumentError, match="expected a review of reference"):
        make_plan(REVIEWED)


def test_an_arm_without_the_log_of_a_task_makes_no_plan(folder):
    with pytest.raises(DocumentError, match=f"expected the review log reviews/{TASK}.json"):
        make_plan(REVIEWED)


def test_a_system_that_carries_nothing_out_takes_no_reviews(folder):
    other = arm().model_copy(update={"adapter": "raw_fts"})
    with pytest.raises(UsageError, match="expected an adapter that carries reviews out"):
        review_of(other, TASK, history())


def test_an_arm_without_reviews_has_no_log(folder):
    assert review_of(arm().model_copy(update={"reviews": None}), TASK, history()) is None


def test_a_plan_pins_every_log_and_refuses_other_bytes(folder):
    log = answered("promote")
    install(folder, log)
    plan = make_plan(REVIEWED)
    (pin,) = plan.reviews
    assert (pin.condition_id, pin.task_id, pin.log_sha256) == (ARM, TASK, log.digest_sha256())
    assert (pin.held, pin.resolved, pin.seconds_spent) == (1, 1, 90)
    assert pinned_reviews(plan) == {(ARM, TASK): log}
    try_reviews(plan, silent)
    install(folder, answered("reject"))
    with pytest.raises(IntegrityError, match="expected the bytes of the plan"):
        pinned_reviews(plan)


def test_a_plan_of_a_reviewed_arm_without_its_log_is_no_plan(folder):
    install(folder, answered("promote"))
    plan = make_plan(REVIEWED)
    without = plan.model_copy(update={"reviews": ()})
    with pytest.raises(DocumentError, match="reviewed conditions x tasks"):
        type(plan).parse(without.canonical(), where="plan.json")


def test_the_report_states_the_minutes_and_compares_none_that_it_does_not_know(folder):
    install(folder, answered("promote"))
    report = build_report(record_run(folder / "results", REVIEWED))
    (row,) = report.maintenance
    assert (row.condition_id, row.seconds) == (ARM, 90)
    text = render_report(report)
    assert f"  {ARM}: 1.5 minutes (1 review log, 1 answer)" in text
    assert "  comparison: INSUFFICIENT (one arm alone)" in text


def test_open_candidates_leave_the_minutes_unknown(folder):
    install(folder, answered("skip"))
    report = build_report(record_run(folder / "results", REVIEWED))
    (row,) = report.maintenance
    assert (row.seconds, row.why) == (None, "1 held candidate still without an answer")


def test_without_any_log_the_comparison_is_insufficient(tmp_path):
    request = REVIEWED.__class__(
        agents=("follower",), tasks=(TASK,), conditions=("no_memory", "reference_e2e")
    )
    report = build_report(record_run(tmp_path, request))
    assert [row.seconds for row in report.maintenance] == [None]
    assert any("what reference_e2e held back" in said for said in report.limitations)
    assert "Maintenance by people" not in render_report(report)


def test_a_log_keeps_to_one_line_of_json_that_anybody_can_read(folder):
    install(folder, answered("promote"))
    value = json.loads((folder / "reviews" / f"{TASK}.json").read_bytes())
    assert value["reviewer_kind"] == "human"
