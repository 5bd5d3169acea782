"""Runs tests in forks: unchanged, to learn and to confirm, or over one changed place.

What a fork ends with is told apart: a test's own failure, a fault in set-up or loading, a hang, an end without
an answer, and an answer that cannot be right (the change was not in force, tests did not run). Only what a
test said is ever called killed.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from orchestrator.core.places import cache_root
from orchestrator.core.waiting import readable

PR_SET_PDEATHSIG = 1
POLL_S = 0.2
# A pipe that was closed is always ready to be read: without a pause its reader would spin.
PAUSE_S = 0.01
# Tests of this project as they are run here: in the order given, in this process, seen by nobody.
WORDS = ("-q", "-s", "-n0", "-p", "no:randomly", "-m", "not docker and not network and not proof")


@dataclass(slots=True)
class Answer:
    """What a fork says: tests that passed, what failed, where, how, and what else was wrong."""

    passed: int = 0
    failed: str | None = None
    when: str | None = None
    raised: str | None = None
    wrong: str | None = None


class Watch:
    """A plugin that runs given tests in the order given until one fails, and notes what happens."""

    def __init__(self, order: Sequence[str] | None = None) -> None:
        self.answer = Answer()
        self._order = order

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._order is not None:
            found = {item.nodeid: item for item in items}
            items[:] = [found[name] for name in self._order if name in found]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed == 0:
            self.run(session.items)
        return True

    def run(self, items: Sequence[pytest.Item]) -> None:
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self.answer.failed is not None:
                return

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._note(report.nodeid, report.when)
        elif report.when == "call" and report.passed:
            self.answer.passed += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note(report.nodeid, "collect")

    def pytest_exception_interact(self, call: pytest.CallInfo[Any]) -> None:
        if call.excinfo is not None and self.answer.raised is None:
            self.answer.raised = call.excinfo.type.__name__

    def _note(self, nodeid: str, when: str | None) -> None:
        if self.answer.failed is None:
            self.answer.failed, self.answer.when = nodeid, when


def run_fresh(root: Path, order: Sequence[str], changed: Changed | None) -> Answer:
    """Runs tests of modules that are imported now; the changed one comes from memory, not from its file."""
    watch = Watch(order)
    finder = None
    if changed is not None:
        if changed.name in sys.modules:
            return Answer(wrong=f"{changed.name} was loaded before it was changed")
        finder = _Finder(changed)
        sys.meta_path.insert(0, finder)
    files = sorted({name.split("::")[0] for name in order})
    code = pytest.main([*WORDS, *(str(root / name) for name in files)], plugins=[watch])
    answer = watch.answer
    if answer.failed is None and answer.passed == 0:
        answer.wrong = f"pytest ended with {int(code)} and ran nothing"
    if finder is not None and not finder.loaded:
        answer.wrong = f"the changed {finder.name} was never loaded"
    return answer


@dataclass(frozen=True, slots=True)
class Changed:
    """A changed module: its dotted name, its file, its code and that of the file as it is."""

    name: str
    path: Path
    code: CodeType
    was: CodeType


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, finder: _Finder, path: str) -> None:
        super().__init__(finder.name, path)
        self._finder = finder

    def get_code(self, _: str) -> CodeType:
        self._finder.loaded = True
        return self._finder.code


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, changed: Changed) -> None:
        self.name, self._path, self.code = changed.name, changed.path, changed.code
        self.loaded = False

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        loader = _Loader(self, str(self._path))
        return importlib.util.spec_from_file_location(name, self._path, loader=loader)


class CannotSwapError(Exception):
    """The functions that are loaded do not bear the change; a fresh import does."""


def swap(changed: Changed) -> int:
    """Gives loaded functions the changed code, and returns how many got one.

    Every live function of the file is found by the collector, wrapped and bound ones too. Raises CannotSwapError
    when the change is not in a function, or when a function of one name and line is not alone in the file.
    """
    path = changed.was.co_filename
    now, was = _functions(changed.code), _functions(changed.was)
    differ = {key for key in now if now[key] != was.get(key)}
    if now.keys() != was.keys() or not differ or any(len(was[key]) > 1 for key in differ):
        raise CannotSwapError
    if _bare(changed.code) != _bare(changed.was):
        raise CannotSwapError
    swapped = 0
    for found in gc.get_objects():
        if isinstance(found, FunctionType) and found.__code__.co_filename == path:
            key = _key(found.__code__)
            if key in differ:
                try:
                    found.__code__ = now[key][0]
                except ValueError as error:
                    raise CannotSwapError from error
                swapped += 1
    if swapped == 0:
        raise CannotSwapError
    return swapped


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _functions(code: CodeType) -> dict[tuple[str, int], list[CodeType]]:
    """The code of every function in a module's code, by name and line."""
    found: dict[tuple[str, int], list[CodeType]] = {}
    for part in _parts(code):
        found.setdefault(_key(part), []).append(part)
    return found


def _parts(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _parts(constant)


def _bare(code: CodeType) -> list[object]:
    """What a module's and its classes' own lines do, without their functions' code."""
    found: list[object] = [code.co_code, code.co_names]
    for constant in code.co_consts:
        if not isinstance(constant, CodeType):
            found.append((type(constant), constant))
        elif "__qualname__" in constant.co_names and constant.co_flags & 0x3 == 0:
            found.append(_bare(constant))
    return found


def run_loaded(items: Sequence[pytest.Item], changed: Changed | None) -> Answer:
    """Runs collected tests, after the loaded functions were given the changed code."""
    if changed is not None:
        try:
            swap(changed)
        except CannotSwapError:
            return Answer(wrong=UNBORNE)
    watch = Watch()
    items[0].config.pluginmanager.register(watch)
    watch.run(items)
    return watch.answer


UNBORNE = "loaded functions do not bear this change"


def forked(work: Callable[[], Any], *, timeout_s: float) -> dict[str, Any] | str:
    """Does the work in a fork with folders of its own; returns what it returns, or how it ended without.

    The work's value is a dataclass or a dict. Programs that the fork leaves behind end with it.
    """
    folders = [
        tempfile.mkdtemp(prefix="memtrial-mutant-"),
        tempfile.mkdtemp(prefix=".memtrial-mutant-", dir=Path.home()),
    ]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(work, writing, folders)
    os.close(writing)
    try:
        return _heard(child, reading, timeout_s)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def _work(work: Callable[[], Any], writing: int, folders: list[str]) -> None:
    """The fork's side: never returns."""
    status = 1
    try:
        os.setsid()
        die_with_parent()
        _own_folders(*folders)
        void = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(void, stream)
        value = work()
        told = value if isinstance(value, dict) else asdict(value)
        with os.fdopen(writing, "wb") as out:
            out.write(json.dumps(told).encode())
        status = 0
    finally:
        os._exit(status)


def die_with_parent() -> None:
    """Has the system end this process when the one that made it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _own_folders(temporary: str, home: str) -> None:
    os.environ["MEMTRIAL_CACHE"] = str(cache_root())
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = temporary
    os.environ["HOME"] = home
    tempfile.tempdir = None


def _heard(child: int, reading: int, timeout_s: float) -> dict[str, Any] | str:
    """Reads until the fork ends: what it left running may keep the pipe open for longer."""
    deadline_s, told, status = time.monotonic() + timeout_s, b"", None
    os.set_blocking(reading, False)
    while status is None:
        if time.monotonic() > deadline_s:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "timeout"
        readable(reading, POLL_S)
        told += _available(reading)
        ended, raw = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(raw) if ended else None
    told += _available(reading)
    if status != 0 or not told:
        return f"ended with {status} and without an answer"
    answer: dict[str, Any] = json.loads(told)
    return answer


def _available(reading: int) -> bytes:
    parts = []
    with suppress(BlockingIOError):
        while part := os.read(reading, 1 << 20):
            parts.append(part)
    if not parts:
        time.sleep(PAUSE_S)
    return b"".join(parts)
