"""The examiner's side of the boundary: a pytest plugin that imports the code under test from another process.

`import humanize` in a hidden test gives a stand-in; each use of it is a request to the candidate's process,
and what comes back is a plain value or another stand-in. No candidate code runs here, so none can read the
expectations, change pytest or write the report. Modules that exist here are never taken from there.

A stand-in equals another as the candidate's own objects say; to a plain value it is equal only by the plain
value that it declares: an object that claims to equal everything gets an error instead of a pass.
Configured by MEMTRIAL_SOCKET and MEMTRIAL_CANDIDATE (top-level names, joined by commas).
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import os
import socket
import sys
import time
import types
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from _pytest.junitxml import mangle_test_address
from proxies import Exceptions, Members, Proxy, describe
from wire import Broken, Line, decode, encode

CONNECT_TIMEOUT_S = 30
LEFT_OUT = ".left-out.json"
BASES: dict[Any, type] = {
    kind.__name__: kind
    for kind in (bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset)
}


class CandidateGone(Exception):
    """The candidate's process ended, or does not keep to the form."""


class Bridge:
    """The one connection to the candidate's process. Requests nest when the candidate calls back."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._line: Line | None = None
        self._proxies: dict[int, Proxy] = {}
        self._callbacks: list[Any] = []
        self._exceptions = Exceptions(self)

    def connect(self) -> Line:
        """Connects on first use; the candidate's process may still be starting."""
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while self._line is None:
            raw = socket.socket(socket.AF_UNIX)
            try:
                raw.connect(self._path)
            except OSError as error:
                raw.close()
                if time.monotonic() > deadline:
                    raise CandidateGone(str(error)) from error
                time.sleep(0.02)
            else:
                self._line = Line(raw)
        return self._line

    def request(self, operation: str, *arguments: Any) -> Any:
        """Has the candidate's process do one thing and returns the value.

        Raises:
            CandidateGone: there is nobody to do it.
            Exception: what the candidate's code raised, as a class of the same name and ancestors.
        """
        try:
            line = self.connect()
            line.send([operation, *(encode(a, self._refer) for a in arguments)])
            while (answer := line.receive())[0] == "call":
                line.send(self._called(answer))
            value, failure = self._read(answer)
        except Broken as error:
            self._line = None
            self._path = "/nonexistent"
            raise CandidateGone(str(error)) from error
        if failure is not None:
            raise failure
        return value

    def _read(self, answer: list[Any]) -> tuple[Any, BaseException | None]:
        """Returns the value of an answer, or the exception."""
        if answer[0] == "value" and len(answer) == 2:
            return decode(answer[1], self._resolve), None
        if answer[0] == "raised" and len(answer) == 5:
            return None, self._exceptions.instance(answer, self._resolve)
        raise Broken("neither a value nor a failure")

    def plain(self, operation: str, kind: type, *arguments: Any) -> Any:
        """Like `request`, for operations whose value must be of one exact plain type."""
        found = self.request(operation, *arguments)
        if type(found) is not kind:
            raise TypeError(f"{operation}: expected {kind.__name__}, found {type(found).__name__}")
        return found

    def _called(self, message: list[Any]) -> list[Any]:
        """Runs a callable that a test handed over as an argument."""
        _, number, args, kwargs = message
        try:
            target = self._callbacks[number]
            named = decode(kwargs, self._resolve)
            value = target(*decode(args, self._resolve), **named)
            return ["returned", encode(value, self._refer)]
        except (Broken, CandidateGone):
            raise
        except Exception as error:  # noqa: BLE001 - a test's own function may raise anything
            return ["failed", f"{type(error).__name__}: {error}"]

    def _refer(self, value: Any) -> Any:
        number = describe(value)
        if number is not None:
            return ["object", number]
        if callable(value) and not isinstance(value, type):
            self._callbacks.append(value)
            return ["callback", len(self._callbacks) - 1]
        raise TypeError(
            f"a {type(value).__name__} cannot cross to the candidate's process: pass plain values or functions"
        )

    def _resolve(self, form: list[Any]) -> Any:
        tag = form[0]
        if tag == "callback":
            return self._callbacks[form[1]]
        if tag == "exception":
            return self._exceptions.kind(form[1])
        number = form[1]
        if tag not in {"object", "module"} or type(number) is not int:
            raise Broken("not a value")
        if tag == "module" and form[2] in sys.modules:
            known = sys.modules[form[2]]
            if describe(known) is not None:
                return known
        if number not in self._proxies:
            base = BASES.get(form[3]) if tag == "object" else None
            self._proxies[number] = Proxy(self, number, str(form[2]), base)
        return self._proxies[number]


class CandidateModule(types.ModuleType):
    """A module of the candidate's; attributes live over there."""

    def __init__(self, name: str, bridge: Bridge, number: int) -> None:
        super().__init__(name)
        # Whatever is imported below it is looked for by the finder, whether it is a package or not.
        for key, value in (("_bridge", bridge), ("memtrial_number", number), ("__path__", [])):
            object.__setattr__(self, key, value)

    @property
    def __dict__(self) -> Members:  # type: ignore[override]
        """What the module holds over there."""
        return Members(_bridge(self), self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in {"__all__", "__version__", "__doc__"}:
            raise AttributeError(name)
        return _bridge(self).request("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            object.__setattr__(self, name, value)
        elif not isinstance(value, CandidateModule):
            # A submodule is bound by the import over there, if it is bound at all.
            _bridge(self).request("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        _bridge(self).request("delattr", self, name)


def _bridge(module: CandidateModule) -> Bridge:
    found: Bridge = object.__getattribute__(module, "_bridge")
    return found


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the candidate's modules, after everything that exists here."""

    def __init__(self, bridge: Bridge, names: frozenset[str]) -> None:
        self._bridge = bridge
        self._names = names

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Answers for the names of the code under test only."""
        del path, target
        if fullname.partition(".")[0] not in self._names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Has the module imported over there."""
        found = self._bridge.request("import", spec.name)
        number = describe(found)
        if number is None:
            raise ImportError(f"{spec.name} is not a module of the candidate's", name=spec.name)
        return CandidateModule(spec.name, self._bridge, number)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing runs here."""


def pytest_configure() -> None:
    """Takes the candidate's modules from its process from now on."""
    names = frozenset(filter(None, os.environ["MEMTRIAL_CANDIDATE"].split(",")))
    sys.meta_path.append(Finder(Bridge(os.environ["MEMTRIAL_SOCKET"]), names))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the base tests that are known not to work from here."""
    ids = frozenset(json.loads((config.rootpath / LEFT_OUT).read_bytes()))
    gone = [item for item in items if _reported_id(item) in ids]
    if gone:
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if _reported_id(item) not in ids]


def _reported_id(item: pytest.Item) -> str:
    """The id that the grader reads in the report."""
    *classname, name = mangle_test_address(item.nodeid)
    text = unicodedata.normalize("NFC", f"{'.'.join(classname).strip()}::{name.strip()}")
    return " ".join(text.split())


def pytest_report_header() -> Iterator[str]:
    """Says what is examined how."""
    yield f"boundary: {os.environ['MEMTRIAL_CANDIDATE']} in another process"
