"""Proof of the trust room's tests: changes its code one place at a time, and counts what the tests do not notice.

A mutant is one module with one comparison, condition, bound, raise or call changed. Each runs in a fork that imports
the changed module instead of the file; its room's tests run until the first fails. Writes results/proofs/mutants-DATE.json;
exit 1 when a survivor is not explained in EXPLAINED.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from orchestrator.core.clock import run_stamp
from orchestrator.core.files import write_atomic

ROOT = Path(__file__).resolve().parents[1]
ROOM = ROOT / "orchestrator" / "trust"
UNIT = "tests/unit/trust/"
GATE = ("tests/gate/test_sound.py", "tests/gate/test_cases.py")
# Which tests speak of a module, the quickest first.
TESTS: dict[str, tuple[str, ...]] = {
    "envelope": (UNIT + "test_roles.py", UNIT + "test_local_gate.py", UNIT + "test_proposals.py"),
    "roles": (UNIT + "test_roles.py", UNIT + "test_proposals.py"),
    "strict": (UNIT + "test_strict.py",),
    "nonces": (UNIT + "test_nonces.py",),
    "repository": (UNIT + "test_repository.py", *GATE),
    "plumbing": (UNIT + "test_repository.py",),
    "trusted": (UNIT + "test_trusted.py",),
    "manifest": (UNIT + "test_manifest.py",),
    "proposals": (UNIT + "test_proposals.py",),
    "ceremony": (UNIT + "test_proposals.py", "tests/gate/test_ceremony.py"),
    "approvals": (UNIT + "test_approvals.py", UNIT + "test_local_gate.py"),
    "home": (UNIT + "test_local_gate.py", UNIT + "test_home.py"),
    "installed": (UNIT + "test_installed.py",),
    "ask": ("tests/unit/supervisor/test_service.py",),
    "local": (UNIT + "test_local_gate.py",),
    "client": (UNIT + "test_root.py", *GATE),
    "shape": (UNIT + "test_root.py", *GATE),
    "make": (UNIT + "test_root.py", UNIT + "test_proposals.py"),
    "signing": (UNIT + "test_root.py",),
    **dict.fromkeys(
        ("asked", "before", "bindings", "documents", "issue", "machine", "official"), GATE
    ),
}
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
TIMEOUT_S = 300.0
# Survivors that change nothing that a test should notice: module, kind, a piece of the line, why.
EXPLAINED: tuple[tuple[str, str, str, str], ...] = (
    ("", "number", "MAX_", "a bound against cost: any figure of this order does"),
    ("", "comparison", "> MAX_", "a bound against cost: one more or less does"),
    ("", "number", "TIMEOUT_S", "a bound against waiting: any figure of this order does"),
    ("nonces.py", "number", "default=0", "an empty book is no older at 1 s after 1970 than at 0 s"),
    (
        "nonces.py",
        "number",
        "high_water_s=0",
        "the first head is older than any use in either case",
    ),
    (
        "manifest.py",
        "call",
        "check(prefix)",
        "every file's reading checks the folders above it again",
    ),
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: where, of what kind, the line as it was, and how it fared."""

    module: str
    line: int
    kind: str
    text: str
    outcome: str = "not run"
    why: str | None = None


def places(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yields what can be changed, in order, with the kind of change."""
    passed_over = _passed_over(tree)
    for node in ast.walk(tree):
        kind = None if id(node) in passed_over else _kind(node)
        if kind is not None:
            yield node, kind


def _passed_over(tree: ast.Module) -> set[int]:
    """What no program notices: annotations, and how much of a text an error shows."""
    parts: list[ast.AST] = []
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            hint = getattr(node, name, None)
            parts += [hint] if isinstance(hint, ast.AST) else []
        if isinstance(node, ast.Slice):
            parts.append(node)
    return {id(node) for part in parts for node in ast.walk(part)}


KINDS: tuple[tuple[type[ast.AST], str, Callable[[Any], bool]], ...] = (
    (ast.Compare, "comparison", lambda node: type(node.ops[0]) in SWAPS),
    (ast.BoolOp, "and or", lambda node: True),
    (ast.BinOp, "operator", lambda node: type(node.op) in SWAPS),
    (ast.UnaryOp, "negation", lambda node: isinstance(node.op, ast.Not)),
    (ast.Constant, "number", lambda node: type(node.value) is int),
    (ast.Raise, "raise", lambda node: node.exc is not None),
    (ast.Expr, "call", lambda node: isinstance(node.value, ast.Call)),
)


def _kind(node: ast.AST) -> str | None:
    return next((kind for of, kind, fits in KINDS if isinstance(node, of) and fits(node)), None)


def changed(tree: ast.Module, number: int) -> ast.Module:
    """Returns the module with its place of that number changed."""
    made = copy.deepcopy(tree)
    node, kind = list(places(made))[number]
    if kind in {"raise", "call"}:
        new: ast.AST = ast.copy_location(ast.Pass(), node)
    elif isinstance(node, ast.UnaryOp):
        new = node.operand
    else:
        _turn(node)
        new = node
    _Put(node, new).visit(made)
    return ast.fix_missing_locations(made)


def _turn(node: Any) -> None:
    if isinstance(node, ast.Compare):
        swapped: Any = SWAPS[type(node.ops[0])]()
        node.ops[0] = swapped
    elif isinstance(node, ast.BoolOp | ast.BinOp):
        swapped = SWAPS[type(node.op)]()
        node.op = swapped
    else:
        node.value += 1


class _Put(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads the changed module in place of the file."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, _: str) -> CodeType:
        return self._code


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self._name, self._path, self._code = name, path, code

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        loader = _Loader(name, str(self._path), self._code)
        return importlib.util.spec_from_file_location(name, self._path, loader=loader)


def noticed(path: Path, tree: ast.Module) -> str:
    """Runs the module's tests over a changed tree in a fork; returns killed, survived or timeout."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    code = compile(tree, str(path), "exec")
    child = os.fork()
    if child == 0:
        os.setsid()
        void = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(void, stream)
        sys.meta_path.insert(0, _Finder(name, path, code))
        result = 3
        with contextlib.suppress(BaseException):
            result = _tests(path.stem)
        os._exit(result)
    return _waited(child)


def _tests(stem: str) -> int:
    import pytest

    slow = "not race and not racing and not kill_between and not pipe_in_an_objects and not command"
    tests = [str(ROOT / name) for name in TESTS[stem] if (ROOT / name).is_file()]
    words = ["-q", "-x", "-n0", "-p", "no:randomly", "-k", slow, *tests]
    return int(pytest.main(words))


def _waited(child: int) -> str:
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if os.waitstatus_to_exitcode(status) == 0 else "killed"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def explained(module: str, kind: str, text: str) -> str | None:
    """Returns why a survivor is none, if it is explained."""
    return next(
        (
            why
            for name, of, piece, why in EXPLAINED
            if module.endswith(name) and of == kind and piece in text
        ),
        None,
    )


def preload() -> None:
    """Imports what no mutant changes, once, for all forks."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop beginning others then")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", action="append", default=[])
    parser.add_argument("--text", action="append", default=[], help="only lines with this in them")
    arguments = parser.parse_args()
    preload()
    listed = []
    for path in sorted(ROOM.rglob("*.py")):
        if path.stem in TESTS and (not arguments.module or path.stem in arguments.module):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            lines = path.read_text(encoding="utf-8").splitlines()
            listed += [
                (path, tree, number)
                for number, (node, _) in enumerate(places(tree))
                if not arguments.text
                or any(text in lines[getattr(node, "lineno", 1) - 1] for text in arguments.text)
            ]
    # In a shuffled order, so that a run that is cut short is a fair sample.
    random.Random(arguments.seed).shuffle(listed)
    deadline_s = time.monotonic() + arguments.seconds
    found = []
    for path, tree, number in listed:
        if time.monotonic() > deadline_s:
            break
        found.append(_judged(path, tree, number))
    return _written(found, len(listed), arguments.seed)


def _judged(path: Path, tree: ast.Module, number: int) -> Mutant:
    node, kind = list(places(tree))[number]
    line = int(getattr(node, "lineno", 0))
    text = path.read_text(encoding="utf-8").splitlines()[line - 1].strip()
    module = path.relative_to(ROOM).as_posix()
    outcome = noticed(path, changed(tree, number))
    why = explained(module, kind, text) if outcome == "survived" else None
    made = Mutant(module, line, kind, text, outcome, why)
    sys.stderr.write(f"{outcome:<8} {module}:{line} {kind}: {text}\n")
    sys.stderr.flush()
    return made


def _written(found: list[Mutant], places_in_all: int, seed: int) -> int:
    survivors = [m for m in found if m.outcome == "survived"]
    told = {
        "room": "trust",
        "places": places_in_all,
        "judged": len(found),
        "seed": seed,
        "outcomes": dict(Counter(m.outcome for m in found)),
        "by_module": {
            name: dict(Counter(m.outcome for m in found if m.module == name))
            for name in sorted({m.module for m in found})
        },
        "survivors": [asdict(m) for m in survivors],
        "unexplained": sum(m.why is None for m in survivors),
    }
    path = ROOT / "results" / "proofs" / f"mutants-{run_stamp()}.json"
    write_atomic(path, json.dumps(told, indent=2).encode() + b"\n")
    sys.stdout.write(f"{path}: {told['outcomes']}, {told['unexplained']} unexplained\n")
    return 1 if told["unexplained"] else 0


if __name__ == "__main__":
    sys.exit(main())
