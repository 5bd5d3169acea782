"""One phase of grading as a value: what is placed, protected and run, and which ids its report may hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.model.task import RunnerKind
from orchestrator.model.verdict import Seal
from orchestrator.protocols import Command
from orchestrator.scoring.seal import Phase, SealFile


@dataclass(frozen=True, slots=True)
class Exam:
    """One phase of grading: what is placed, protected and run, and which ids its report may hold."""

    kind: RunnerKind
    phase: Phase
    hidden_files: tuple[tuple[str, str], ...]
    seal: Seal
    seal_files: tuple[SealFile, ...]
    protected: tuple[str, ...]
    tests: Command
    candidate: Command | None
    reportable: frozenset[str]
