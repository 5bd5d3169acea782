"""Each runner's report becomes one form; what a runner would not have written gives no tests."""

from __future__ import annotations

import base64
import json

import pytest

from orchestrator.model.task import FailToPass, HiddenFile, Key, KeyCard, PassToPass, Runner
from orchestrator.model.verdict import Seal
from orchestrator.protocols import VerifyOutcome
from orchestrator.scoring.runners import SUITES, exam_for, normalise
from orchestrator.scoring.suites.cases import parse_cases
from orchestrator.scoring.suites.form import as_json, merged, normal_id, read_parts

SEAL = Seal(phase="pass_to_pass", nonce="0" * 32)
HIDDEN_SEAL = Seal(phase="fail_to_pass", nonce="0" * 32)
PATHS = {
    "node-test": ("tests/**/*.test.ts",),
    "vitest": ("tests",),
    "mocha": ("test/*.mjs",),
    "tape": ("test/a.cjs",),
    "go-test": ("./...",),
    "cargo": ("tests",),
}
HIDDEN = {
    "node-test": ("tests/h.test.ts", "test('x', () => {})"),
    "vitest": ("tests/h.test.ts", "test('x', () => {})"),
    "mocha": ("test/h.mjs", "it('x')"),
    "tape": ("test/h.cjs", "require('tape')"),
    "go-test": ("sub/h_test.go", "package sub\n"),
    "cargo": ("tests/h.rs", "#[test] fn x() {}"),
}
# The id of the one pinned test, as each runner gives it.
PINNED = {
    "node-test": "tests/a.test.ts::suite > one",
    "vitest": "tests/a.test.ts::suite > one",
    "mocha": "test/a.mjs::suite one",
    "tape": "test/a.cjs",
    "go-test": "example.org/x::TestOne",
    "cargo": "x::a::one",
}


def runner(kind):
    return Runner(kind=kind, source_roots=("src",), test_paths=PATHS[kind], timeout_s=60)


def key(kind):
    path, text = HIDDEN[kind]
    card = KeyCard.model_validate_json(
        json.dumps(
            {
                "task_id": "t",
                "hidden_files": [{"path": path}],
                "boundary": "in_process",
                "fail_to_pass": [{"id": "hidden", "group": "memory"}],
                "gold_facts": [
                    {"id": "f", "kind": "coined", "statement": "s", "supporting_event_ids": ["e"], "matchers": ["s"]}
                ],
                "relevant_files": ["src"],
            }
        )
    )  # fmt: skip
    assert card.fail_to_pass == (FailToPass(id="hidden", group="memory"),)
    return Key(
        task_id="t",
        card=card,
        hidden_files=(HiddenFile(path=path, text=text, sha256="0" * 64),),
        pass_to_pass=(PassToPass(id=PINNED[kind]),),
    )


def parts(**named):
    listed = [
        {"name": n.replace("_", "-"), "exit_code": code, "data_base64": base64.b64encode(data.encode()).decode(), "truncated": False}
        for n, (code, data) in named.items()
    ]  # fmt: skip
    return json.dumps({"parts": listed}).encode()


def drawn(kind, seal=SEAL):
    """The seal's tests as (id, status)."""
    return [pair for file in SUITES[kind].seal(seal, key(kind)) for pair in file.expected]


def report_of(kind, pinned="pass", sealed=True):
    """A report as the runner writes it: the pinned test and the seal."""
    found = drawn(kind) if sealed else []
    if kind == "node-test":
        body = "".join(
            f'<testcase name="{i.split("::")[1]}" file="/work/{i.split("::")[0]}">{"" if s == "pass" else "<failure/>"}</testcase>'
            for i, s in found
        )
        fail = "" if pinned == "pass" else "<failure/>"
        return 1, f'<?xml version="1.0"?><testsuites><testsuite name="suite"><testcase name="one" file="/work/tests/a.test.ts">{fail}</testcase></testsuite>{body}<!-- x --></testsuites>'.encode()  # fmt: skip
    if kind == "vitest":
        files = [{"name": "/work/tests/a.test.ts", "status": "passed", "assertionResults": [{"ancestorTitles": ["suite"], "title": "one", "status": f"{pinned}ed"}]}]  # fmt: skip
        files += [{"name": f"/work/{i.split('::')[0]}", "status": "failed", "assertionResults": [{"ancestorTitles": [], "title": i.split("::")[1], "status": f"{s}ed"}]} for i, s in found]  # fmt: skip
        return 1, json.dumps({"testResults": files}).encode()
    if kind == "mocha":
        every = [("/work/test/a.mjs", "suite one", pinned)]
        every += [(f"/work/{i.split('::')[0]}", i.split("::")[1], s) for i, s in found]
        lists = {name: [{"file": f, "fullTitle": t} for f, t, s in every if s == status] for name, status in (("passes", "pass"), ("failures", "fail"))}  # fmt: skip
        return len(lists["failures"]), json.dumps({**lists, "pending": []}).encode()
    if kind == "tape":
        good, bad = (0, "TAP\nok 1 x\n1..1\n"), (1, "TAP\nnot ok 1 x\n1..1\n")
        named = {"test/a.cjs": good if pinned == "pass" else bad}
        named |= {i: good if s == "pass" else bad for i, s in found}
        listed = [{"name": n, "exit_code": c, "data_base64": base64.b64encode(d.encode()).decode(), "truncated": False} for n, (c, d) in named.items()]  # fmt: skip
        return 0, json.dumps({"parts": listed}).encode()
    if kind == "go-test":
        events = [{"Action": pinned, "Package": "example.org/x", "Test": "TestOne"}]
        events += [{"Action": "pass" if pinned == "pass" else "fail", "Package": "example.org/x"}]
        events += [{"Action": s, "Package": "example.org/x/seal0", "Test": i.split("::")[1]} for i, s in found]  # fmt: skip
        events += [{"Action": "fail", "Package": "example.org/x/seal0"}]
        return 0, parts(go_test=(1, "\n".join(map(json.dumps, events))))
    said = "test result: ok. 1 passed; 0 failed;"
    cases = [("x::a", "one", pinned), *((f"x::{i.split('::')[0]}", i.split("::")[1], s) for i, s in found)]  # fmt: skip
    body = "".join(f'<testcase classname="{c}" name="{n}">{f"<system-out>{said}</system-out>" if s == "pass" else "<failure/>"}</testcase>' for c, n, s in cases)  # fmt: skip
    xml = f'<testsuites><testsuite name="x">{body}</testsuite></testsuites>'
    doc = "running 1 test\ntest src/lib.rs - f (line 3) ... ok\n\n"
    return 0, parts(nextest=(100, xml), doctests=(0, doc))


def outcome(code, report):
    return VerifyOutcome(compiled=True, compile_error=None, timed_out=False, exit_code=code, report=report, log=b"")  # fmt: skip


def read(kind, code, report):
    return normalise(outcome(code, report), exam_for(runner(kind), key(kind), SEAL))


KINDS = sorted(PATHS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", ["pass", "fail"])
def test_a_whole_report_gives_the_pinned_test_and_nothing_of_the_seal(kind, status):
    report = read(kind, *report_of(kind, status))
    assert report.faults == ()
    assert [(t.id, t.status, t.n) for t in report.tests] == [(PINNED[kind], status, 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_without_the_seal_is_not_believed(kind):
    report = read(kind, *report_of(kind, sealed=False))
    assert report.tests == ()
    assert [f.kind for f in report.faults]


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_that_shows_every_drawn_test_passed_is_not_believed(kind):
    code, data = report_of(kind)
    for bad, good in ((b"<failure/>", b""), (b'"failed"', b'"passed"'), (b'"fail"', b'"pass"')):
        data = data.replace(bad, good)
    if kind == "mocha":
        lists = json.loads(data)
        data = json.dumps({"passes": lists["passes"] + lists["failures"], "failures": [], "pending": []}).encode()  # fmt: skip
        code = 0
    if kind in {"tape", "go-test", "cargo"}:
        listed = json.loads(data)["parts"]
        for part in listed:
            text = base64.b64decode(part["data_base64"]).replace(b"not ok", b"ok").replace(b'"fail"', b'"pass"').replace(b"<failure/>", b"<system-out>test result: ok. 1 passed; 0 failed;</system-out>")  # fmt: skip
            part["data_base64"] = base64.b64encode(text).decode()
            part["exit_code"] = 0 if kind == "tape" else part["exit_code"]
        data = json.dumps({"parts": listed}).encode()
    report = read(kind, code, data)
    assert report.tests == ()
    assert report.faults


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [None, b"", b"{", b"<x", b"[]", b'{"parts": 1}', b"\xff\xfe", b"null", b'{"testResults": [1]}'])  # fmt: skip
def test_what_is_no_report_gives_no_test_and_no_error(kind, data):
    report = read(kind, 1, data)
    assert report.tests == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", [0, 2, 7, 134, 137, None])
def test_an_end_that_is_not_a_whole_session_s_is_not_believed(kind, code):
    said, data = report_of(kind)
    if code == said:
        return
    assert read(kind, code, data).tests == ()


@pytest.mark.parametrize("kind", KINDS)
def test_seals_follow_from_the_nonce_and_differ_between_verifications(kind):
    suite = SUITES[kind]
    other = Seal(phase="pass_to_pass", nonce="1" * 32)
    assert suite.seal(SEAL, key(kind)) == suite.seal(SEAL, key(kind))
    assert suite.seal(SEAL, key(kind)) != suite.seal(other, key(kind))
    assert {status for _, status in drawn(kind)} == {"pass", "fail"}


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_tests_run_alone_and_tests_of_the_checkout_are_restored(kind):
    exam = exam_for(runner(kind), key(kind), HIDDEN_SEAL)
    words = " ".join(exam.tests.argv)
    assert HIDDEN[kind][0].rpartition("/")[2].split(".")[0].removesuffix("_test") in words or "./sub" in words  # fmt: skip
    assert exam.candidate is None
    import re

    guarded = {"node-test": "package.json", "vitest": "vitest.config.ts", "mocha": ".mocharc.yml", "tape": "package.json", "go-test": "zz_test.go", "cargo": "build.rs"}[kind]  # fmt: skip
    assert any(re.fullmatch(rule, guarded) for rule in exam.protected)


def test_a_base_suite_that_does_not_build_is_a_compile_failure_and_a_hidden_one_is_not():
    event = {"Action": "build-fail", "ImportPath": "example.org/x"}
    said = {"Action": "build-output", "ImportPath": "example.org/x", "Output": "undefined: f\n"}
    data = parts(go_test=(1, "\n".join(map(json.dumps, [said, event]))))
    base = read("go-test", 0, data)
    assert (base.compiled, base.compile_error, base.tests) == (False, "undefined: f", ())
    hidden = normalise(outcome(0, data), exam_for(runner("go-test"), key("go-test"), HIDDEN_SEAL))
    assert (hidden.compiled, hidden.tests, hidden.faults) == (True, (), ())


def test_a_go_package_that_fails_without_a_failed_test_passes_none():
    _, data = report_of("go-test")
    listed = json.loads(data)["parts"]
    text = base64.b64decode(listed[0]["data_base64"]).decode()
    text = text.replace('{"Action": "pass", "Package": "example.org/x"}', '{"Action": "fail", "Package": "example.org/x"}')  # fmt: skip
    report = read("go-test", 0, parts(go_test=(1, text)))
    assert [t.status for t in report.tests] == ["error"]


def test_a_rust_process_that_ends_well_without_libtest_s_last_word_passes_nothing():
    _, data = report_of("cargo")
    listed = json.loads(data)["parts"]
    xml = base64.b64decode(listed[0]["data_base64"]).decode()
    first = xml.replace("<system-out>test result: ok. 1 passed; 0 failed;</system-out>", "", 1)
    report = read("cargo", 0, parts(nextest=(100, first), doctests=(0, "")))
    assert [t.status for t in report.tests] == ["error"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("running 2 tests\ntest a.rs - f (line 3) ... ok\ntest a.rs - g (line 9) ... FAILED\n\n", {"doc::a.rs - f": "pass", "doc::a.rs - g": "fail"}, id="plain"),
        pytest.param("running 1 test\ntest a.rs - f (line 3) ... FAILED\n\nfailures:\n\n---- a.rs - f (line 3) stdout ----\ntest a.rs - f (line 3) ... ok\n", {"doc::a.rs - f": "fail"}, id="forged-in-the-output-of-a-failure"),
        pytest.param("running 1 test\ntest a.rs - f (line 3) - should panic ... ok\n\n", {"doc::a.rs - f": "pass"}, id="with-a-mode"),
        pytest.param("running 2 tests\ntest a.rs - f (line 3) ... ok\n", {}, id="fewer-than-said"),
        pytest.param("running 1 test\ninjected\ntest a.rs - f (line 3) ... ok\n", {}, id="a-line-between"),
    ],
)  # fmt: skip
def test_doctests_are_read_without_their_line_numbers_and_cannot_be_forged_from_output(
    text, expected
):
    from orchestrator.scoring.suites.cargo import _doctests
    from orchestrator.scoring.suites.form import Part

    found = _doctests(Part(101 if "FAILED" in text else 0, text.encode()))
    assert dict(found) == expected


def test_equal_ids_are_one_entry_and_the_worst_status_wins():
    found = merged([("a", "pass"), ("a", "fail"), ("b", "pass"), ("b", "pass")])
    assert [(t.id, t.status, t.n) for t in found] == [("a", "fail", 2), ("b", "pass", 2)]


def test_ids_are_composed_stripped_and_single_spaced():
    assert normal_id(" a ", "cafe\u0301  x\n") == "a::caf\u00e9 x"


def test_a_cut_part_and_a_part_given_twice_spoil_the_report():
    whole = json.loads(parts(one=(0, "x")))
    assert set(read_parts(outcome(0, json.dumps(whole).encode()))) == {"one"}
    cut = {"parts": [{**whole["parts"][0], "truncated": True}]}
    twice = {"parts": whole["parts"] * 2}
    assert read_parts(outcome(0, json.dumps(cut).encode())) == {}
    assert read_parts(outcome(0, json.dumps(twice).encode())) == {}


@pytest.mark.parametrize(
    "data",
    [
        b'<!DOCTYPE x><testsuites><testcase name="a"/></testsuites>',
        b'<?xml version="1.0" encoding="utf-16"?><testsuites/>',
        b"<testsuites>" + b"<testsuite>" * 80 + b"</testsuite>" * 80 + b"</testsuites>",
        b'<testsuite><testcase name="a"/></testsuite>',
        b'<testsuites><x><testcase name="a"/></x></testsuites>',
        b'<testsuites><testcase name="a"/>',
        b"a\0b",
    ],
)
def test_xml_that_no_runner_writes_gives_no_cases(data):
    assert parse_cases(data) == []


def test_duplicate_keys_and_not_a_number_are_no_json():
    assert as_json(b'{"a": 1, "a": 2}') is None
    assert as_json(b'{"a": NaN}') is None
