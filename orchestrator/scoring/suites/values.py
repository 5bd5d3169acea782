"""Hidden tests that hand over what the candidate's code gave; the grader compares, and no container holds what is expected.

For languages in which a test shares a process with the code that it calls: that code can forge any outcome
there, and read every expectation, but it cannot hand over a value that it does not know. Pure.

A hidden test appends lines to the file that MEMTRIAL_VALUES names: its own name, a blank and the value, both
as hexadecimal digits of UTF-8. Lines of one test keep their order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.strictjson import parse_json
from orchestrator.model.task import Key
from orchestrator.model.verdict import TestStatus
from orchestrator.protocols import Command, VerifyOutcome
from orchestrator.scoring.suites.form import (
    REPORT_PATH,
    Step,
    as_json,
    normal_id,
    read_parts,
    steps_argv,
    takes_steps,
)

VARIABLE = "MEMTRIAL_VALUES"
VALUES_PATH = "/tmp/memtrial-values"
RUNNER, VALUES = "runner", "values"
MAX_LINES = 100_000
_LINE = re.compile(rb"((?:[0-9a-f]{2})+) ((?:[0-9a-f]{2})*)")

Shown = Mapping[str, tuple[str, ...]]


def expected_values(key: Key) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Returns what each hidden test must hand over, by id."""
    return tuple((test.id, test.values) for test in key.card.fail_to_pass)


def showing(command: Command) -> Command:
    """Returns the command with the values filed beside the runner's own report."""
    environment = (*command.environment, (VARIABLE, VALUES_PATH))
    last = Step(VALUES, ("cat", VALUES_PATH))
    if takes_steps(command):
        *head, listed = command.argv
        steps: Any = parse_json(listed.encode(), where="steps")
        added = {"name": last.name, "argv": list(last.argv), "report": None}
        return Command((*head, canonical_bytes([*steps, added]).decode()), environment)
    return Command(steps_argv([Step(RUNNER, command.argv, REPORT_PATH), last]), environment)


def parted(outcome: VerifyOutcome) -> tuple[VerifyOutcome, Shown]:
    """Returns the runner's own outcome, as if nothing had been filed beside it, and the values by test."""
    parts = read_parts(outcome)
    values = parts.pop(VALUES, None)
    if values is None or not parts:
        return replace(outcome, report=None), {}
    shown = read_values(values.data)
    if set(parts) == {RUNNER}:
        own = parts[RUNNER]
        return replace(outcome, exit_code=own.exit_code, report=own.data or None), shown
    document = as_json(outcome.report)
    kept = [part for part in document["parts"] if part["name"] != VALUES]
    return replace(outcome, report=canonical_bytes({"parts": kept})), shown


def read_values(data: bytes) -> Shown:
    """Returns the values of each test in order; a file that is not whole and in the form holds none."""
    lines = data.split(b"\n")
    if lines.pop() or len(lines) > MAX_LINES:
        return {}
    found: dict[str, list[str]] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            return {}
        try:
            name, value = (bytes.fromhex(g.decode("ascii")).decode("utf-8") for g in match.groups())
        except UnicodeDecodeError:
            return {}
        found.setdefault(normal_id(name), []).append(value)
    return {name: tuple(values) for name, values in found.items()}


def compared(
    tests: tuple[TestStatus, ...],
    expected: tuple[tuple[str, tuple[str, ...]], ...],
    shown: Shown,
) -> tuple[TestStatus, ...]:
    """Returns the tests with those failed whose values are not exactly the expected ones, in order."""
    wanted = dict(expected)

    def holds(test: TestStatus) -> bool:
        return bool(wanted.get(test.id)) and shown.get(label_of(test.id)) == wanted[test.id]

    return tuple(
        test if test.status != "pass" or holds(test) else test.model_copy(update={"status": "fail"})
        for test in tests
    )


def label_of(test_id: str) -> str:
    """Returns the name by which a hidden test hands over its values: what follows the last `::` of its id."""
    return normal_id(test_id.rpartition("::")[2])
