"""What the unchanged tests do: which pass, how long each takes, and which lines of the room each executes.

A test that fails on unchanged code ends the run: it would call every change killed.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

from bench.mutants_forks import WORDS

# Of these the tests are taken that execute a line of the room.
SUITES = ("tests/unit/trust", "tests/unit/supervisor", "tests/gate")
# They run commands in processes of their own: what those execute is neither seen nor changed here.
APART = ("tests/gate/test_ceremony.py", "tests/unit/trust/test_installer.py")
# Their cached plans are made by the pipeline, without the room; making them for each test would take an hour.
KEPT_CACHES = ("tests.gate.world",)
FIXTURE = "fixture\0"
CACHE = type(functools.cache(len))


class Learner:
    """A plugin that runs every test once and notes what it executes."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self._began_s = 0.0
        self._context = ""
        self._caches: list[Any] = []
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self.fixtures: dict[str, list[str]] = {}

    def pytest_collection_finish(self) -> None:
        self._caches = _caches()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        for cache in self._caches:
            cache.cache_clear()
        self.fixtures[item.nodeid] = list(getattr(item, "fixturenames", ()))
        self._context = item.nodeid
        self._measured.switch_context(item.nodeid)
        self._began_s = time.monotonic()
        found = yield
        self._measured.switch_context("")
        return found

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """A fixture that several tests share is executed for each of them, though it runs once."""
        if fixturedef.scope == "function":
            return (yield)
        self._measured.switch_context(f"{FIXTURE}{fixturedef.baseid}\0{fixturedef.argname}")
        found = yield
        self._measured.switch_context(self._context)
        return found

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "call" and report.passed:
            self.seconds[report.nodeid] = round(time.monotonic() - self._began_s, 3)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def _caches() -> list[Any]:
    """The tests' own caches: what a test took from one it would not execute."""
    modules = (
        (found, str(getattr(found, "__module__", "")))
        for found in gc.get_objects()
        if isinstance(found, CACHE)
    )
    return [
        found for found, name in modules if name.startswith("tests.") and name not in KEPT_CACHES
    ]


def arguments(root: Path, suites: tuple[str, ...] = SUITES) -> list[str]:
    """Returns what to tell pytest, so that it collects the tests that judge."""
    apart = [word for file in APART for word in ("--ignore", str(root / file))]
    return [*WORDS, *apart, *(str(root / suite) for suite in suites)]


def learn(root: Path, room: str, suites: tuple[str, ...] = SUITES) -> dict[str, Any]:
    """Returns `seconds` by test, `failed` tests, `lines` (module, line, tests), `early` (module, lines).

    Call it in a fork that has loaded no module of the room. `early` are the lines that ran while modules and
    tests were loaded: a change there may live on in what was made of it.
    """
    measured = coverage.Coverage(data_file=None, config_file=False, include=[f"{root / room}/*"])
    learner = Learner(measured)
    measured.start()
    pytest.main([*arguments(root, suites)], plugins=[learner])
    measured.stop()
    data = measured.get_data()
    lines: dict[str, dict[str, list[str]]] = {}
    early: dict[str, list[int]] = {}
    for file in sorted(data.measured_files()):
        module = Path(file).relative_to(root).as_posix()
        by_line = data.contexts_by_lineno(file)
        early[module] = sorted(line for line, found in by_line.items() if "" in found)
        lines[module] = {
            str(line): sorted(_tests(found, learner)) for line, found in sorted(by_line.items())
        }
    return {"seconds": learner.seconds, "failed": learner.failed, "lines": lines, "early": early}


def _tests(contexts: list[str], learner: Learner) -> set[str]:
    found: set[str] = set()
    for context in contexts:
        if context.startswith(FIXTURE):
            _, base, name = context.split("\0")
            found |= {
                test
                for test, names in learner.fixtures.items()
                if name in names and test.startswith(base)
            }
        elif context:
            found.add(context)
    return found & learner.seconds.keys()
