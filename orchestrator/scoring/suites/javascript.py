"""node --test, vitest, mocha and tape. Their configuration in the checkout and package.json scripts are never read.

Ids: `file::suite > name`; tape numbers its assertions, so there a file is one test. JavaScript has no
build: what does not parse is a test file that fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrator.model.task import Key, Runner
from orchestrator.model.verdict import Seal
from orchestrator.protocols import Command, VerifyOutcome
from orchestrator.scoring.seal import SealFile
from orchestrator.scoring.suites.cases import parse_cases
from orchestrator.scoring.suites.form import (
    PROGRAMS,
    REPORT_PATH,
    Reading,
    Status,
    Step,
    as_json,
    below_work,
    drawn_tests,
    merged,
    no_report,
    normal_id,
    read_parts,
    steps_argv,
    wrong_status,
)

ENVIRONMENT = (
    ("CI", "1"),
    ("HOME", "/tmp"),
    ("NODE_OPTIONS", ""),
    ("NO_COLOR", "1"),
    ("TZ", "UTC"),
)
MAX_FAILURES_CODE = 255
_VITEST: dict[str, Status] = {
    "passed": "pass",
    "failed": "fail",
    "skipped": "skip",
    "pending": "skip",
    "todo": "skip",
    "disabled": "skip",
}


# What a runner or Node itself reads before the first test.
PROTECTED = (
    *("package.json", "**/package.json", "package-lock.json", ".npmrc", "**/node_modules/**"),
    *("**/vitest.config.*", "**/vite.config.*", "**/vitest.workspace.*", "**/.mocharc*"),
    *("**/tsconfig*.json", "**/.env*", "**/node.config.json"),
)


def _module_seal(seal: Seal, name: str, head: str, line: str, between: str) -> tuple[SealFile, ...]:
    """Returns one file of drawn tests; ids are `file::test`."""
    word, tests = drawn_tests(seal)
    path = name.format(word)
    lines = [head, *(line.format(t.name, t.value, t.wanted) for t in tests), ""]
    expected = tuple((f"{path}::{between}{t.name}", t.status) for t in tests)
    return (SealFile(path, "\n".join(lines), expected),)


def _paths(runner: Runner, hidden: tuple[str, ...], seals: tuple[str, ...]) -> tuple[str, ...]:
    return (*(hidden or runner.test_paths), *seals)


class NodeTest:
    """The test runner of Node itself; each file runs in a process of its own."""

    protected = PROTECTED

    def seal(self, seal: Seal, key: Key) -> tuple[SealFile, ...]:
        """Returns a file of drawn tests."""
        head = 'import { test } from "node:test"; import assert from "node:assert";'
        line = 'test("{0}", () => assert.equal({1} % 7, {2}));'
        return _module_seal(seal, "seal-{}.test.mjs", head, line, "")

    def command(
        self, runner: Runner, hidden_paths: tuple[str, ...], seal_paths: tuple[str, ...]
    ) -> Command:
        """Returns the command; test paths are files or patterns."""
        return Command(
            argv=(
                "node",
                "--test",
                "--test-reporter=junit",
                f"--test-reporter-destination={REPORT_PATH}",
                *_paths(runner, hidden_paths, seal_paths),
            ),
            environment=ENVIRONMENT,
        )

    def read(self, outcome: VerifyOutcome) -> Reading:
        """Reads the runner's JUnit form: suites nest, and a test with subtests is a suite."""
        if outcome.exit_code != 1:
            return wrong_status(1, outcome.exit_code)
        if not outcome.report:
            return no_report()
        return Reading(
            merged(
                (normal_id(below_work(c.file), " > ".join((*c.suites, c.name))), c.status)
                for c in parse_cases(outcome.report)
            )
        )


class Vitest:
    """vitest with a configuration of ours; nothing is written into the checkout."""

    protected = PROTECTED

    def seal(self, seal: Seal, key: Key) -> tuple[SealFile, ...]:
        """Returns a file of drawn tests."""
        head = 'import { test, expect } from "vitest";'
        line = 'test("{0}", () => {{ expect({1} % 7).toBe({2}); }});'
        return _module_seal(seal, "seal-{}.test.mjs", head, line, "")

    def command(
        self, runner: Runner, hidden_paths: tuple[str, ...], seal_paths: tuple[str, ...]
    ) -> Command:
        """Returns the command; test paths are parts of file names."""
        return Command(
            argv=(
                "node",
                "/node_modules/vitest/vitest.mjs",
                "run",
                "--config",
                f"{PROGRAMS}/vitest.config.mjs",
                "--configLoader",
                "native",
                "--reporter=json",
                f"--outputFile={REPORT_PATH}",
                *_paths(runner, hidden_paths, seal_paths),
            ),
            environment=ENVIRONMENT,
        )

    def read(self, outcome: VerifyOutcome) -> Reading:
        """Reads vitest's own JSON; a file that could not be loaded is an error of its name."""
        if outcome.exit_code != 1:
            return wrong_status(1, outcome.exit_code)
        document = as_json(outcome.report)
        files = document.get("testResults") if isinstance(document, dict) else None
        if not isinstance(files, list):
            return no_report()
        return Reading(merged(entry for file in files for entry in _vitest_file(file)))


def _vitest_file(file: Any) -> Iterator[tuple[str, Status]]:
    match file:
        case {"name": str(name), "status": str(status), "assertionResults": list(results)}:
            path = below_work(name)
            if status != "passed" and not results:
                yield normal_id(path, "(file)"), "error"
            for result in results:
                match result:
                    case {"ancestorTitles": list(above), "title": str(title), "status": str(said)}:
                        titles = " > ".join([*map(str, above), title])
                        yield normal_id(path, titles), _VITEST.get(said, "error")
                    case _:
                        yield normal_id(path, "(unreadable)"), "error"
        case _:
            yield "(unreadable)", "error"


class Mocha:
    """mocha without any configuration file and without package.json."""

    protected = PROTECTED

    def seal(self, seal: Seal, key: Key) -> tuple[SealFile, ...]:
        """Returns a file of drawn tests."""
        head = 'import assert from "node:assert";'
        line = 'it("{0}", () => assert.equal({1} % 7, {2}));'
        return _module_seal(seal, "seal-{}.spec.mjs", head, line, "")

    def command(
        self, runner: Runner, hidden_paths: tuple[str, ...], seal_paths: tuple[str, ...]
    ) -> Command:
        """Returns the command; test paths are files or patterns."""
        return Command(
            argv=(
                "node",
                "/node_modules/mocha/bin/mocha.js",
                "--no-config",
                "--no-package",
                # The suite's own limit is the task's; mocha's two seconds per test fail on a busy machine.
                "--timeout",
                "0",
                "--reporter",
                "json",
                "--reporter-option",
                f"output={REPORT_PATH}",
                *_paths(runner, hidden_paths, seal_paths),
            ),
            environment=ENVIRONMENT,
        )

    def read(self, outcome: VerifyOutcome) -> Reading:
        """Reads mocha's own JSON; its exit code is the number of failures, and must agree."""
        document = as_json(outcome.report)
        if not isinstance(document, dict):
            return no_report()
        lists = {kind: document.get(kind) for kind in ("passes", "failures", "pending")}
        if not all(isinstance(entries, list) for entries in lists.values()):
            return no_report()
        failures = min(len(lists["failures"] or ()), MAX_FAILURES_CODE)
        if outcome.exit_code != failures:
            return wrong_status(failures, outcome.exit_code)
        said: dict[str, Status] = {"passes": "pass", "failures": "fail", "pending": "skip"}
        return Reading(
            merged(
                (_mocha_id(entry), said[kind])
                for kind, entries in lists.items()
                for entry in entries or ()
            )
        )


def _mocha_id(entry: Any) -> str:
    match entry:
        case {"file": str(file), "fullTitle": str(title)}:
            return normal_id(below_work(file), title)
    return "(unreadable)"


class Tape:
    """tape, one process per file: its assertions have no stable names, so a file is one test."""

    protected = PROTECTED

    def seal(self, seal: Seal, key: Key) -> tuple[SealFile, ...]:
        """Returns two files: one whose assertions hold, one where they do not."""
        word, tests = drawn_tests(seal)
        files = []
        for status in ("pass", "fail"):
            path = f"seal-{word}-{status}.cjs"
            lines = [f"  t.equal({t.value} % 7, {t.wanted});" for t in tests if t.status == status]
            head = 'require("tape")("drawn", (t) => {'
            files.append(
                SealFile(
                    path, "\n".join([head, *lines, "  t.end();", "});", ""]), ((path, status),)
                )
            )
        return tuple(files)

    def command(
        self, runner: Runner, hidden_paths: tuple[str, ...], seal_paths: tuple[str, ...]
    ) -> Command:
        """Returns the command; test paths are files."""
        steps = [Step(path, ("node", path)) for path in _paths(runner, hidden_paths, seal_paths)]
        return Command(argv=steps_argv(steps), environment=ENVIRONMENT)

    def read(self, outcome: VerifyOutcome) -> Reading:
        """A file passes when its process ends well after a whole TAP plan without a failure."""
        parts = read_parts(outcome)
        if not parts:
            return no_report()
        return Reading(
            merged(
                (normal_id(name), "pass" if part.exit_code == 0 and _whole(part.data) else "fail")
                for name, part in parts.items()
            )
        )


def _whole(data: bytes) -> bool:
    """Whether TAP output names as many tests as its plan, all of them good (tape's own form)."""
    lines = data.decode("utf-8", "replace").splitlines()
    good = sum(line.startswith("ok ") for line in lines)
    plans = [line for line in lines if line.startswith("1..")]
    return good > 0 and plans == [f"1..{good}"] and not any(x.startswith("not ok") for x in lines)
