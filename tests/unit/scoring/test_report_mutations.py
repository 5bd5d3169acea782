"""Promise: no change to the bytes of an unresolved trial's report makes it a resolved one, or stops the grader."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.scoring.runners import exam_for, normalise
from tests.unit.scoring.conftest import BASE, CAPABILITY, MEMORY
from tests.unit.scoring.test_runners import RUNNER, SEAL, drawn, junit, outcome

FRAGMENTS = [
    b"<failure/>",
    b"<skipped/>",
    b"<testcase",
    b"</testcase>",
    b"<testsuite>",
    b"</testsuite>",
    b"<!DOCTYPE x>",
    b"]]>",
    b"<![CDATA[",
    b"&lt;",
    b"\x00",
    b"\xff\xfe",
    b'failures="0"',
    b'tests="1"',
    b"<!-- ",
    b" -->",
]
EDIT = st.tuples(
    st.sampled_from(["delete", "insert", "swap", "repeat", "truncate"]),
    st.integers(0, 4000),
    st.integers(1, 200),
    st.one_of(st.binary(max_size=40), st.sampled_from(FRAGMENTS)),
)


def mutate(data: bytes, edits: list[tuple[str, int, int, bytes]]) -> bytes:
    for kind, at, length, extra in edits:
        start = at % (len(data) + 1)
        piece = data[start : start + length]
        data = {
            "delete": data[:start] + data[start + length :],
            "insert": data[:start] + extra + data[start:],
            "swap": data[:start] + piece[::-1] + data[start + length :],
            "repeat": data[:start] + piece * 2 + data[start + length :],
            "truncate": data[:start],
        }[kind]
    return data


@pytest.mark.parametrize("phase", ["pass_to_pass", "fail_to_pass"])
@settings(
    max_examples=1000,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(edits=st.lists(EDIT, min_size=1, max_size=6))
def test_a_mutated_report_never_resolves(key, phase, edits):
    exam = exam_for(RUNNER, key, SEAL.model_copy(update={"phase": phase}))
    names = BASE if phase == "pass_to_pass" else (CAPABILITY, MEMORY)
    tests = (*drawn(exam), (names[0], "pass"), (names[1], "fail"))
    report = normalise(outcome(mutate(junit(tests), edits)), exam)
    counted = {test.id for test in report.tests if test.status == "pass" and test.n == 1}
    assert report.faults or not counted >= set(names)
