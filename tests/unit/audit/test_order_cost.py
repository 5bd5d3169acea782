"""Promise: what a ledger's order costs to check grows with its lines alone, however they are spread over attempts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.audit.recheck import proofs_bytes
from orchestrator.audit.rules import check_order
from orchestrator.core.merkle import MerkleTree, leaf_hash
from orchestrator.core.strictjson import MAX_BYTES
from orchestrator.ledger.history import replay
from orchestrator.model.bundle import InclusionProof, TrialProofs
from orchestrator.model.outcome import Outcome
from orchestrator.model.record import (
    AttemptEnded,
    AttemptStarted,
    LedgerEntry,
    RunEnded,
    RunResumed,
    RunStarted,
)

TRIAL = "t/c/a/e1"
PLAN: Any = SimpleNamespace(
    trials=(SimpleNamespace(key=TRIAL),), retry=SimpleNamespace(max_attempts=2), gateway=None
)


def entries(processes: int) -> list[LedgerEntry]:
    """A run of one trial that broke in every process."""
    bodies: list[Any] = [RunStarted(run_id="r", plan_sha256="0" * 64, engine="e", workers=1)]
    for number in range(1, processes + 1):
        bodies += [RunResumed(torn_tail_bytes=0)] if number > 1 else []
        ended = AttemptEnded(
            trial=TRIAL,
            attempt=number,
            outcome=Outcome.INFRA_ERROR,
            verdict_sha256=None,
            error_reference="engine-lost",
            error="lost",
            wall_ms=1,
            container_ms=1,
        )
        bodies += [AttemptStarted(trial=TRIAL, attempt=number), ended]
        bodies.append(RunEnded(trials=1, completed=0, wall_ms=1))
    return [
        LedgerEntry(seq=n, prev_sha256="0" * 64, at="2026-01-01T00:00:00Z", body=body)
        for n, body in enumerate(bodies)
    ]


def lines_of(run: Callable[[list[LedgerEntry]], object], made: list[LedgerEntry]) -> int:
    """Counts the lines of code that are run, and so every turn of a search through earlier attempts."""
    count = 0

    def seen(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return seen

    before = sys.gettrace()
    sys.settrace(seen)
    try:
        run(made)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "run", [lambda made: check_order(made, PLAN), replay], ids=["rules", "replay"]
)
def test_a_line_costs_the_same_however_many_attempts_stand_before_it(run):
    few, many = lines_of(run, entries(100)), lines_of(run, entries(400))
    assert many < 5 * few


def test_proofs_of_a_trial_may_be_as_large_as_its_lines_make_them():
    size, lines = 1_000, 1_000
    tree = MerkleTree(leaf_hash(b"%d" % number) for number in range(size))
    proofs = TrialProofs(
        trial=TRIAL,
        size=size,
        root_sha256=tree.root().hex(),
        proofs=tuple(
            InclusionProof(
                seq=seq,
                leaf_sha256=tree.leaf(seq).hex(),
                path=tuple(step.hex() for step in tree.inclusion(seq)),
            )
            for seq in range(lines)
        ),
    )
    assert len(proofs.canonical()) < proofs_bytes(lines, size) < 2 * len(proofs.canonical())
    assert proofs_bytes(20_000, 20_000) > MAX_BYTES
