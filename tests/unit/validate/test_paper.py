"""A planted defect is caught by the check that is named for it, and the evidence says what to change."""

from __future__ import annotations

import dataclasses
import json
import shutil
from typing import get_args

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.core.places import fixtures_root
from orchestrator.model.validation import CheckName, task_sha256
from orchestrator.model.verdict import TestReport, TestStatus
from orchestrator.pipeline.validate import paper, proofs
from orchestrator.pipeline.validate.rehearse import Outcome, Stage
from orchestrator.pipeline.validate.run import check_valid, merged_report, validate
from orchestrator.sources.loader import list_tasks, load_task

TASK = "ferrytimes-service-day"
PAPER = {"v1-pins", "v7-hidden-tests", "v8-overlap", "v9-leaks", "v10-history", "v12-redaction"}


@pytest.fixture
def fixtures(tmp_path):
    for part in (f"tasks/{TASK}", "sources", "vendored/ferrytimes"):
        shutil.copytree(fixtures_root() / part, tmp_path / part)
    return tmp_path


def edit(fixtures, name, change):
    path = fixtures / "tasks" / TASK / name
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def failing(fixtures):
    report = validate([load_task(fixtures, TASK)], None, lambda _: None, repeats=2)
    return {c.name: c.evidence for c in report.tasks[0].checks if not c.ok and c.name in PAPER}


def test_the_shipped_tasks_hold_every_check_on_paper():
    tasks = [load_task(fixtures_root(), name) for name in list_tasks(fixtures_root())]
    report = validate(tasks, None, lambda _: None, repeats=2)
    wrong = {t.id: [c for c in t.checks if c.name in PAPER and not c.ok] for t in report.tasks}
    assert {name: found for name, found in wrong.items() if found} == {}


def text(n, value):
    return lambda d: d["episodes"][n]["events"][0].update(text=value)


DECISIVE = 8
PROMPT = "brief.json"
DEFECTS = [
    ("v1-pins", "tree", "task.json", None),
    ("v7-hidden-tests", "memory", "key.json", lambda d: [t.update(group="capability") for t in d["fail_to_pass"]]),
    ("v7-hidden-tests", "capability", "key.json", lambda d: [t.update(group="memory") for t in d["fail_to_pass"]]),
    ("v8-overlap", "gives fact", PROMPT, lambda d: d.update(prompt=d["prompt"] + " It is 04:30.")),
    ("v8-overlap", "share", PROMPT, lambda d: d.update(prompt=d["prompt"] + " The operating date turns over.")),
    ("v8-overlap", "words stand", PROMPT, lambda d: d.update(prompt="operating date agreement 19 march longer holds")),
    ("v10-history", "episodes", "history.json", lambda d: d.update(episodes=d["episodes"][:9])),
    ("v10-history", "do not say it", "key.json", lambda d: d["gold_facts"][0].update(matchers=["05:15"])),
    ("v10-history", "superseded", "key.json", lambda d: d.update(stale_facts=[])),
    ("v10-history", "names the hidden test", "history.json", text(0, "We test TestHiddenSweepHere.")),
    ("v10-history", "failed", "history.json", lambda d: [e["tool"].update(exit_code=0) for x in d["episodes"] for e in x["events"] if e["tool"]]),
    ("v12-redaction", "changes under redaction", "history.json", lambda d: [e.update(text=e["text"] + " Bearer abcdef0123456789abcdef01") for e in d["episodes"][DECISIVE]["events"]]),
    ("v12-redaction", "secret", "history.json", lambda d: [e.update(text=e["text"].replace("Bearer pier7f0c9b21e4d8a6530b92", "none")) for x in d["episodes"] for e in x["events"]]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "says", "file", "change"), DEFECTS)
def test_a_planted_defect_is_caught_by_its_check(fixtures, name, says, file, change):
    assert failing(fixtures) == {}
    if change is None:
        (fixtures / "vendored/ferrytimes/fare.go").write_text("package ferrytimes\n")
    else:
        edit(fixtures, file, change)
    found = failing(fixtures)
    assert says in found[name]


HIDDEN = "tasks/{TASK}/key/hidden/serviceday_hidden_test.go"
# All that a memory test expects, as a comment of the hidden file.
TOLD = "".join(
    f"// {value}\n"
    for test in load_task(fixtures_root(), TASK).key.card.fail_to_pass
    if test.group == "memory"
    for value in test.values
)


def adds(name, text):
    def change(folder):
        path = folder / name.format(TASK=TASK)
        path.write_text(path.read_text() + text)

    return change


def swaps(name, old, new):
    def change(folder):
        path = folder / name.format(TASK=TASK)
        path.write_text(path.read_text().replace(old, new))

    return change


# Defects of files that are no documents: the check, what it says, and how it is planted.
FILES = {
    "clock": ("v7-hidden-tests", ("time.Now(", adds(HIDDEN, "func TestHiddenX(t *testing.T) { _ = time.Now() }\n"))),
    "network": ("v7-hidden-tests", ("http.Get", adds(HIDDEN, "func TestHiddenX(t *testing.T) { _, _ = http.Get(x) }\n"))),
    "chance": ("v7-hidden-tests", ("math/rand", adds(HIDDEN, 'import "math/rand"\n'))),
    "answer-in-the-tests": ("v7-hidden-tests", ("let the key alone", adds(HIDDEN, TOLD))),
    "licence": ("v1-pins", ("AGPL-3.0", swaps("sources/ferrytimes.json", "Apache-2.0", "AGPL-3.0"))),
    "commit": ("v1-pins", ("commit", swaps("sources/ferrytimes.json", '"commit": "c84b', '"commit": "c84c'))),
    "licence-file": ("v1-pins", ("licence file", swaps("sources/ferrytimes.json", '"licence_files": [\n    "LICENSE"', '"licence_files": [\n    "COPYING"'))),
    "answer-in-the-checkout": ("v1-pins", ("tree", adds("vendored/ferrytimes/README.md", "The operating date turns over at 04:30.\n"))),
    "extra-ref": ("v9-leaks", ("refs/tags/v1", None)),
    "key-in-a-layer": ("v9-leaks", ("image layer", None)),
}  # fmt: skip


@pytest.mark.parametrize("what", [name for name, (_, (_, plant)) in FILES.items() if plant])
def test_a_defect_of_a_file_is_caught_by_the_check_that_is_named_for_it(fixtures, what):
    name, (says, plant) = FILES[what]
    plant(fixtures)
    assert says in failing(fixtures)[name]


def test_an_extra_ref_in_the_repository_is_caught(fixtures, monkeypatch):
    from orchestrator.core.gittree import FileEntry
    from orchestrator.sources.checkout import repository_entries as made

    name, (says, _) = FILES["extra-ref"]
    extra = FileEntry(".git/refs/tags/v1", "100644", b"0" * 40)
    monkeypatch.setattr(paper, "repository_entries", lambda c: (*made(c), extra))
    assert says in failing(fixtures)[name]


@pytest.mark.parametrize(
    "telling",
    [
        b"hiddenSweep(t, time.Date(2026, time.March, 10, 0, 0, 0, 0, time.UTC))",
        b"// lastHours ends the evening before, as the harbour office bills it.",
    ],
)
def test_a_line_of_the_key_in_an_image_layer_is_caught(telling):
    name, (says, _) = FILES["key-in-a-layer"]
    task = load_task(fixtures_root(), TASK)
    _, checkout = paper.pins(task)
    assert paper.leaks(task, checkout, [b"nothing"]).ok
    found = paper.leaks(task, checkout, [b"x\n" + telling + b"\n"])
    assert (found.name, found.ok) == (name, False)
    assert says in found.evidence


@pytest.mark.parametrize(
    "changed",
    [
        b"func TestHiddenSweepHere(t *testing.T) {\n\thiddenSweep(t, time.Date(2026,",
        b"func TestHiddenSweepHere(t *testing.T) {\n    hiddenSweep(t, time.Date(2026, time.March, 10, 0, 0, 0, 0, time.UTC))",
        b"hiddenSweep(t,\n        time.Date(2026,\n        time.March, 10, 0, 0, 0, 0, time.UTC))",
    ],
    ids=["cut", "indented-otherwise", "wrapped"],
)
def test_a_line_of_the_key_is_found_however_it_is_indented_or_wrapped(changed):
    task = load_task(fixtures_root(), TASK)
    _, checkout = paper.pins(task)
    whole = b"time.March" in changed
    assert paper.leaks(task, checkout, [b"x\n" + changed + b"\n"]).ok is not whole


# A line that opens something, as many programs have it, and what a task's secret file says next.
OPENERS = [
    ("cachetools-shelf", b"@pytest.mark.parametrize(", None),
    ("click-workspace-lock", b"def __init__(self, path: str) -> None:", b"super().__init__(_("),
]


@pytest.mark.parametrize(("name", "opening", "then"), OPENERS)
def test_a_line_that_only_opens_something_is_no_part_of_the_key_and_with_its_next_line_it_is(
    name, opening, then
):
    task = load_task(fixtures_root(), name)
    _, checkout = paper.pins(task)
    secret = task.rehearsal.reference_patch.encode().replace(b"\n+", b"\n")
    lines = [line.strip() for line in b"\n".join([secret, *(f.text.encode() for f in task.key.hidden_files)]).splitlines()]  # fmt: skip
    at = lines.index(opening)
    assert paper.leaks(task, checkout, [opening + b"\n    self._path = path\n"]).ok
    end = next(n for n in range(at, len(lines)) if not lines[n].endswith((b"(", b"[", b"{", b":")))
    assert then is None or lines[at + 1].startswith(then)
    found = paper.leaks(task, checkout, [b"\n    ".join(lines[at : end + 1])])
    assert not found.ok


# --- proofs, over outcomes as containers give them ------------------------------------------------------


def report(phase, statuses, **changes):
    tests = tuple(TestStatus(id=i, status=s, n=1) for i, s in sorted(statuses.items()))
    fields = {"runner": "go-test", "phase": phase, "compiled": True, "timed_out": False, "exit_code": 0, "tests": tests}  # fmt: skip
    return TestReport.model_validate({**fields, **changes})


@pytest.fixture
def stage():
    return Stage(None, load_task(fixtures_root(), TASK), None)  # type: ignore[arg-type]


def outcome(stage, *, base=(), hidden_fail=(), container_ms=1000, **changes):
    """An outcome in which everything passes but what is named."""
    key = stage.task.key
    first = {t.id: "fail" if t.id in base else "pass" for t in key.pass_to_pass}
    second = {t.id: "fail" if t.id in hidden_fail else "pass" for t in key.card.fail_to_pass}
    return Outcome(
        report("pass_to_pass", first, **changes),
        report("fail_to_pass", second),
        None,  # type: ignore[arg-type]
        container_ms,
    )


def idle(stage, **changes):
    everything = [t.id for t in stage.task.key.card.fail_to_pass]
    return outcome(stage, hidden_fail=everything, **changes)


def some(stage, group):
    return [t.id for t in stage.task.key.card.fail_to_pass if t.group == group][:1]


def test_the_proofs_hold_for_outcomes_as_they_should_be(stage):
    good, none = outcome(stage), idle(stage)
    over = outcome(stage, base=[stage.task.key.pass_to_pass[0].id])
    natural = outcome(stage, hidden_fail=some(stage, "memory"))
    checks = [
        proofs.base_suite(stage, [none] * 3),
        proofs.no_op(stage, none),
        proofs.reference(stage, [good] * 2, good),
        proofs.guesses(stage, natural, over),
        proofs.in_time([good]),
    ]
    assert [c.evidence for c in checks if not c.ok] == []


def first_base(stage):
    return stage.task.key.pass_to_pass[0].id


def natural(stage):
    return outcome(stage, hidden_fail=some(stage, "memory"))


def over(stage):
    return outcome(stage, base=[first_base(stage)])


def lazy(stage):
    return outcome(stage, hidden_fail=some(stage, "capability") + some(stage, "memory"))


def unstable(stage):
    return idle(stage, base=[first_base(stage)])


def unbuilt(stage):
    return outcome(stage, base=[first_base(stage)], compiled=False, tests=())


def blind(stage):
    _, checkout = paper.pins(stage.task)
    assert checkout is not None
    suite = _Blind(None, stage.task, None)  # type: ignore[arg-type]
    return proofs.live_source(suite, checkout.entries)


# What goes wrong, the check that is named for it, and how it comes out.
BAD = {
    "a-base-test-that-fails": ("v2-base-suite", lambda s: proofs.base_suite(s, [unstable(s)] * 3)),
    "a-flaky-base-suite": ("v2-base-suite", lambda s: proofs.base_suite(s, [idle(s), idle(s), unstable(s)])),
    "a-blind-suite": ("v3-live-source", blind),
    "a-vacuous-hidden-test": ("v4-no-op", lambda s: proofs.no_op(s, outcome(s))),
    "a-base-suite-broken-from-the-start": ("v4-no-op", lambda s: proofs.no_op(s, unstable(s))),
    "a-reference-that-fails": ("v5-reference", lambda s: proofs.reference(s, [natural(s)] * 2, natural(s))),
    "a-flaky-reference": ("v5-reference", lambda s: proofs.reference(s, [outcome(s), natural(s)], outcome(s))),
    "a-reference-that-half-speed-breaks": ("v5-reference", lambda s: proofs.reference(s, [outcome(s)] * 2, natural(s))),
    "a-fact-that-can-be-guessed": ("v6-guesses", lambda s: proofs.guesses(s, outcome(s), over(s))),
    "a-natural-patch-that-does-not-do-the-job": ("v6-guesses", lambda s: proofs.guesses(s, lazy(s), over(s))),
    "a-natural-patch-that-breaks-the-base-suite": ("v6-guesses", lambda s: proofs.guesses(s, over(s), over(s))),
    "a-scope-that-nothing-guards": ("v6-guesses", lambda s: proofs.guesses(s, natural(s), outcome(s))),
    "an-overeager-patch-that-does-not-build": ("v6-guesses", lambda s: proofs.guesses(s, natural(s), unbuilt(s))),
    "a-slow-suite": ("v11-time", lambda s: proofs.in_time([outcome(s, container_ms=60_000)] * 3)),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_outcome_fails_the_check_that_is_named_for_it(stage, what):
    name, make = BAD[what]
    found = make(stage)
    assert (found.name, found.ok) == (name, False)
    assert len(found.evidence) > 10


def test_a_slow_suite_on_a_busy_machine_is_told_to_wait_and_stays_refused(stage):
    """Wall time grows with what else runs: fewer tests would be the wrong advice, and passing it a wrong verdict."""
    plays = [outcome(stage, container_ms=25_500)] * 3
    busy, quiet = proofs.in_time(plays, load_per_core=9.0), proofs.in_time(plays, 0.8)
    assert not busy.ok
    assert not quiet.ok
    assert "load 9.0 for each core" in busy.evidence
    assert "validate again" in busy.evidence
    assert "choose fewer test_paths" in quiet.evidence
    assert proofs.in_time([outcome(stage)], load_per_core=9.0).ok


def test_what_a_compiler_says_of_hidden_tests_is_told_to_their_author(stage):
    good = outcome(stage)
    said = "./x_test.go:14: 0o octal literal requires go1.13\n"
    hidden = good.hidden.model_copy(update={"tests": (), "compile_error": said})
    unbuilt = dataclasses.replace(good, hidden=hidden)
    found = proofs.reference(stage, [unbuilt] * 2, unbuilt)
    assert not found.ok
    assert "0o octal literal" in found.evidence


def test_thirty_kinds_of_defects_are_planted_and_every_check_has_one():
    named = [name for name, *_ in DEFECTS] + [name for name, _ in BAD.values()] + [name for name, _ in FILES.values()]  # fmt: skip
    assert len(named) >= 30
    assert set(named) == set(get_args(CheckName))


class _Blind(Stage):
    def play(self, patch, *, limits=None):
        return outcome(self)


def test_a_blind_suite_is_caught():
    task = load_task(fixtures_root(), TASK)
    _, checkout = paper.pins(task)
    blind = _Blind(None, task, None)  # type: ignore[arg-type]
    assert checkout is not None
    found = proofs.live_source(blind, checkout.entries)
    assert not found.ok
    assert "another copy" in found.evidence


# --- what plans make of it ------------------------------------------------------------------------------


def recorded(*, ok):
    task = load_task(fixtures_root(), TASK)
    made = validate([task], None, lambda _: None, repeats=2)
    checks = tuple(c.model_copy(update={"ok": True if ok else c.ok}) for c in made.tasks[0].checks)
    entry = made.tasks[0].model_copy(update={"checks": checks, "ok": ok})
    return task, made.model_copy(update={"tasks": (entry,)})


def test_a_plan_carries_the_digest_of_a_valid_task_and_refuses_one_that_failed():
    task, good = recorded(ok=True)
    assert check_valid(task, good, official=True) == good.tasks[0].digest_sha256()
    task, bad = recorded(ok=False)
    with pytest.raises(DocumentError, match=r"v\d+-"):
        check_valid(task, bad, official=False)


def test_an_edited_task_has_no_validation_and_is_refused_officially(fixtures):
    _, good = recorded(ok=True)
    edit(fixtures, PROMPT, lambda d: d.update(prompt=d["prompt"] + " Thanks."))
    edited = load_task(fixtures, TASK)
    assert task_sha256(edited.digests) != good.tasks[0].task_sha256
    assert check_valid(edited, good, official=False) is None
    with pytest.raises(DocumentError, match="exactly these files"):
        check_valid(edited, good, official=True)


def test_a_report_keeps_the_entries_of_tasks_that_were_not_validated_now():
    _, good = recorded(ok=True)
    other = good.tasks[0].model_copy(update={"id": "other"})
    both = merged_report(good.model_copy(update={"tasks": (other,)}), good)
    assert [t.id for t in both.tasks] == [TASK, "other"]


def test_without_an_engine_no_task_is_valid():
    task = load_task(fixtures_root(), TASK)
    made = validate([task], None, lambda _: None, repeats=2)
    assert not made.tasks[0].ok
    assert "not made" in {c.name: c.evidence for c in made.tasks[0].checks}["v5-reference"]


def test_difficulty_ranks_the_decisive_event_among_all():
    hard = paper.difficulty(load_task(fixtures_root(), TASK))
    assert hard.events == 36
    assert hard.fts5_rank is not None
    assert 1 <= hard.fts5_rank <= hard.events
