"""Judges one changed place after the other: which tests, in which order, and what their answer is worth."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.mutants_forks import UNBORNE, Answer, Changed, forked
from bench.mutants_places import Place, changed

# Slower tests than this judge nothing: where only they would notice, a quick one is missing.
SLOW_S = 6.0
# A test may take this many times as long as it took, and a fork this much more, before it is called a hang.
PATIENCE = 15.0
START_S = 60.0
NOTICED = frozenset({"killed", "broken", "timeout"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a change fared.

    `killed`: a test's own body failed. `broken`: set-up, tear-down or loading failed. `timeout`: the tests hung.
    `survived`: all passed. `outlived`: so many passed as the time for one place bears. `unreached`: no test
    executes the place. `unsteady`: what failed fails unchanged too. `unjudged`: no answer that means anything.
    The first three are noticed.
    """

    kind: str
    by: str | None = None
    raised: str | None = None
    tests: int = 0
    note: str | None = None


@dataclass(slots=True)
class Baseline:
    """What the unchanged tests do (see bench.mutants_baseline.learn), and which killed before."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[str]]]
    early: dict[str, list[int]]
    sources: dict[str, str]
    killers: dict[str, Counter[str]] = field(default_factory=dict)
    executed: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)

    def tests_of(self, place: Place) -> list[str]:
        """Returns the tests that execute a place: those first that killed in its module, then its module's own.

        Tests that execute the same lines of the module are alike: the quickest of each kind come before the
        second quickest of any.
        """
        found = self._executing(place.module, place.span)
        if not found:
            found = self._executing(place.module, place.statement)
        if not place.inside:
            found |= self._using(place) | self._reading()
        killers = self.killers.get(place.module, Counter())
        quick = sorted((self.seconds[test], test) for test in found if self.seconds[test] <= SLOW_S)
        alike: Counter[frozenset[str]] = Counter()
        turns = {}
        for seconds, test in quick:
            kind = self._executed(place.module, test)
            turns[test] = (alike[kind], seconds)
            alike[kind] += 1
        own = {test for test in turns if _is_own(test, place.module)}
        return sorted(turns, key=lambda test: (-killers[test], test not in own, turns[test], test))

    def within(self, tests: Sequence[str], seconds: float) -> list[str]:
        """Returns the first tests that take so long together; always one."""
        found: list[str] = []
        for test in tests:
            seconds -= self.seconds[test]
            if found and seconds < 0:
                break
            found.append(test)
        return found

    def _executed(self, module: str, test: str) -> frozenset[str]:
        if module not in self.executed:
            by_test: dict[str, set[str]] = {}
            for line, tests in self.lines.get(module, {}).items():
                for one in tests:
                    by_test.setdefault(one, set()).add(line)
            self.executed[module] = {one: frozenset(lines) for one, lines in by_test.items()}
        return self.executed[module].get(test, frozenset())

    def is_early(self, place: Place) -> bool:
        """Whether a place ran while modules or tests were loaded, so that a swap comes too late for it."""
        return not place.inside or bool(
            set(range(place.span[0], place.span[1] + 1)) & set(self.early.get(place.module, ()))
        )

    def note_killer(self, module: str, test: str) -> None:
        self.killers.setdefault(module, Counter())[test] += 1

    def _executing(self, module: str, span: tuple[int, int]) -> set[str]:
        by_line = self.lines.get(module, {})
        return {test for line in range(span[0], span[1] + 1) for test in by_line.get(str(line), ())}

    def _using(self, place: Place) -> set[str]:
        """The tests that execute a line with a name that the place decides about; all of its module, if none."""
        names, found = self._decided(place.names), set[str]()
        for module, source in self.sources.items():
            for number, text in enumerate(source.splitlines(), 1):
                if any(re.search(rf"\b{re.escape(name)}\b", text) for name in names):
                    found |= self._executing(module, (number, number))
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.FunctionDef) and node.name in names:
                    found |= self._executing(module, (node.lineno, node.end_lineno or node.lineno))
        return found or self._executing(place.module, (1, 10**6))

    def _reading(self) -> set[str]:
        """The tests that execute nothing of the room: they may read what it declares, such as its bounds."""
        executing = {
            test for by_line in self.lines.values() for tests in by_line.values() for test in tests
        }
        return self.seconds.keys() - executing

    def _decided(self, names: Sequence[str]) -> set[str]:
        """The names, and those of the room that are made of them outside functions."""
        found = set(names)
        while True:
            more = {
                target.id
                for source in self.sources.values()
                for node in ast.parse(source).body
                if isinstance(node, ast.Assign)
                and any(
                    isinstance(part, ast.Name) and part.id in found for part in ast.walk(node.value)
                )
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            if more <= found:
                return found
            found |= more

    def limit_s(self, tests: Sequence[str]) -> float:
        return START_S + PATIENCE * sum(self.seconds[test] for test in tests)


def _is_own(test: str, module: str) -> bool:
    """Whether a test's file is named after a module, or after the folder that it is in."""
    path, file = Path(module), Path(test.split("::", maxsplit=1)[0]).stem
    return file in {f"test_{path.stem}", f"test_{path.parent.name}"}


# Runs tests by name, over a changed module or over none.
Run = Callable[[Sequence[str], Changed | None], Answer]


def changed_module(root: Path, place: Place, source: str) -> Changed:
    """Returns a place's module, changed, with its code as it was."""
    path = root / place.module
    tree = changed(source, place.number)
    return Changed(
        name=".".join(Path(place.module).with_suffix("").parts),
        path=path,
        code=compile(tree, str(path), "exec", dont_inherit=True),
        was=compile(source, str(path), "exec", dont_inherit=True),
    )


def judge(
    root: Path, place: Place, baseline: Baseline, run: Run, bound_s: float = math.inf
) -> Outcome | None:
    """Returns how a place's change fared, or None when loaded functions do not bear it.

    Args:
        root: of the repository.
        place: what to change.
        baseline: what the unchanged tests do.
        run: how to run tests.
        bound_s: how long the tests of one place may take together, by the baseline.
    """
    known = baseline.tests_of(place)
    tests = baseline.within(known, bound_s)
    if not tests:
        return Outcome("unreached")
    module = changed_module(root, place, baseline.sources[place.module])
    limit_s = baseline.limit_s(tests)
    found = worth(forked(lambda: run(tests, module), timeout_s=limit_s), len(tests))
    if found.note == UNBORNE:
        return None
    if found.kind == "survived" and len(tests) < len(known):
        return replace(found, kind="outlived", note=f"{len(tests)} of {len(known)} tests")
    if found.kind in {"killed", "broken"}:
        found = confirmed(found, tests, baseline, run)
    if found.kind in {"killed", "broken"} and found.by is not None:
        baseline.note_killer(place.module, found.by)
    return found


def confirmed(found: Outcome, tests: Sequence[str], baseline: Baseline, run: Run) -> Outcome:
    """Returns the outcome, if what failed passes alone on unchanged code: `unsteady` otherwise.

    What fails while it is loaded is a file or a folder: then its tests run again, or all where it has none.
    """
    by = str(found.by)
    again = [t for t in tests if t == by or t.startswith((f"{by}::", f"{by}/"))] or list(tests)
    alone = forked(lambda: run(again, None), timeout_s=baseline.limit_s(again))
    if worth(alone, len(again)).kind == "survived":
        return found
    return Outcome("unsteady", by, found.raised, found.tests, "it failed unchanged too")


def worth(told: dict[str, Any] | str, tests: int) -> Outcome:
    """Returns what a fork's answer, or its end without one, says of a change that so many tests were to judge."""
    if told == "timeout":
        return Outcome("timeout", tests=tests)
    if isinstance(told, str):
        return Outcome("unjudged", tests=tests, note=told)
    answer = Answer(**told)
    if answer.wrong is not None:
        return Outcome("unjudged", tests=tests, note=answer.wrong)
    if answer.failed is not None:
        kind = "killed" if answer.when == "call" else "broken"
        return Outcome(kind, answer.failed, answer.raised, tests)
    if answer.passed != tests:
        return Outcome(
            "unjudged", tests=tests, note=f"{answer.passed} of {tests} tests passed, none failed"
        )
    return Outcome("survived", tests=tests)
