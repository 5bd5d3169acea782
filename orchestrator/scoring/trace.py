"""Follows every fact of the answer key through the recorded stages of one trial. Pure: documents in, a trace out.

The key's matchers decide, which no agent and no memory system has. What a system does not show stays empty; the
ladder (scoring.attribution) then knows that it is hidden.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.model.lifecycle import (
    CaptureReports,
    Description,
    ExtractionReport,
    Ranked,
    StoredMemory,
    StoreDump,
)
from orchestrator.model.memory import Injection, Remembered
from orchestrator.model.task import Event, GoldFact, History, Key, StaleFact
from orchestrator.model.trace import (
    CandidateSeen,
    DropSeen,
    FactTrace,
    MemorySeen,
    MemoryTrace,
    StaleSeen,
)
from orchestrator.scoring.matching import (
    clusters,
    counterparts,
    events_of,
    holders,
    holds,
    occurs_in,
)
from orchestrator.scoring.patch import checked_lines

_CITED = re.compile(r"\[mem:([a-z0-9][a-z0-9._-]{0,79})\]")
# Figures and quoted words: what a claim adds that its evidence must hold.
_VALUE = re.compile(r"\"([^\"\n]{1,200})\"|`([^`\n]{1,200})`|\b(\d[\w.:/-]*\w|\d)\b")
_LINKS = frozenset({"contradicts", "supersedes"})


@dataclass(frozen=True, slots=True)
class Stages:
    """The recorded stages of a memory system's life; None where it did not get that far."""

    remembered: Remembered
    description: Description | None = None
    captures: CaptureReports | None = None
    extraction: ExtractionReport | None = None
    dump: StoreDump | None = None
    ranked: Ranked | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What else a trace is made from: the task's documents, and what the agent did.

    `scope` is the query's, `k` the most items that it asked for, `stages` those of the arm by the registry.
    """

    trial: str
    history: History
    key: Key
    injection: Injection
    diff: bytes
    output: bytes
    scope: str
    k: int
    stages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Item:
    """A carrier of facts, whatever stage it stands in."""

    carrier_id: str
    text: str
    evidence: tuple[str, ...]


def trace_of(stages: Stages, seen: Seen) -> MemoryTrace:
    """Makes the trace of one trial.

    Args:
        stages: what the memory system showed.
        seen: the task and what the agent did with the injected text.
    """
    follow = _Follow(stages, seen)
    described = stages.description
    ranked = stages.ranked.items if stages.ranked else ()
    stale = seen.key.card.stale_facts
    return MemoryTrace(
        trial=seen.trial,
        remembered_sha256=stages.remembered.digest_sha256(),
        injection_sha256=seen.injection.digest_sha256(),
        key_sha256=seen.key.digest_sha256(),
        information=described.information if described else None,
        shows=described.shows if described else (),
        extracts=stages.extraction is not None
        and bool(stages.extraction.extractor or stages.extraction.candidates),
        k=seen.k,
        ranked=len(ranked),
        clusters=clusters(item.text for item in ranked),
        stages=seen.stages,
        facts=tuple(follow.fact(fact) for fact in seen.key.card.gold_facts),
        stale_included=tuple(s.id for s in stale if holds(s, seen.injection.text)),
        stale_followed=tuple(s.id for s in stale if follow.followed(s)),
        cited=_cited(seen.output, seen.injection),
        failure=stages.remembered.failure,
    )


class _Follow:
    def __init__(self, stages: Stages, seen: Seen) -> None:
        self._seen = seen
        self._captures = stages.captures
        self._candidates = stages.extraction.candidates if stages.extraction else ()
        self._memories = {m.memory_id: m for m in (stages.dump.memories if stages.dump else ())}
        self._links = stages.dump.links if stages.dump else ()
        self._ranked = [
            _Item(item.memory_id, item.text, self._evidence(item.memory_id, item.source_event_ids))
            for item in (stages.ranked.items if stages.ranked else ())
        ]
        self._events = {e.event_id: _said(e) for ep in seen.history.episodes for e in ep.events}
        self._raw = stages.description is not None and stages.description.information == "raw"
        self._against = counterparts(seen.key)
        self._lines, _ = checked_lines(seen.diff)

    def _evidence(self, memory_id: str, sources: tuple[str, ...]) -> tuple[str, ...]:
        memory = self._memories.get(memory_id)
        return sources or (memory.evidence_event_ids if memory else ())

    def fact(self, fact: GoldFact) -> FactTrace:
        """Follows one fact."""
        captured = self._captured(fact)
        candidates = self._in_candidates(fact)
        memories = self._in_store(fact)
        ranked = [item.carrier_id for item in holders(fact, self._ranked)]
        injected = {item.item_id for item in self._seen.injection.included}
        delivered = holds(fact, self._seen.injection.text)
        return FactTrace(
            fact_id=fact.id,
            supporting=fact.supporting_event_ids,
            captured=captured,
            survived=self._survived(fact, captured),
            candidates=candidates,
            memories=memories,
            unsupported=self._unsupported(fact, candidates, memories),
            stale=tuple(self._stale(s, memories) for s in self._against[fact.id]),
            ranked=tuple(ranked),
            included=tuple(item for item in ranked if item in injected),
            dropped=tuple(
                DropSeen(item_id=item.item_id, reason=item.reason)
                for item in self._seen.injection.dropped
                if item.item_id in ranked
            ),
            delivered=delivered,
        )

    def followed(self, stale: StaleFact) -> bool:
        """Whether the added lines hold a superseded value that the injected text had brought up."""
        return holds(stale, self._seen.injection.text) and all(
            occurs_in(pattern, self._lines) for pattern in stale.matchers
        )

    def _captured(self, fact: GoldFact) -> tuple[str, ...]:
        if self._captures is None:
            return ()
        kept = {
            event.event_id
            for report in self._captures.reports
            for event in report.events
            if event.outcome == "captured"
        }
        return tuple(event for event in fact.supporting_event_ids if event in kept)

    def _survived(self, fact: GoldFact, captured: tuple[str, ...]) -> bool:
        """Whether what was captured still holds the fact, as far as all its events did."""
        whole = "\n".join(self._events[event] for event in fact.supporting_event_ids)
        if not holds(fact, whole):
            # The matchers are made for the statement, not for these events: any of them counts.
            return bool(captured)
        return holds(fact, "\n".join(self._events[event] for event in captured))

    def _in_candidates(self, fact: GoldFact) -> tuple[CandidateSeen, ...]:
        found = {
            item.carrier_id
            for item in holders(
                fact,
                [_Item(c.candidate_id, c.text, c.evidence_event_ids) for c in self._candidates],
            )
        }
        return tuple(
            CandidateSeen(
                candidate_id=candidate.candidate_id,
                decision=candidate.decision,
                rule=candidate.rule,
                own_scope=candidate.scope == self._seen.scope,
                memory_id=candidate.memory_id,
            )
            for candidate in self._candidates
            if candidate.candidate_id in found
        )

    def _in_store(self, fact: GoldFact | StaleFact) -> tuple[MemorySeen, ...]:
        """Returns the memories that hold a fact: active ones of the own scope if they do, else any."""
        memories = list(self._memories.values())
        mine = [m for m in memories if m.status == "active" and m.scope == self._seen.scope]
        found = _holding(fact, mine) or _holding(fact, memories)
        return tuple(
            MemorySeen(
                memory_id=m.memory_id, status=m.status, own_scope=m.scope == self._seen.scope
            )
            for m in memories
            if m.memory_id in found
        )

    def _unsupported(
        self,
        fact: GoldFact,
        candidates: tuple[CandidateSeen, ...],
        memories: tuple[MemorySeen, ...],
    ) -> tuple[str, ...]:
        """Returns active memories that stand in the fact's place and rest on no event that says so."""
        if not self._raw or not any(m.evidence_event_ids for m in self._memories.values()):
            return ()
        made_of_it = {candidate.memory_id for candidate in candidates}
        holding = {memory.memory_id for memory in memories}
        events = set(events_of(fact))
        return tuple(
            m.memory_id
            for m in self._memories.values()
            if m.status == "active"
            and m.memory_id not in holding
            and (
                m.memory_id in made_of_it
                or not m.evidence_event_ids
                or events & set(m.evidence_event_ids)
            )
            and not supported(m, self._events)
        )

    def _stale(self, stale: StaleFact, memories: tuple[MemorySeen, ...]) -> StaleSeen:
        active = [
            m.memory_id for m in self._in_store(stale) if m.status == "active" and m.own_scope
        ]
        # What says the old value in one breath with the new one, or with another fact, is not stale as a whole.
        holding = {m.memory_id for m in memories}
        gold = self._seen.key.card.gold_facts
        active = [
            memory_id
            for memory_id in active
            if memory_id not in holding
            and not any(holds(fact, self._memories[memory_id].text) for fact in gold)
        ]
        pairs = {(link.from_id, link.to_id) for link in self._links if link.kind in _LINKS}
        injected = {item.item_id for item in self._seen.injection.included}
        return StaleSeen(
            stale_id=stale.id,
            active=tuple(active),
            included=tuple(memory_id for memory_id in active if memory_id in injected),
            linked=any(
                (old, new) in pairs or (new, old) in pairs for old in active for new in holding
            ),
            followed=self.followed(stale),
        )


def supported(memory: StoredMemory, events: Mapping[str, str]) -> bool:
    """Whether a memory cites events, and its figures and quoted words stand in them."""
    said = " ".join(events.get(event, "") for event in memory.evidence_event_ids).casefold()
    values = ("".join(found) for found in _VALUE.findall(memory.text))
    return bool(memory.evidence_event_ids) and all(value.casefold() in said for value in values)


def _said(event: Event) -> str:
    """Returns all that an event says, its time and speaker included."""
    call = f"{event.tool.name} {event.tool.input}\n" if event.tool else ""
    return f"{event.at} {event.role}: {call}{event.text}"


def _holding(fact: GoldFact | StaleFact, memories: Sequence[StoredMemory]) -> set[str]:
    items = [_Item(m.memory_id, m.text, m.evidence_event_ids) for m in memories]
    return {item.carrier_id for item in holders(fact, items)}


def _cited(output: bytes, injection: Injection) -> tuple[str, ...]:
    """Returns the ids that the agent itself wrote; the injected text, where it is echoed, does not count."""
    text = output.decode("utf-8", "replace")
    for line in injection.text.splitlines():
        if "[mem:" in line:
            text = text.replace(line, "").replace(json.dumps(line)[1:-1], "")
    return tuple(sorted(set(_CITED.findall(text))))
