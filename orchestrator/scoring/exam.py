"""One phase of grading as a value: what is placed, protected and run, and which ids its report may hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.model.task import RunnerKind
from orchestrator.model.verdict import Seal
from orchestrator.protocols import Command
from orchestrator.scoring.seal import Phase, SealFile


@dataclass(frozen=True, slots=True)
class Exam:
    """One phase of grading: what is placed, protected and run, and which ids its report may hold.

    `reportable` is None where the ids are what is asked for: when a suite is pinned, never in a trial.
    `values`: what each hidden test must hand over, where the key's boundary is `values`; else None.
    """

    kind: RunnerKind
    phase: Phase
    hidden_files: tuple[tuple[str, str], ...]
    seal: Seal
    seal_files: tuple[SealFile, ...]
    protected: tuple[str, ...]
    tests: Command
    candidate: Command | None
    pinned_tests: tuple[str, ...]
    left_out: tuple[str, ...]
    reportable: frozenset[str] | None
    values: tuple[tuple[str, tuple[str, ...]], ...] | None = None

    def may_report(self, name: str) -> bool:
        """Whether a test of this id belongs to the suite."""
        return self.reportable is None or name in self.reportable
