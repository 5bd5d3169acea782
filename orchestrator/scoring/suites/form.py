"""The one form that every runner's report becomes, and the report of several steps. Pure.

A report comes from an untrusted container: what is not exactly as its runner writes it gives no tests,
so a candidate can spoil its own report and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.errors import DocumentError
from orchestrator.core.pathglob import expressions
from orchestrator.core.strictjson import parse_json
from orchestrator.model.task import Key, Runner
from orchestrator.model.verdict import ReportFault, Seal, TestReport, TestStatus
from orchestrator.protocols import Command, VerifyOutcome
from orchestrator.scoring.exam import Exam
from orchestrator.scoring.seal import TESTS_PER_FILE, SealFile, broken_seal, draw

Status = Literal["pass", "skip", "fail", "error"]
Outcome = Literal["pass", "fail"]

MAX_REPORT_BYTES = 16 * 1024 * 1024
MAX_TESTS = 100_000
MAX_ID_CHARS = 4_000
REPORT_PATH = "/report/report.xml"
PROGRAMS = "/opt/memtrial/verifier"
_RANK: dict[Status, int] = {"pass": 0, "skip": 1, "fail": 2, "error": 3}


@dataclass(frozen=True, slots=True)
class Reading:
    """What a report says: the tests, why the tree could not be built, or why nothing of it is believed."""

    tests: tuple[TestStatus, ...] = ()
    build_error: str | None = None
    fault: ReportFault | None = None


class Suite(Protocol):
    """A test runner. Its seal's files are placed beside the tests; see `scoring/seal.py` for what they are."""

    @property
    def protected(self) -> tuple[str, ...]:
        """Path patterns (case-folded) of what the runner reads before tests: restored from the pinned tree."""

    def seal(self, seal: Seal, key: Key) -> tuple[SealFile, ...]:
        """Returns the drawn tests of a verification in this runner's own form."""

    def command(
        self, runner: Runner, hidden_paths: tuple[str, ...], seal_paths: tuple[str, ...]
    ) -> Command:
        """Returns the command: of the base suite, or of the hidden files where there are any."""

    def read(self, outcome: VerifyOutcome) -> Reading:
        """Reads the runner's report; what it would not have written gives no tests."""


def suite_exam(suite: Suite, runner: Runner, key: Key, seal: Seal) -> Exam:
    """Returns the exam of a phase: the base suite without hidden tests, or the hidden tests alone."""
    base = seal.phase == "pass_to_pass"
    hidden = () if base else tuple((file.path, file.text) for file in key.hidden_files)
    drawn = suite.seal(seal, key)
    ids = {t.id for t in (key.pass_to_pass if base else key.card.fail_to_pass)}
    return Exam(
        kind=runner.kind,
        phase=seal.phase,
        hidden_files=hidden,
        seal=seal,
        seal_files=drawn,
        protected=expressions((*suite.protected, *_places_of_tests(runner))),
        tests=suite.command(runner, tuple(p for p, _ in hidden), tuple(f.path for f in drawn)),
        candidate=None,
        pinned_tests=(),
        left_out=(),
        reportable=frozenset(ids),
    )


def _places_of_tests(runner: Runner) -> tuple[str, ...]:
    """Returns the folders that test paths name before their first wildcard, as patterns."""
    folders = (
        path.split("*")[0].removeprefix("./").rstrip("/").casefold() for path in runner.test_paths
    )
    return tuple(
        word
        for folder in folders
        if folder not in {"", "."} and not folder.endswith(".")
        for word in (folder, f"{folder}/**")
    )


def suite_report(suite: Suite, outcome: VerifyOutcome, exam: Exam) -> TestReport:
    """Turns what a verification gave back into a TestReport; without a believed report no test passed.

    Where the runner builds, a base suite that does not build is a compile failure. A hidden test that
    does not build calls what the patch did not make: it failed, the tree did not. Tests that the suite
    does not have count for nothing: in some languages tests may stand in the sources.
    """
    reading = suite.read(outcome) if outcome.compiled and not outcome.timed_out else Reading()
    fault, tests = reading.fault, reading.tests
    if outcome.compiled and not outcome.timed_out and fault is None and reading.build_error is None:
        wrong, tests = broken_seal(tests, exam.seal_files)
        fault = ReportFault(kind="seal", detail=wrong) if wrong is not None else None
    counted = tuple(t for t in tests if exam.may_report(t.id)) if fault is None else ()
    base = exam.phase == "pass_to_pass"
    return TestReport(
        runner=exam.kind,
        phase=exam.phase,
        compiled=outcome.compiled and (reading.build_error is None or not base),
        compile_error=outcome.compile_error or reading.build_error,
        timed_out=outcome.timed_out,
        exit_code=outcome.exit_code,
        tests=counted,
        faults=(fault,) if fault is not None else (),
        restored=outcome.restored,
    )


def wrong_status(expected: int, found: object) -> Reading:
    """The runner ended otherwise than a whole session with a failing seal ends."""
    detail = f"expected {expected} (some drawn tests fail), found {found}"
    return Reading(fault=ReportFault(kind="exit_status", detail=detail))


def no_report() -> Reading:
    """There is no report, or it is not one that the runner writes."""
    return Reading(fault=ReportFault(kind="no_report", detail="expected a report, found none"))


@dataclass(frozen=True, slots=True)
class Drawn:
    """One drawn test: a name, and a division whose rest is right or wrong."""

    name: str
    value: int
    wanted: int
    status: Outcome


def drawn_tests(seal: Seal) -> tuple[str, list[Drawn]]:
    """Returns (a drawn word for file names, drawn tests): the same for every runner and place."""
    tests = []
    for number in range(TESTS_PER_FILE):
        digits = draw(seal, "suite", str(number))
        # The first two make sure that both outcomes occur.
        passes = number == 0 or (number > 1 and int(digits[0], 16) % 2 == 0)
        value = int(digits[1:8], 16)
        wanted = value % 7 if passes else (value + 1) % 7
        tests.append(Drawn(digits[9:21], value, wanted, "pass" if passes else "fail"))
    return draw(seal, "suite")[:12], tests


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a suite that takes several; `report` is its file, None for standard output."""

    name: str
    argv: tuple[str, ...]
    report: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What one step gave."""

    exit_code: int
    data: bytes


def steps_argv(steps: Iterable[Step]) -> tuple[str, ...]:
    """Returns the command that runs steps one after another and files their reports as one."""
    listed = [{"name": s.name, "argv": list(s.argv), "report": s.report} for s in steps]
    return ("python3", "-I", "-B", f"{PROGRAMS}/steps.py", canonical_bytes(listed).decode())


def takes_steps(command: Command) -> bool:
    """Whether a command runs steps; it ends with 0 then, whatever they come to (images/verifier/steps.py)."""
    return f"{PROGRAMS}/steps.py" in command.argv


def read_parts(outcome: VerifyOutcome) -> dict[str, Part]:
    """Returns the parts of a report of steps by name; none if it is not one, or a part was cut."""
    document = as_json(outcome.report) if outcome.exit_code == 0 else None
    listed = document.get("parts") if isinstance(document, dict) else None
    parts: dict[str, Part] = {}
    for item in listed if isinstance(listed, list) else []:
        match item:
            case {
                "name": str(name),
                "exit_code": int(code),
                "data_base64": str(text),
                "truncated": False,
            } if name not in parts:
                try:
                    parts[name] = Part(code, base64.b64decode(text, validate=True))
                except (binascii.Error, ValueError):
                    return {}
            case _:
                return {}
    return parts


def as_json(data: bytes | None) -> Any:
    """Returns strict JSON, or None where it is none."""
    if not data or len(data) > MAX_REPORT_BYTES:
        return None
    try:
        return parse_json(data, where="report", max_bytes=MAX_REPORT_BYTES)
    except DocumentError:
        return None


def normal_id(*parts: str) -> str:
    """Returns parts joined by `::`, in NFC, stripped, with runs of white space made one space."""
    joined = "::".join(part.strip() for part in parts)
    return " ".join(unicodedata.normalize("NFC", joined).split())


def merged(found: Iterable[tuple[str, Status]]) -> tuple[TestStatus, ...]:
    """Merges equal ids: the worst status wins, and the count says how often the id occurred."""
    known: dict[str, tuple[Status, int]] = {}
    for name, status in found:
        if not name or len(name) > MAX_ID_CHARS:
            return ()
        before, n = known.get(name, ("pass", 0))
        known[name] = (max(before, status, key=_RANK.__getitem__), n + 1)
        if len(known) > MAX_TESTS:
            return ()
    return tuple(
        TestStatus(id=name, status=status, n=n) for name, (status, n) in sorted(known.items())
    )


def below_work(path: str) -> str:
    """Returns a path of the container relative to the checkout."""
    return path.removeprefix("file://").removeprefix("/work/")
