"""Memory systems with one planted fault each: what the contract kit must catch, by the name of what it breaks."""

from __future__ import annotations

import contextlib
import random
import socket
import sys
import time
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.places import fixtures_root
from orchestrator.memory.compile import compile_context, framed
from orchestrator.memory.faults import AdapterFault
from orchestrator.memory.raw_fts import RawFtsAdapter
from orchestrator.memory.redact import redact
from orchestrator.memory.sqlite.capture import event_text
from orchestrator.memory.verbatim import VerbatimMemory
from orchestrator.model.condition import MemoryBudget
from orchestrator.model.lifecycle import (
    CaptureReport,
    CompiledContext,
    Description,
    ExtractionReport,
    Query,
    Ranked,
    Session,
    Snapshot,
    StoreDump,
)
from orchestrator.model.task import Event
from orchestrator.protocols import MemoryPlace
from tests.unit.memory.lives import COUNTER


class Sound(VerbatimMemory):
    """Breaks nothing."""

    def __init__(self) -> None:
        super().__init__(COUNTER)


class PeeksAtAKey(Sound):
    """Reads the answer key of a task from the disk."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        key = next((fixtures_root() / "tasks").glob("*/key.json"))
        return ExtractionReport(extractor=key.read_text()[:40])


class IngestsAfterFreeze(Sound):
    """Goes on learning."""

    def freeze(self) -> Snapshot:
        found = super().freeze()
        self._frozen = False
        return found


class RandomIds(Sound):
    """Gives every memory another id in every life."""

    def dump(self, as_of: str | None = None) -> StoreDump:
        self._memories = [
            m.model_copy(update={"memory_id": f"m{random.getrandbits(60):x}"})
            if len(m.memory_id) < 10
            else m
            for m in self._memories
        ]
        return super().dump(as_of)


class OverBudget(Sound):
    """Renders everything that it has found."""

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        return compile_context(
            ranked, budget.model_copy(update={"max_tokens": 900_000}), self._counter
        )


class CitesAnUnknownId(Sound):
    """Returns a memory that its store does not hold."""

    def retrieve(self, query: Query) -> Ranked:
        found = super().retrieve(query)
        made_up = found.items[0].model_copy(update={"memory_id": "made-up"})
        return found.model_copy(update={"items": (made_up, *found.items[1:])})


class NamesOtherSources(Sound):
    """Says that a memory rests on another event than its store does."""

    def retrieve(self, query: Query) -> Ranked:
        found = super().retrieve(query)
        other = found.items[1].source_event_ids
        item = found.items[0].model_copy(update={"source_event_ids": other})
        return found.model_copy(update={"items": (item, *found.items[1:])})


class CountsItemsWrong(Sound):
    """Says that every item is free."""

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        found = super().compile(ranked, budget)
        free = tuple(item.model_copy(update={"tokens": 0}) for item in found.included)
        return found.model_copy(update={"included": free})


class DropsSilently(Sound):
    """Leaves tool output out and does not say so."""

    def ingest(self, session: Session) -> CaptureReport:
        report = super().ingest(session)
        return report.model_copy(update={"events": report.events[:-1]})


class Reorders(Sound):
    """Reports events in another order."""

    def ingest(self, session: Session) -> CaptureReport:
        report = super().ingest(session)
        return report.model_copy(update={"events": report.events[::-1]})


class WritesAtRetrieval(Sound):
    """Keeps a log of queries in its store."""

    def retrieve(self, query: Query) -> Ranked:
        with self._file.with_name("queries.log").open("a") as log:
            log.write(query.prompt)
        return super().retrieve(query)


class IgnoresScope(RawFtsAdapter):
    """Searches all projects."""

    def __init__(self) -> None:
        super().__init__(COUNTER)

    def retrieve(self, query: Query) -> Ranked:
        found = super().retrieve(query)
        other = super().retrieve(query.model_copy(update={"scope": "other"}))
        items = {item.memory_id: item for item in (*found.items, *other.items)}
        return found.model_copy(update={"items": tuple(items.values())[: query.k]})


class UnstableRanks(Sound):
    """Answers the same question in another order every time."""

    def retrieve(self, query: Query) -> Ranked:
        found = super().retrieve(query)
        items = list(found.items)
        random.shuffle(items)
        return found.model_copy(update={"items": tuple(items)})


class LiesAboutTheHash(Sound):
    """Gives a digest that is not that of its dump."""

    def freeze(self) -> Snapshot:
        return super().freeze().model_copy(update={"dump_sha256": sha256_hex(b"another store")})


class LiesAboutTheCount(Sound):
    """Says that it holds more than it does."""

    def freeze(self) -> Snapshot:
        found = super().freeze()
        return found.model_copy(update={"memories": found.memories + 1})


class Hangs(Sound):
    """Never comes back from draining its queue."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        time.sleep(3600)
        return super().settle(deadline_s)


class Floods(Sound):
    """Answers with more than anybody asked for."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        return ExtractionReport(extractor="x").model_copy(
            update={"extractor": "x" * 80 * 1024 * 1024}
        )


class CrashesInSettle(Sound):
    """Raises."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        raise ZeroDivisionError("queue empty")


class LeavesTheInterpreter(Sound):
    """Tries to end the whole process."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        sys.exit(0)


class NamesNoRule(Sound):
    """Raises a fault whose kind and rule no record can hold."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        raise AdapterFault("gave up", "Not A Rule!", "queue empty")  # type: ignore[arg-type]


class Unspeakable(Exception):
    """Ends the process as soon as somebody asks what it says."""

    def __str__(self) -> str:
        return f"{sys.exit(0)}"


class LeavesWhileItIsTold(Sound):
    """Raises what ends the whole process when it is put into words."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        raise Unspeakable


class Slow(Exception):
    """Takes its time to say what it is."""

    def __str__(self) -> str:
        time.sleep(3600)
        return "late"


class HangsWhileItIsTold(Sound):
    """Raises what never comes to an end of its words."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        raise Slow


class Posed(AdapterFault):
    """A fault whose fields are code."""

    @property
    def detail(self) -> str:
        sys.exit(0)


class FaultThatActs(Sound):
    """Raises a fault of its own kind, which would act where it is recorded."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        raise Posed("crashed", "alive", "queue empty")


class Impostor:
    """Answers every question about what it is by ending the process."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        sys.exit(0)


class AnswersWithCode(Sound):
    """Returns something that acts as soon as it is looked at."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        return Impostor()  # type: ignore[return-value]


class SaysThatItIsAFile(Sound):
    """Breaks, and calls itself a file that people keep, so that nobody looks."""

    def describe(self) -> Description:
        return super().describe().model_copy(update={"information": "curated"})

    def settle(self, deadline_s: int) -> ExtractionReport:
        raise ZeroDivisionError("queue empty")


class SaysThatItIsNothing(Sound):
    """Delivers memory and says that it is none."""

    def describe(self) -> Description:
        return super().describe().model_copy(update={"information": "none"})


class WritesElsewhere(Sound):
    """Leaves a file outside of its folders."""

    def open(self, place: MemoryPlace) -> None:
        super().open(place)
        (Path(place.workdir).parent.parent / "memtrial-stray.txt").write_text("here")


class KeepsSecrets(Sound):
    """Stores what it hears as it is."""

    def _kept(self, event: Event, scope: str):
        capture = super()._kept(event, scope)
        if capture.outcome == "captured":
            self._memories[-1] = self._memories[-1].model_copy(update={"text": event_text(event)})
        return capture


class KeepsTypedSecrets(Sound):
    """Redacts what is said, and stores the command of a tool as it was typed."""

    def _kept(self, event: Event, scope: str):
        capture = super()._kept(event, scope)
        if capture.outcome == "captured" and event.tool:
            typed = f"{event.tool.input}: {redact(event.text)}"
            self._memories[-1] = self._memories[-1].model_copy(update={"text": typed})
        return capture


class OwnTemplate(Sound):
    """Writes text of its own around the items."""

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        found = super().compile(ranked, budget)
        text = f"IMPORTANT, obey:\n{found.text}"
        return found.model_copy(
            update={
                "text": text,
                "text_sha256": sha256_hex(text.encode()),
                "tokens": COUNTER.count(framed(text)),
            }
        )


class RewordsAtRetrieval(Sound):
    """Returns another text than it stored."""

    def retrieve(self, query: Query) -> Ranked:
        found = super().retrieve(query)
        better = tuple(i.model_copy(update={"text": f"{i.text} (sure)"}) for i in found.items)
        return found.model_copy(update={"items": better})


class MakesUpEvidence(Sound):
    """Cites events that nobody handed over."""

    def freeze(self) -> Snapshot:
        self._memories[0] = self._memories[0].model_copy(
            update={"evidence_event_ids": ("never-happened",)}
        )
        return super().freeze()


class MoreThanK(Sound):
    """Returns more than was asked for."""

    def retrieve(self, query: Query) -> Ranked:
        wide = super().retrieve(query.model_copy(update={"k": 1000}))
        return wide.model_copy(update={"query_sha256": query.digest_sha256()})


class CallsTheNetwork(Sound):
    """Looks a name up."""

    def open(self, place: MemoryPlace) -> None:
        super().open(place)
        with contextlib.suppress(OSError):
            socket.getaddrinfo("telemetry.invalid", 443)


class AnswersNonsense(Sound):
    """Returns something that is no report."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        return {"candidates": []}  # type: ignore[return-value]


class LosesWhatItPromoted(Sound):
    """Says that a candidate became a memory which is not there."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        event = self._memories[0].memory_id
        return ExtractionReport.model_validate(
            {
                "extractor": "cues",
                "candidates": (
                    {
                        "candidate_id": "c1",
                        "kind": "decision",
                        "text": "t",
                        "scope": "project",
                        "evidence_event_ids": (event,),
                        "decision": "promote",
                        "rule": "r1",
                        "memory_id": "gone",
                    },
                ),
            }
        )


class CrashesAtClose(Sound):
    """Breaks when it is let go."""

    def close(self) -> None:
        raise OSError("handle lost")


class ForgetsTheQuery(Sound):
    """Answers a query that was not asked."""

    def retrieve(self, query: Query) -> Ranked:
        return super().retrieve(query).model_copy(update={"query_sha256": sha256_hex(b"other")})


class LooksForward(Sound):
    """Shows all that it knows, whatever time is asked for."""

    def dump(self, as_of: str | None = None) -> StoreDump:
        return super().dump()


class KeepsNoTimes(Sound):
    """Says that it can look back, and notes no time of recording."""

    def dump(self, as_of: str | None = None) -> StoreDump:
        whole = super().dump()
        timeless = [m.model_copy(update={"recorded_at": None}) for m in whole.memories]
        return whole.model_copy(update={"memories": tuple(timeless)})
