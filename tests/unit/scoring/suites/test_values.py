"""Promise: a hidden test passes by the exact values that it hands over, and whoever does not know them passes none."""

from __future__ import annotations

import base64
import json

import pytest
from pydantic import ValidationError

from orchestrator.core.canonical import canonical_bytes
from orchestrator.model.task import FailToPass, HiddenFile, Key, KeyCard, PassToPass, Runner
from orchestrator.model.verdict import Seal, TestStatus
from orchestrator.protocols import VerifyOutcome
from orchestrator.scoring.runners import SUITES, exam_for, normalise
from orchestrator.scoring.suites.form import merged
from orchestrator.scoring.suites.values import compared, label_of, parted, read_values
from orchestrator.scoring.verdict import tally

BASE = Seal(phase="pass_to_pass", nonce="0" * 32)
HIDDEN = Seal(phase="fail_to_pass", nonce="0" * 32)
KINDS = ("cargo", "go-test", "mocha", "node-test", "tape", "vitest")
VALUES = ("7.00-15.30", "")
ID = "tests/h.mjs::hidden boards"


def card(**changes):
    test = {"id": ID, "group": "memory", "values": list(VALUES)}
    fact = {"id": "f", "kind": "coined", "statement": "s", "supporting_event_ids": ["e"], "matchers": ["s"]}  # fmt: skip
    fields = {"task_id": "t", "hidden_files": [{"path": "tests/h.mjs"}], "boundary": "values", "fail_to_pass": [test], "gold_facts": [fact], "relevant_files": ["src"]}  # fmt: skip
    return KeyCard.model_validate_json(json.dumps({**fields, **changes}))


def exam(kind, seal=HIDDEN):
    key = Key(
        task_id="t",
        card=card(),
        hidden_files=(HiddenFile(path="tests/h.mjs", text="package h\n", sha256="0" * 64),),
        pass_to_pass=(PassToPass(id="base"),),
    )
    runner = Runner(kind=kind, source_roots=("src",), test_paths=("tests",), timeout_s=60)
    return exam_for(runner, key, seal)


def line(value, name="hidden boards"):
    return f"{name.encode().hex()} {value.encode().hex()}\n".encode()


SHOWN = b"".join(line(value) for value in VALUES)


def outcome(exit_code, report):
    return VerifyOutcome(compiled=True, compile_error=None, timed_out=False, exit_code=exit_code, report=report, log=b"")  # fmt: skip


PASSED = (("hidden boards", "pass"),)


def given(shown, hidden=PASSED):
    """What the container gives back when mocha says of the hidden file's tests what is given."""
    made = exam("mocha")
    every = [("/work/tests/h.mjs", title, status) for title, status in hidden]
    every += [(f"/work/{i.split('::')[0]}", i.split("::")[1], s) for f in made.seal_files for i, s in f.expected]  # fmt: skip
    lists = {n: [{"file": f, "fullTitle": t} for f, t, s in every if s == k] for n, k in (("passes", "pass"), ("failures", "fail"), ("pending", "skip"))}  # fmt: skip
    report = json.dumps(lists).encode()
    listed = [("runner", len(lists["failures"]), report), ("values", 0, shown)]
    parts = [{"name": n, "exit_code": c, "data_base64": base64.b64encode(d).decode(), "truncated": False} for n, c, d in listed]  # fmt: skip
    return outcome(0, json.dumps({"parts": parts}).encode())


def mocha(shown):
    return normalise(given(shown), exam("mocha"))


@pytest.mark.parametrize("shown", [SHOWN, b""])
def test_an_auditor_who_reads_the_recorded_bytes_again_comes_to_the_same_report(shown):
    first, came = mocha(shown), given(shown)
    again = normalise(outcome(first.exit_code, came.report), exam("mocha"))
    assert again == first
    assert first.tests


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_expected_is_in_nothing_that_goes_into_a_container(kind):
    made = exam(kind)
    sent = repr((made.tests, made.hidden_files, made.seal_files, made.protected))
    assert "7.00-15.30" not in sent
    assert made.values == ((ID, VALUES),)


@pytest.mark.parametrize("kind", KINDS)
def test_the_values_are_filed_beside_the_runner_s_report_in_the_hidden_phase_alone(kind):
    steps = json.loads(exam(kind).tests.argv[-1])
    assert [s["name"] for s in steps][-1] == "values"
    assert len(steps) > 1
    assert "MEMTRIAL_VALUES" in dict(exam(kind).tests.environment)
    base = exam(kind, BASE)
    assert "MEMTRIAL_VALUES" not in dict(base.tests.environment)
    assert base.values is None


def test_a_test_that_passed_and_hands_over_the_values_in_order_passes():
    assert [(t.id, t.status) for t in mocha(SHOWN).tests] == [(ID, "pass")]


# What a suite may say of the one hidden test when its values are all there, and what comes of it.
BOUNDARIES = {
    "skipped": ((("hidden boards", "skip"),), SHOWN),
    "renamed": ((("hidden boards (1)", "pass"),), SHOWN),
    "renamed-with-its-values": (
        (("other boards", "pass"),),
        b"".join(line(value, "other boards") for value in VALUES),
    ),
    "doubled": ((("hidden boards", "pass"),) * 2, SHOWN),
    "doubled-with-values-twice": ((("hidden boards", "pass"),) * 2, SHOWN * 2),
    "doubled-once-skipped": ((("hidden boards", "pass"), ("hidden boards", "skip")), SHOWN),
}


@pytest.mark.parametrize(("said", "shown"), BOUNDARIES.values(), ids=BOUNDARIES)
def test_a_hidden_test_that_is_skipped_renamed_or_doubled_passes_by_no_values(said, shown):
    report = normalise(given(shown, said), exam("mocha"))
    assert tally((PassToPass(id=ID),), report).passed == 0


def test_a_hidden_test_is_counted_where_nothing_of_that_happened():
    assert tally((PassToPass(id=ID),), mocha(SHOWN)).passed == 1


WRONG = {
    "nothing": b"",
    "another-value": line("07:00-15:30") + line(""),
    "another-order": line("") + line("7.00-15.30"),
    "one-too-few": line("7.00-15.30"),
    "one-too-many": SHOWN + line(""),
    "right-and-wrong": line("07:00-15:30") + SHOWN,
    "under-another-name": line("7.00-15.30", "other") + line("", "other"),
    "no-last-newline": SHOWN[:-1],
    "not-hexadecimal": SHOWN + b"zz zz\n",
    "capital-digits": SHOWN.upper(),
    "not-utf-8": SHOWN + b"61 ff\n",
    "a-line-between": line("7.00-15.30") + b"\n" + line(""),
    "carriage-returns": SHOWN.replace(b"\n", b"\r\n"),
}


@pytest.mark.parametrize("shown", WRONG.values(), ids=WRONG)
def test_a_runner_that_says_passed_passes_nothing_without_exactly_the_values(shown):
    assert [(t.id, t.status) for t in mocha(shown).tests] == [(ID, "fail")]


def test_right_values_do_not_save_a_test_that_did_not_end_well():
    failed = (TestStatus(id=ID, status="error", n=1),)
    assert compared(failed, ((ID, VALUES),), read_values(SHOWN)) == failed


def test_a_test_of_which_nothing_is_expected_passes_by_no_value():
    passed = (TestStatus(id=ID, status="pass", n=1),)
    assert compared(passed, ((ID, ()),), {})[0].status == "fail"


@pytest.mark.parametrize("report", [None, b"", b"{", b'{"parts": []}'])
def test_a_report_without_the_values_is_no_report(report):
    own, shown = parted(outcome(0, report))
    assert (own.report, shown) == (None, {})


@pytest.mark.parametrize("kind", ["cargo", "go-test"])
def test_a_suite_of_several_commands_gets_its_own_parts_back(kind):
    names = [step["name"] for step in json.loads(exam(kind).tests.argv[-1])]
    parts = [{"name": n, "exit_code": 0, "data_base64": "", "truncated": False} for n in names]
    own, _ = parted(outcome(0, canonical_bytes({"parts": parts})))
    assert json.loads(own.report or b"")["parts"] == parts[:-1]


def test_names_are_what_follows_the_last_colons():
    assert [label_of(i) for i in (ID, "a::b::c", "file.cjs")] == ["hidden boards", "c", "file.cjs"]


def test_a_name_with_the_separator_and_blanks_in_it_finds_its_values():
    """A test named `rows :: sums` shows as `sums`; the blank after the separator is no part of the name."""
    (test,) = merged([("a.ts::rows :: sums", "pass")])
    shown = read_values(line("6", "sums"))
    assert compared((test,), ((test.id, ("6",)),), shown)[0].status == "pass"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"boundary": "in_process"}, id="values-that-nobody-compares"),
        pytest.param({"fail_to_pass": [{"id": ID, "group": "memory"}]}, id="nothing-to-compare"),
        pytest.param({"fail_to_pass": [{"id": f"{n}::x", "group": "memory", "values": ["1"]} for n in "ab"]}, id="two-tests-of-one-name"),
    ],
)  # fmt: skip
def test_a_key_whose_values_do_not_fit_its_boundary_is_refused(changes):
    with pytest.raises(ValidationError):
        card(**changes)


def test_every_suite_but_pytest_can_hand_over_values():
    assert set(SUITES) == set(KINDS)
    assert FailToPass(id="x", group="memory").values == ()
