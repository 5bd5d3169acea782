"""cargo nextest (JUnit, one process per test) and doctests, which nextest does not run.

Ids: `binary::test`, and `doc::path - item` without the line number, which shifts with every patch. The
build, and a candidate's build.rs with it, runs as the tests' user and never as ours.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from orchestrator.model.task import Key, Runner
from orchestrator.model.verdict import Seal
from orchestrator.protocols import Command, VerifyOutcome
from orchestrator.scoring.seal import SealFile
from orchestrator.scoring.suites.cases import Case, parse_cases
from orchestrator.scoring.suites.form import (
    PROGRAMS,
    Part,
    Reading,
    Status,
    Step,
    drawn_tests,
    merged,
    no_report,
    normal_id,
    read_parts,
    steps_argv,
    wrong_status,
)

ENVIRONMENT = (
    ("CARGO_HOME", "/tmp/cargo"),
    ("CARGO_INCREMENTAL", "0"),
    ("CARGO_NET_OFFLINE", "true"),
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ("CARGO_PROFILE_TEST_DEBUG", "0"),
    ("CARGO_TARGET_DIR", "/tmp/target"),
    ("CARGO_TERM_COLOR", "never"),
    ("HOME", "/tmp"),
    ("RUSTC_BOOTSTRAP", "0"),
    ("TZ", "UTC"),
)
# Exit codes of nextest: some failed, nothing could be built (nextest-metadata, NextestExitCode).
FAILED, BUILD_FAILED = 100, 101
_DRAWN = re.compile(r"seal_[0-9a-f]{12}$")
# libtest ends with 101 when a test failed.
DOC_PASSED, DOC_FAILED = 0, 101
ONE_PASSED = re.compile(r"^test result: ok\. 1 passed; 0 failed;", re.MULTILINE)
_RUNNING = re.compile(r"^running (\d+) tests?$")
_DOCTEST = re.compile(r"^test (\S.*?) \(line \d+\)(?: - [a-z ]+)? \.\.\. (ok|FAILED|ignored.*)$")


class Cargo:
    """nextest, then doctests; the hidden phase runs the hidden binaries alone."""

    protected = (
        *("cargo.toml", "**/cargo.toml", "cargo.lock", "**/build.rs", ".cargo/**", ".config/**"),
        *("rust-toolchain*", "rustfmt.toml", "clippy.toml", "benches/**", "examples/**"),
    )

    def seal(self, seal: Seal, key: Key) -> tuple[SealFile, ...]:
        """Returns a test binary of drawn tests."""
        word, tests = drawn_tests(seal)
        lines = [
            f"#[test] fn t{t.name}() {{ assert_eq!({t.value}u64 % 7, {t.wanted}); }}" for t in tests
        ]
        expected = tuple((f"seal_{word}::t{t.name}", t.status) for t in tests)
        return (SealFile(f"tests/seal_{word}.rs", "\n".join([*lines, ""]), expected),)

    def command(
        self, runner: Runner, hidden_paths: tuple[str, ...], seal_paths: tuple[str, ...]
    ) -> Command:
        """Returns the command; hidden tests are files of the `tests` folder."""
        del runner
        chosen = (*hidden_paths, *seal_paths) if hidden_paths else ()
        hidden = [word for path in chosen for word in ("--test", PurePosixPath(path).stem)]
        nextest = (
            "cargo",
            "nextest",
            "run",
            "--config-file",
            f"{PROGRAMS}/nextest.toml",
            "--user-config-file",
            "none",
            "--locked",
            "--offline",
            *hidden,
        )
        steps = [Step("nextest", nextest, "/tmp/nextest.xml")]
        if not hidden_paths:
            doc = ("cargo", "test", "--doc", "--locked", "--offline")
            steps.append(Step("doctests", doc))
        return Command(argv=steps_argv(steps), environment=ENVIRONMENT)

    def read(self, outcome: VerifyOutcome) -> Reading:
        """Reads both reports; only what a whole session gave counts."""
        parts = read_parts(outcome)
        nextest = parts.get("nextest")
        if nextest is None:
            return no_report()
        if nextest.exit_code == BUILD_FAILED:
            return Reading(build_error="cargo could not build the crate or its tests")
        if nextest.exit_code != FAILED:
            return wrong_status(FAILED, nextest.exit_code)
        found = [_case(case) for case in parse_cases(nextest.data)]
        if "doctests" in parts:
            found += _doctests(parts["doctests"])
        return Reading(merged(found))


def _case(case: Case) -> tuple[str, Status]:
    """A process that ended well without libtest's own last word left early: that is no pass."""
    status = case.status
    if status == "pass" and not ONE_PASSED.search(case.output):
        status = "error"
    # The host does not know the crate's name, which stands before that of a drawn binary.
    drawn = _DRAWN.search(case.classname)
    return normal_id(drawn[0] if drawn else case.classname, case.name), status


def _doctests(part: Part) -> list[tuple[str, Status]]:
    """Reads the lines between `running N tests` and the blank line that ends them, N of them."""
    if part.exit_code not in {DOC_PASSED, DOC_FAILED}:
        return []
    found: list[tuple[str, Status]] = []
    left = 0
    for line in part.data.decode("utf-8", "replace").splitlines():
        running = _RUNNING.match(line)
        if left == 0 and running:
            left = int(running[1])
            continue
        if left == 0:
            continue
        test = _DOCTEST.match(line)
        if test is None:
            return []
        left -= 1
        status: Status = {"ok": "pass", "FAILED": "fail"}.get(test[2], "skip")  # type: ignore[assignment]
        found.append((normal_id("doc", test[1]), status))
    return found if left == 0 else []
