"""The seal of a verification: drawn tests, some of which must fail, that run first and last among the others.

A report from another run lacks them, a report that calls everything passed shows them passed, and a runner
that ends early leaves out the last. Since some must fail, a whole session can only end with the runner's
status for failing tests. Everything follows from the nonce, so that a stranger can draw the seal again.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Final, Literal

from orchestrator.model.verdict import Seal, TestStatus

TESTS_PER_FILE: Final = 6
Phase = Literal["pass_to_pass", "fail_to_pass"]


@dataclass(frozen=True, slots=True)
class SealFile:
    """A file of the seal: path, text, and what its tests must come to (id, status)."""

    path: str
    text: str
    expected: tuple[tuple[str, Literal["pass", "fail"]], ...]


def draw_seal(phase: Phase) -> Seal:
    """Draws a nonce for one verification."""
    return Seal(phase=phase, nonce=secrets.token_hex(16))


def pytest_seal(seal: Seal) -> tuple[SealFile, SealFile]:
    """Returns the file to run first and the file to run last."""
    return _pytest_file(seal, "first"), _pytest_file(seal, "last")


def _pytest_file(seal: Seal, place: str) -> SealFile:
    folder = f"seal_{place}_{draw(seal, place)[:12]}"
    module = f"test_{draw(seal, place, 'module')[:12]}"
    lines = ['"""Drawn for this verification alone."""', ""]
    expected: list[tuple[str, Literal["pass", "fail"]]] = []
    for number in range(TESTS_PER_FILE):
        drawn = draw(seal, place, str(number))
        # The first two make sure that both outcomes occur.
        passes = number == 0 or (number > 1 and int(drawn[0], 16) % 2 == 0)
        value = int(drawn[1:9], 16)
        name = f"test_{drawn[9:21]}"
        wanted = value % 7 if passes else (value + 1) % 7
        lines += [f"def {name}():", f"    assert {value} % 7 == {wanted}", ""]
        expected.append((f"{folder}.{module}::{name}", "pass" if passes else "fail"))
    return SealFile(f"{folder}/{module}.py", "\n".join(lines), tuple(expected))


def draw(seal: Seal, *words: str) -> str:
    """Returns 64 hexadecimal digits: SHA-256 over phase, nonce and words."""
    return hashlib.sha256("/".join((seal.phase, seal.nonce, *words)).encode()).hexdigest()


def broken_seal(
    tests: tuple[TestStatus, ...], files: tuple[SealFile, ...]
) -> tuple[str | None, tuple[TestStatus, ...]]:
    """Checks the seal in a report; returns (what is wrong, or None) and the other tests."""
    found = {test.id: test for test in tests}
    expected = dict(pair for file in files for pair in file.expected)
    rest = tuple(test for test in tests if test.id not in expected)
    for name, status in expected.items():
        test = found.get(name)
        if test is None:
            return f"expected {len(expected)} drawn tests, found one missing", rest
        if test.status != status or test.n != 1:
            return f"expected a drawn test to {status}, found {test.status} {test.n} times", rest
    return None, rest
