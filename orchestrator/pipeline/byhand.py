"""One memory system on one history, by hand: the same life as in a trial, without an agent.

Reads a task or a history file; keeps every document of the life in memory for the caller to show or write.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import UsageError, unknown_name
from orchestrator.core.files import read_confined
from orchestrator.core.places import cache_root
from orchestrator.memory.life import live, sessions_sha256
from orchestrator.memory.sessions import PROJECT, sessions_of
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.condition import Condition
from orchestrator.model.lifecycle import (
    CaptureReports,
    Description,
    ExtractionReport,
    Query,
    Ranked,
    StoreDump,
)
from orchestrator.model.memory import Remembered
from orchestrator.model.review import ReviewLog
from orchestrator.model.task import History
from orchestrator.pipeline.gold import gold_for
from orchestrator.pipeline.memory import adapter_of, memory_assignment, pinned_now
from orchestrator.pipeline.parity import query_of
from orchestrator.pipeline.reviews import review_of
from orchestrator.protocols import OpenBox
from orchestrator.sources.loader import (
    LoadedTask,
    list_tasks,
    load_conditions,
    load_curated,
    load_task,
)

MAX_HISTORY_BYTES = 64 * 1024 * 1024
NOTHING_ASKED = "What is known of this project?"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is done by hand: one arm, a task or a history file, and perhaps another question.

    `reviewed`: carry out what people answered, where the arm has review logs; a review itself begins without.
    """

    condition: str
    task: str | None = None
    history: Path | None = None
    prompt: str | None = None
    as_of: str | None = None
    reviewed: bool = True


@dataclass(frozen=True, slots=True)
class Lived:
    """A life, with every document that it left, by name. `pinned`: its code is what the registry's pin is over.

    `review` is the log of a person's answers that were carried out; None for an arm without one.
    """

    condition: Condition
    remembered: Remembered
    documents: dict[str, bytes]
    task: LoadedTask | None
    sessions_sha256: str
    pinned: bool = True
    review: ReviewLog | None = None

    def description(self) -> Description:
        """Returns what the system said of itself."""
        return Description.parse_canonical(self.documents["description"], where="description")

    def captures(self) -> CaptureReports:
        """Returns what became of every event."""
        return CaptureReports.parse_canonical(self.documents["captures"], where="captures")

    def extraction(self) -> ExtractionReport:
        """Returns what extraction proposed."""
        return ExtractionReport.parse_canonical(self.documents["extraction"], where="extraction")

    def dump(self) -> StoreDump:
        """Returns the frozen store, or what it held at the time that was asked for."""
        name = "dump-as-of" if "dump-as-of" in self.documents else "dump"
        return StoreDump.parse_canonical(self.documents[name], where=name)

    def ranked(self) -> Ranked:
        """Returns what the query brought up."""
        return Ranked.parse_canonical(self.documents["ranked"], where="ranked")


def live_by_hand(asked: Asked, *, fixtures: Path) -> Lived:
    """Takes an arm's memory system through its life.

    Raises:
        UsageError: arm or task do not exist, or neither or both of task and history are given.
        DocumentError: the history is malformed.
    """
    known = {condition.id: condition for condition in load_conditions(fixtures).conditions}
    if asked.condition not in known:
        raise unknown_name("condition", asked.condition, known, option="--condition")
    condition = known[asked.condition]
    if not asked.reviewed:
        condition = condition.model_copy(update={"reviews": None})
    pinned = pinned_now(condition) == condition.adapter_sha256
    if not pinned:
        # Whoever writes an adapter tries it before it is pinned; a plan refuses it.
        condition = condition.model_copy(update={"adapter_sha256": None})
    task = _task(asked, fixtures)
    history = task.history if task else _history(asked)
    if task is None and condition.door == "gold":
        raise UsageError(
            "arm-needs-a-task",
            f"condition {condition.id}: expected a task with an answer key, found a history alone",
            hint="name a task with --task, or another arm with --condition",
        )
    counter = TokenCounter()
    documents: dict[str, bytes] = {}

    def keep(name: str, data: bytes) -> str:
        documents[name] = data
        return sha256_hex(data)

    curated = _curated(fixtures, task) if task else None
    review = review_of(condition, task.card.id, history) if task else None
    with memory_assignment(
        condition,
        history,
        _query(asked, task, condition),
        gold=gold_for(condition, task.key) if task else None,
        review=review,
        as_of=asked.as_of,
    ) as assignment:
        start = start_here() if condition.adapter_kind == "command" else None
        adapter = adapter_of(condition, curated, counter, start, review=review)()
        remembered = live(adapter, assignment, counter, keep=keep)
    told = sessions_sha256(sessions_of(history))
    return Lived(condition, remembered, documents, task, told, pinned=pinned, review=review)


def start_here() -> OpenBox:
    """Returns what starts programs in the engine of this machine.

    Raises:
        EnvironmentMissing: no engine answers.
    """
    from orchestrator.pipeline.boxes import Boxes
    from orchestrator.sandbox.adapter import DockerSandbox
    from orchestrator.sandbox.engine import connect
    from orchestrator.sandbox.identity import installation_id

    client = connect()
    sandbox = DockerSandbox(client, installation_id(cache_root()))
    return Boxes(sandbox, client, lambda _: None).of("by hand")


def _task(asked: Asked, fixtures: Path) -> LoadedTask | None:
    if (asked.task is None) == (asked.history is None):
        raise UsageError(
            "history-not-given",
            "expected a task or a history file, found neither or both",
            hint="give --task ID or --history FILE",
        )
    if asked.task is None:
        return None
    names = list_tasks(fixtures)
    if asked.task not in names:
        raise unknown_name("task", asked.task, names, option="--task")
    return load_task(fixtures, asked.task)


def _history(asked: Asked) -> History:
    path = (asked.history or Path()).absolute()
    if not path.is_file():
        raise UsageError(
            "history-missing",
            f"expected a history file, found none: {path.name}",
            hint="give --history FILE (schemas/history.json)",
        )
    data = read_confined(path.parent, path.name, max_bytes=MAX_HISTORY_BYTES)
    return History.parse(data, where=path.name, max_bytes=MAX_HISTORY_BYTES)


def _query(asked: Asked, task: LoadedTask | None, condition: Condition) -> Query:
    if task is not None:
        query = query_of(task.brief, condition.retrieve_k)
        return query.model_copy(update={"prompt": asked.prompt}) if asked.prompt else query
    return Query(
        prompt=asked.prompt or NOTHING_ASKED, scope=PROJECT, k=condition.retrieve_k or 1000
    )


def _curated(fixtures: Path, task: LoadedTask) -> str | None:
    name = task.card.id
    there = (fixtures / "curated" / name / "MEMORY.md").is_file()
    return load_curated(fixtures, name).text if there else None
