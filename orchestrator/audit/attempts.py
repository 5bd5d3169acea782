"""One recorded attempt as verification reads it: its documents and artifacts by name, and what must be so. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from orchestrator.core.errors import IntegrityError, MemtrialError
from orchestrator.ledger.blobs import BlobReader
from orchestrator.ledger.history import AttemptRecord
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.base import Document
from orchestrator.model.condition import Condition
from orchestrator.model.plan import Plan, Trial
from orchestrator.model.record import Stage
from orchestrator.model.review import ReviewLog
from orchestrator.model.task import Brief, History, Key, Rehearsal
from orchestrator.model.toolcalls import ToolLog, read_log
from orchestrator.pipeline.dossier import Dossier, stage_document
from orchestrator.pipeline.memory_audits import artifact_of
from orchestrator.sandbox.leaks.scanner import Scanner

D = TypeVar("D", bound=Document)


class TaskViews:
    """The documents of the plan's tasks, each read once; a withheld one raises BlobWithheld when asked for."""

    def __init__(self, plan: Plan, blobs: BlobReader) -> None:
        self._plan = plan
        self._blobs = blobs
        self._read: dict[tuple[str, type[Document]], Document] = {}
        self._scanners: dict[str, Scanner] = {}

    def scanner(self, task_id: str, make: Callable[[], Scanner]) -> Scanner:
        """Returns the search for a task's hidden text, made once."""
        if task_id not in self._scanners:
            self._scanners[task_id] = make()
        return self._scanners[task_id]

    def history(self, task_id: str) -> History:
        """Returns the sessions of a task."""
        return self._of(task_id, History, "history_sha256")

    def brief(self, task_id: str) -> Brief:
        """Returns what the agent of a task is asked."""
        return self._of(task_id, Brief, "brief_sha256")

    def key(self, task_id: str) -> Key:
        """Returns the answer key of a task."""
        return self._of(task_id, Key, "key_sha256")

    def rehearsal(self, task_id: str) -> Rehearsal:
        """Returns the reference of a task."""
        return self._of(task_id, Rehearsal, "rehearsal_sha256")

    def review(self, condition_id: str, task_id: str) -> ReviewLog | None:
        """Returns a person's answers on what an arm held back over a task; None where the plan pins none."""
        key = (condition_id, task_id)
        pin = next((p for p in self._plan.reviews if (p.condition_id, p.task_id) == key), None)
        if pin is None:
            return None
        return ReviewLog.parse_canonical(
            self._blobs.get(pin.log_sha256), where=f"review log of {condition_id}, {task_id}"
        )

    def _of(self, task_id: str, kind: type[D], pin: str) -> D:
        found = self._read.get((task_id, kind))
        if not isinstance(found, kind):
            sha256 = getattr(self._plan.task(task_id).digests, pin)
            found = kind.parse_canonical(
                self._blobs.get(sha256), where=f"{kind.__name__} of {task_id}"
            )
            self._read[task_id, kind] = found
        return found


@dataclass(frozen=True, slots=True)
class Attempted:
    """An attempt among all that its documents are compared with.

    `canaries`: what the run's canaries are derived from; None where a bundle does not hold it. `words` counts
    what can only be taken as said, over all attempts.
    """

    plan: Plan
    trial: Trial
    record: AttemptRecord
    blobs: BlobReader
    tasks: TaskViews
    counter: TokenCounter = field(repr=False)
    canaries: str | None = field(default=None, repr=False)
    words: Counter[str] = field(default_factory=Counter, repr=False)

    def own_word(self, what: str, times: int = 1) -> None:
        """Counts what the answer must tell as the record's own word."""
        if times:
            self.words[what] += times

    @property
    def condition(self) -> Condition:
        """Its arm."""
        return self.plan.condition(self.trial.condition_id)

    def has(self, stage: Stage) -> bool:
        """Whether a stage is recorded."""
        return stage in self.record.stages

    def document(self, stage: Stage, kind: type[D]) -> D:
        """Returns the document of a recorded stage."""
        return stage_document(self.blobs, self.record, stage, kind)

    def found(self, stage: Stage, name: str) -> bytes | None:
        """Returns an artifact of a recorded stage; None if it kept none of that name."""
        sha256 = artifact_of(self.record, stage, name)
        return None if sha256 is None else self.blobs.get(sha256)

    def artifact(self, stage: Stage, name: str) -> bytes:
        """Returns an artifact that the stage must have kept."""
        data = self.found(stage, name)
        if data is None:
            raise self.differs(f"artifact {name} of {stage.value}", "none")
        return data

    def tool_log(self) -> ToolLog | None:
        """Returns what the arm's tool server did; None for an arm without one."""
        return read_log(
            lambda name: self.found(Stage.ACT, name), where=f"tool log of {self.trial.key}"
        )

    def require(self, what: str, expected: object, found: object) -> None:
        """Refuses the attempt unless two values are equal.

        Raises:
            IntegrityError: they are not.
        """
        if expected != found:
            raise self.differs(f"{what} {_shown(expected)}", _shown(found))

    def differs(self, expected: str, found: str) -> MemtrialError:
        """Returns the refusal of an attempt whose documents do not follow from one another."""
        return IntegrityError(
            "stages-mixed-up",
            f"{self.trial.key} attempt {self.record.number}: expected {expected}, found {found}",
            hint="no memtrial of this version writes such a record: do not rely on this run",
        )


def attempted(
    dossier: Dossier, blobs: BlobReader, canaries: str | None, words: Counter[str]
) -> Iterator[Attempted]:
    """Yields every attempt of a run, in the plan's order; `words` is where they count what is own word."""
    tasks, counter = TaskViews(dossier.plan, blobs), TokenCounter()
    for trial in dossier.plan.trials:
        for record in dossier.run.trial(trial.key).attempts:
            yield Attempted(dossier.plan, trial, record, blobs, tasks, counter, canaries, words)


def _shown(value: object) -> str:
    return value[:120] if isinstance(value, str) else repr(value)[:120]
