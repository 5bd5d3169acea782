"""Writes down each stage of an attempt before the next begins, and gives back what was written.

After a crash the same calls return the recorded documents instead of running the stages again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from orchestrator.core.clock import monotonic_ms
from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.chain import Ledger
from orchestrator.ledger.history import AttemptRecord
from orchestrator.model.base import Document
from orchestrator.model.lifecycle import StepRecord
from orchestrator.model.record import Artifact, MemoryStep, Stage, StageDone
from orchestrator.model.resources import Resources

D = TypeVar("D", bound=Document)


class Journal:
    """The stage records of one attempt."""

    def __init__(
        self,
        ledger: Ledger,
        blobs: BlobStore,
        trial: str,
        attempt: int,
        recorded: AttemptRecord | None = None,
        *,
        on_stage: Callable[[Stage], None] = lambda _: None,
    ) -> None:
        self._on_stage = on_stage
        self._ledger = ledger
        self.blobs = blobs
        self.trial = trial
        self.attempt = attempt
        self._recorded = dict(recorded.stages) if recorded else {}
        self._artifacts: list[Artifact] = []
        self._container_ms = 0
        self._step_began = 0
        self.container_ms_total = 0
        self.present = Stage.PREPARE
        known = [done.resources for done in self._recorded.values() if done.resources]
        self.resources: Resources | None = known[-1] if known else None

    def has(self, stage: Stage) -> bool:
        """Tells whether a stage was recorded by an earlier process."""
        return stage in self._recorded

    def keep(self, name: str, data: bytes) -> str:
        """Stores a blob of the present stage and returns its SHA-256."""
        sha256 = self.blobs.put(data)
        self._artifacts.append(Artifact(name=name, sha256=sha256, bytes=len(data)))
        return sha256

    def note(self, record: StepRecord) -> None:
        """Records a step of the memory system at once, as a line of its own."""
        now = monotonic_ms()
        self._ledger.append(
            MemoryStep(
                trial=self.trial,
                attempt=self.attempt,
                record=record,
                wall_ms=now - self._step_began,
            )
        )
        self._step_began = now

    def evidence(self, lines: tuple[str, ...]) -> Artifact:
        """Stores what was seen, one observation per line, outside any stage."""
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")
        return Artifact(name="evidence", sha256=self.blobs.put(data), bytes=len(data))

    def spent(self, container_ms: int) -> None:
        """Books container time on the present stage."""
        self._container_ms += container_ms

    def recorded(self, stage: Stage, kind: type[D]) -> D | None:
        """Returns the document of a stage if it is recorded."""
        done = self._recorded.get(stage)
        if done is None:
            return None
        return kind.parse(self.blobs.get(done.document_sha256), where=f"{self.trial} {stage.value}")

    def used(self, resources: Resources | None) -> None:
        """Notes what the attempt used so far; the stages that change it record it."""
        self.resources = resources or self.resources

    def document_sha256(self, stage: Stage) -> str:
        """Returns the digest of a recorded stage's document."""
        return self._recorded[stage].document_sha256

    def artifact(self, stage: Stage, name: str) -> bytes:
        """Returns a blob of a recorded stage by name."""
        found = next(item for item in self._recorded[stage].artifacts if item.name == name)
        return self.blobs.get(found.sha256)

    def found(self, stage: Stage, name: str) -> bytes | None:
        """Returns a blob of a stage by name; None if the stage is not recorded or kept none of that name."""
        done = self._recorded.get(stage)
        sha256s = [a.sha256 for a in done.artifacts if a.name == name] if done else []
        return self.blobs.get(sha256s[0]) if sha256s else None

    def step(self, stage: Stage, kind: type[D], run: Callable[[], D]) -> D:
        """Returns the recorded document of a stage, or runs the stage and records it."""
        recorded = self.recorded(stage, kind)
        if recorded is not None:
            return recorded
        self.present = stage
        self._on_stage(stage)
        self._artifacts = []
        self._container_ms = 0
        began = self._step_began = monotonic_ms()
        document = run()
        done = StageDone(
            trial=self.trial,
            attempt=self.attempt,
            stage=stage,
            document_sha256=self.blobs.put(document.canonical()),
            artifacts=tuple(self._artifacts),
            wall_ms=monotonic_ms() - began,
            container_ms=self._container_ms,
            resources=self.resources if stage in {Stage.ACT, Stage.HARVEST} else None,
        )
        self._ledger.append(done)
        self._recorded[stage] = done
        self.container_ms_total += self._container_ms
        return document
