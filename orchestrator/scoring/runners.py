"""How a task's suite is run and how its report becomes a TestReport. Every command is made here.

The runner's configuration and report lie outside the checkout; files of the checkout that a runner reads
before tests are restored from the pinned tree, so a patch cannot change what is run.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import replace

from orchestrator.core.pathglob import expressions
from orchestrator.model.plan import TaskPin
from orchestrator.model.task import Key, Runner, RunnerKind
from orchestrator.model.verdict import ReportFault, Seal, TestReport, TestStatus
from orchestrator.protocols import Command, VerifyJob, VerifyOutcome
from orchestrator.scoring.exam import Exam
from orchestrator.scoring.junit import parse_junit
from orchestrator.scoring.seal import broken_seal, pytest_seal
from orchestrator.scoring.suites.cargo import Cargo
from orchestrator.scoring.suites.form import Suite, suite_exam, suite_report
from orchestrator.scoring.suites.golang import GoTest
from orchestrator.scoring.suites.javascript import Mocha, NodeTest, Tape, Vitest
from orchestrator.scoring.suites.values import compared, expected_values, parted, showing

# What pytest or Python reads before the first test, wherever it lies (case-folded).
PYTEST_READS = (
    *("**/conftest.py", "**/conftest/**", "**/sitecustomize.py", "**/sitecustomize/**"),
    *("**/usercustomize.py", "**/usercustomize/**", "**/*.pth", "**/pytest.ini"),
    *("**/.pytest.ini", "**/pytest.toml", "**/.pytest.toml", "pyproject.toml", "tox.ini"),
    *("setup.cfg", "setup.py", "**/__pycache__/**", "**/*.pyc", "**/*.egg-info/**"),
    "**/*.dist-info/**",
)
# A session with a failing test, and a seal has some, ends with this status (pytest's ExitCode).
PYTEST_TESTS_FAILED = 1
MAX_NAMED = 10

# Every runner but pytest, which is below: its module, by the name that tasks give.
SUITES: dict[RunnerKind, Suite] = {
    "node-test": NodeTest(),
    "vitest": Vitest(),
    "mocha": Mocha(),
    "tape": Tape(),
    "go-test": GoTest(),
    "cargo": Cargo(),
}

__all__ = ["SUITES", "Exam", "exam_for", "job_for", "normalise"]


def exam_for(runner: Runner, key: Key, seal: Seal) -> Exam:
    """Returns the exam of a phase: the base suite without hidden tests, or the hidden tests alone."""
    if runner.kind in SUITES:
        exam = suite_exam(SUITES[runner.kind], runner, key, seal)
        if seal.phase == "pass_to_pass" or key.card.boundary != "values":
            return exam
        return replace(exam, tests=showing(exam.tests), values=expected_values(key))
    base = seal.phase == "pass_to_pass"
    hidden = () if base else tuple((file.path, file.text) for file in key.hidden_files)
    apart = not base and key.card.boundary == "process"
    pinned = runner.test_paths if apart and key.apart else ()
    first, last = pytest_seal(seal)
    paths = runner.test_paths if base else tuple(p for p, _ in hidden if _holds_tests(p))
    # Of a file that is named before its folder, pytest leaves the rest of the folder out.
    paths = (*pinned, *(p for p in paths if not _is_below(p, pinned)))
    roots = ":".join(f"/work/{root}" if root != "." else "/work" for root in runner.source_roots)
    ids = set() if base else {test.id for test in key.card.fail_to_pass}
    if base or pinned:
        ids |= {test.id for test in key.pass_to_pass} | set(key.also_reported)
    return Exam(
        kind="pytest",
        phase=seal.phase,
        hidden_files=hidden,
        seal=seal,
        seal_files=(first, last),
        protected=(
            *expressions((*PYTEST_READS, *(_below(path) for path in runner.test_paths))),
            *(_shadows(root) for root in runner.source_roots),
        ),
        tests=_pytest((first.path, *paths, last.path), roots, apart=apart),
        candidate=_candidate(roots) if apart else None,
        pinned_tests=pinned,
        left_out=_not_apart(key) if pinned else (),
        reportable=frozenset(ids),
    )


def job_for(
    exam: Exam, task: TaskPin, runner: Runner, *, expect_tree: str, diff: bytes
) -> VerifyJob:
    """Returns the sandbox's part of an exam: a tree by id and diff, and what to place and run."""
    return VerifyJob(
        phase=exam.phase,
        task=task,
        expect_tree=expect_tree,
        diff=diff,
        hidden_files=exam.hidden_files,
        seal_files=tuple((file.path, file.text) for file in exam.seal_files),
        protected=exam.protected,
        source_roots=runner.source_roots,
        tests=exam.tests,
        candidate=exam.candidate,
        pinned_tests=exam.pinned_tests,
        left_out=exam.left_out,
        timeout_s=runner.timeout_s,
    )


def restored_paths(exam: Exam, changed: Iterable[str]) -> tuple[str, ...]:
    """Returns the changed paths that are given back their pinned content before the tests, in order.

    The rule of images/verifier/verify.py, which applies it where the tests are run.
    """
    rules = re.compile("|".join(f"(?:{rule})" for rule in exam.protected) or r"(?!)", re.DOTALL)
    return tuple(path for path in sorted(set(changed)) if rules.fullmatch(path.casefold()))


def _holds_tests(path: str) -> bool:
    return path.endswith(".py") and not path.endswith(("conftest.py", "__init__.py"))


def _not_apart(key: Key) -> tuple[str, ...]:
    """Returns the base tests that need the code under test in their own process."""
    every = {*(test.id for test in key.pass_to_pass), *key.also_reported}
    return tuple(sorted(every - set(key.apart)))


def _is_below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _shadows(root: str) -> str:
    """A rule for paths that would stand in for modules of the standard library."""
    prefix = "" if root == "." else f"{re.escape(root.casefold())}/"
    names = "|".join(re.escape(name.casefold()) for name in sorted(sys.stdlib_module_names))
    return rf"{prefix}(?:{names})(?:\.pyc?|\.[^/]*\.so|\.so|/.*)"


def _below(path: str) -> str:
    folded = path.casefold()
    return folded if folded.endswith(".py") else f"{folded}/**"


def _pytest(paths: tuple[str, ...], roots: str, *, apart: bool) -> Command:
    # -P: the folder that it starts in, the candidate's, is not where Python looks for modules first.
    # pytest's own tracebacks parse every file of every frame: minutes, where hundreds fail across the boundary.
    plugin = ("-p", "boundary", "--tb=native") if apart else ()
    ours = "/opt/memtrial/python:/opt/memtrial/verifier"
    return Command(
        argv=(
            *("python3", "-s", "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin),
            *("-o", "addopts=", "-c", "/opt/memtrial/verifier/pytest.ini"),
            # The seal is run and reported also where the candidate cannot even be imported.
            "--continue-on-collection-errors",
            f"--rootdir={'/hidden' if apart else '/work'}",
            "--junitxml=/report/report.xml",
            *paths,
        ),
        environment=(
            ("PYTHONPATH", ours if apart else f"/opt/memtrial/python:{roots}"),
            ("HOME", "/tmp"),  # noqa: S108 - the container's own tmpfs
            ("PYTHONHASHSEED", "0"),
            # Plugins are named by us alone, not by files that say they are installed.
            ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"),
        ),
    )


def _candidate(roots: str) -> Command:
    return Command(
        argv=("python3", "-s", "/opt/memtrial/verifier/candidate.py"),
        environment=(
            ("PYTHONPATH", f"/opt/memtrial/python:{roots}"),
            ("HOME", "/candidate"),
            ("TMPDIR", "/candidate"),
            ("PYTHONHASHSEED", "0"),
        ),
    )


def normalise(outcome: VerifyOutcome, exam: Exam) -> TestReport:
    """Turns what a verification gave back into a TestReport; without a believed report no test passed."""
    if exam.kind in SUITES:
        return _of_suite(SUITES[exam.kind], outcome, exam)
    faults, tests = _believed(outcome, exam)
    return TestReport(
        runner="pytest",
        phase=exam.phase,
        compiled=outcome.compiled,
        compile_error=outcome.compile_error,
        timed_out=outcome.timed_out,
        exit_code=outcome.exit_code,
        tests=tests,
        faults=faults,
        restored=outcome.restored,
    )


def _of_suite(suite: Suite, outcome: VerifyOutcome, exam: Exam) -> TestReport:
    """Returns the report of a suite; where tests hand over values, only the right ones pass."""
    if exam.values is None:
        return suite_report(suite, outcome, exam)
    own, shown = parted(outcome)
    report = suite_report(suite, own, exam)
    tests = compared(report.tests, exam.values, shown)
    # The status of what was run, with which an auditor reads the same bytes again.
    return report.model_copy(update={"tests": tests, "exit_code": outcome.exit_code})


def _believed(
    outcome: VerifyOutcome, exam: Exam
) -> tuple[tuple[ReportFault, ...], tuple[TestStatus, ...]]:
    """Returns the faults of a report and the tests that count: status, report and seal must agree."""
    if not outcome.compiled or outcome.timed_out:
        return (), ()
    tests: tuple[TestStatus, ...] = ()
    fault = _channel_fault(outcome)
    if fault is None:
        wrong, tests = broken_seal(parse_junit(outcome.report or b""), exam.seal_files)
        fault = None if wrong is None else ReportFault(kind="seal", detail=wrong)
    if fault is not None:
        return (fault,), ()
    # A file that cannot be collected is reported as an error under a name of its own; its tests are missing.
    strange = [t.id for t in tests if not exam.may_report(t.id) and t.status != "error"]
    if strange:
        named = ", ".join(strange[:MAX_NAMED])[:1000]
        detail = f"expected the ids of the suite, found {len(strange)} others: {named}"
        return (ReportFault(kind="unexpected_tests", detail=detail),), tests
    return (), tests


def _channel_fault(outcome: VerifyOutcome) -> ReportFault | None:
    """Returns what the engine and our own program saw that no whole session leaves."""
    if outcome.exit_code != PYTEST_TESTS_FAILED:
        detail = (
            f"expected {PYTEST_TESTS_FAILED} (some drawn tests fail), found {outcome.exit_code}"
        )
        return ReportFault(kind="exit_status", detail=detail)
    if outcome.left_running:
        detail = f"expected no process of the tests after their end, found {outcome.left_running}"
        return ReportFault(kind="left_running", detail=detail)
    if outcome.report is None:
        return ReportFault(kind="no_report", detail="expected a report, found none")
    return None
