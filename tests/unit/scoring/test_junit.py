"""The report of an untrusted container: read as pytest writes it, and nothing else passes."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.strictjson import parse_json
from orchestrator.scoring.junit import MAX_BYTES, MAX_ID_CHARS, MAX_TESTS, parse_junit

CASES = Path(__file__).parents[2] / "cases" / "junit"
OPEN = b'<testsuites><testsuite name="pytest" errors="0" failures="0" skipped="0" tests="1">'
CLOSE = b"</testsuite></testsuites>"


@pytest.mark.parametrize("case", sorted(CASES.iterdir()), ids=lambda case: case.name)
def test_a_case_yields_exactly_the_expected_tests(case: Path) -> None:
    found = {
        test.id: [test.status, test.n] for test in parse_junit((case / "report.xml").read_bytes())
    }
    assert found == parse_json((case / "expected.json").read_bytes(), where=case.name)


def test_a_report_of_real_pytest_is_read(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('a', ['x  y', '\\u00e9', 'a::b'])\n"
        "def test_p(a): print('<out>')\n"
        "def test_f(): assert 0, '<!DOCTYPE x>'\n"
        "@pytest.fixture\n"
        "def broken(): raise ValueError\n"
        "def test_e(broken): pass\n"
        "@pytest.fixture\n"
        "def late():\n    yield\n    raise ValueError\n"
        "def test_teardown(late): pass\n"
        "@pytest.mark.xfail\n"
        "def test_x(): assert 0\n"
        "class TestC:\n    def test_m(self, record_property): record_property('k', 1)\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-p",
        "no:xdist",
        "--rootdir",
        str(tmp_path),
        "-c",
        "/dev/null",
        "--junitxml",
        str(tmp_path / "r.xml"),
        str(tmp_path),
    ]
    subprocess.run(command, check=False, capture_output=True, cwd=tmp_path)
    found = {
        test.id: (test.status, test.n) for test in parse_junit((tmp_path / "r.xml").read_bytes())
    }
    assert found == {
        "test_x::test_p[x y]": ("pass", 1),
        "test_x::test_p[\\xe9]": ("pass", 1),
        "test_x::test_p[a::b]": ("pass", 1),
        "test_x::test_f": ("fail", 1),
        "test_x::test_e": ("error", 1),
        "test_x::test_teardown": ("error", 1),
        "test_x::test_x": ("skip", 1),
        "test_x.TestC::test_m": ("pass", 1),
    }


def test_a_line_of_ten_megabytes_is_read() -> None:
    output = b"<system-out>" + b"x" * 10_000_000 + b"</system-out>"
    report = OPEN + b'<testcase classname="a" name="b">' + output + b"</testcase>" + CLOSE
    assert [test.id for test in parse_junit(report)] == ["a::b"]


def test_a_report_above_the_size_limit_yields_no_tests() -> None:
    test = b'<testcase classname="a" name="b"/>'
    assert parse_junit(OPEN + test + b" " * MAX_BYTES + CLOSE) == ()


def test_more_tests_than_the_limit_yield_none() -> None:
    tests = b"".join(b'<testcase classname="a" name="%d"/>' % i for i in range(MAX_TESTS + 1))
    assert parse_junit(OPEN + tests + CLOSE) == ()


def test_an_endless_id_yields_no_tests() -> None:
    assert (
        parse_junit(OPEN + b'<testcase classname="a" name="%s"/>' % (b"b" * MAX_ID_CHARS) + CLOSE)
        == ()
    )


@pytest.mark.parametrize("filler", [b"<a>" * 5_000_000, b"<a/>" * 3_500_000], ids=["deep", "wide"])
def test_millions_of_elements_are_refused_at_no_cost_in_memory_to_speak_of(filler: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert parse_junit(OPEN + b'<testcase name="x">' + filler + b"</testcase>" + CLOSE) == ()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_raise(data: bytes) -> None:
    parse_junit(data)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(sorted(CASES.iterdir())), st.integers(0, 600), st.binary(max_size=8))
def test_no_damaged_case_raises(case: Path, at: int, noise: bytes) -> None:
    data = (case / "report.xml").read_bytes()
    parse_junit(data[:at] + noise + data[at + len(noise) :])
