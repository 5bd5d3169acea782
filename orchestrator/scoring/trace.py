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
from orchestrator.model.task import GoldFact, History, Key, StaleFact
from orchestrator.model.trace import (
    CandidateSeen,
    FactTrace,
    MemorySeen,
    MemoryTrace,
    StaleSeen,
    ToolsAsked,
)
from orchestrator.scoring.captured import captured_of
from orchestrator.scoring.given import Asked, Given, Item, given_before, given_by_tools, items_of
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
    `asked` is the account of an arm's tools; None for an arm without them.
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
    asked: Asked | None = None


def trace_of(stages: Stages, seen: Seen) -> MemoryTrace:
    """Makes the trace of one trial.

    Args:
        stages: what the memory system showed.
        seen: the task and what the agent did with the injected text.
    """
    follow = _Follow(stages, seen)
    described = stages.description
    given = follow.given
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
        ranked=len(given.ranked),
        clusters=clusters(item.text for item in given.ranked),
        stages=seen.stages,
        facts=tuple(follow.fact(fact) for fact in seen.key.card.gold_facts),
        stale_included=tuple(s.id for s in stale if holds(s, given.text)),
        stale_followed=tuple(s.id for s in stale if follow.followed(s)),
        cited=_cited(seen.output, given),
        failure=stages.remembered.failure or (seen.asked.log.failure if seen.asked else None),
        asked=None if seen.asked is None else follow.asked(seen.asked),
    )


class _Follow:
    def __init__(self, stages: Stages, seen: Seen) -> None:
        self._seen = seen
        self._candidates = stages.extraction.candidates if stages.extraction else ()
        self._memories = {m.memory_id: m for m in (stages.dump.memories if stages.dump else ())}
        self._links = stages.dump.links if stages.dump else ()
        self._by_prompt = items_of(stages.ranked.items if stages.ranked else (), self._memories)
        self.given = (
            given_by_tools(seen.asked, self._memories)
            if seen.asked
            else given_before(
                seen.injection, stages.ranked.items if stages.ranked else (), self._memories
            )
        )
        self._captured = captured_of(seen.history, stages.captures)
        self._raw = stages.description is not None and stages.description.information == "raw"
        self._against = counterparts(seen.key)
        self._lines, _ = checked_lines(seen.diff)

    def asked(self, asked: Asked) -> ToolsAsked:
        """Says how the tools were used."""
        facts = self._seen.key.card.gold_facts
        return ToolsAsked(
            questions=len(asked.log.calls),
            heard=len(asked.heard),
            by_prompt=tuple(fact.id for fact in facts if holders(fact, self._by_prompt)),
        )

    def fact(self, fact: GoldFact) -> FactTrace:
        """Follows one fact."""
        candidates = self._in_candidates(fact)
        memories = self._in_store(fact)
        ranked = holders(fact, self.given.ranked)
        ids = {item.carrier_id for item in ranked}
        return FactTrace(
            fact_id=fact.id,
            supporting=fact.supporting_event_ids,
            captured=self._captured.of(fact),
            survived=self._captured.survived(fact),
            candidates=candidates,
            memories=memories,
            unsupported=self._unsupported(fact, candidates, memories),
            stale=tuple(self._stale(s, memories) for s in self._against[fact.id]),
            ranked=tuple(item.carrier_id for item in ranked),
            included=self._included(fact, {item.carrier_id: item.text for item in ranked}),
            dropped=tuple(drop for drop in self.given.dropped if drop.item_id in ids),
            delivered=holds(fact, self.given.text),
        )

    def _included(self, fact: GoldFact | StaleFact, carriers: Mapping[str, str]) -> tuple[str, ...]:
        """Returns those carriers of a fact that were included; none where they hold it only with what was not."""
        found = tuple(name for name in carriers if name in self.given.included)
        return found if holds(fact, "\n".join(carriers[name] for name in found)) else ()

    def followed(self, stale: StaleFact) -> bool:
        """Whether the added lines hold a superseded value that memory had brought up."""
        return holds(stale, self.given.text) and all(
            occurs_in(pattern, self._lines) for pattern in stale.matchers
        )

    def _in_candidates(self, fact: GoldFact) -> tuple[CandidateSeen, ...]:
        """Returns the candidates that hold a fact; of those that do so only together, what was not taken for it."""
        items = [Item(c.candidate_id, c.text, c.evidence_event_ids) for c in self._candidates]
        found = {item.carrier_id for item in holders(fact, items)}
        taken = found & {
            c.candidate_id
            for c in self._candidates
            if c.decision == "promote" and c.scope == self._seen.scope
        }
        if not holds(fact, "\n".join(i.text for i in items if i.carrier_id in taken)):
            found -= taken
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
        """Returns the memories that hold a fact: active ones of the own scope if they do.

        Else any, and of those that do so together the ones that are not active there.
        """
        memories = list(self._memories.values())
        mine = [m for m in memories if m.status == "active" and m.scope == self._seen.scope]
        found = _holding(fact, mine) or (
            _holding(fact, memories) - {memory.memory_id for memory in mine}
        )
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
            and not supported(m, self._captured.said)
        )

    def _stale(self, stale: StaleFact, memories: tuple[MemorySeen, ...]) -> StaleSeen:
        carriers = {
            m.memory_id: self._memories[m.memory_id].text
            for m in self._in_store(stale)
            if m.status == "active" and m.own_scope
        }
        injected = self._included(stale, carriers)
        # What says the old value in one breath with the new one, or with another fact, is not stale as a whole.
        holding = {m.memory_id for m in memories}
        gold = self._seen.key.card.gold_facts
        active = [
            memory_id
            for memory_id in carriers
            if memory_id not in holding
            and not any(holds(fact, self._memories[memory_id].text) for fact in gold)
        ]
        pairs = {(link.from_id, link.to_id) for link in self._links if link.kind in _LINKS}
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


def _holding(fact: GoldFact | StaleFact, memories: Sequence[StoredMemory]) -> set[str]:
    items = [Item(m.memory_id, m.text, m.evidence_event_ids) for m in memories]
    return {item.carrier_id for item in holders(fact, items)}


def _cited(output: bytes, given: Given) -> tuple[str, ...]:
    """Returns the ids that the agent itself wrote; what memory gave it, where that is echoed, does not count."""
    text = output.decode("utf-8", "replace")
    for line in sorted(given.echoes):
        if "[mem:" in line:
            for form in _forms(line):
                text = text.replace(form, "")
    return tuple(sorted(set(_CITED.findall(text))))


def _forms(line: str) -> tuple[str, ...]:
    """Returns a line as an output may echo it: as it is, in the text of JSON, or of JSON in JSON."""
    once = _in_json(line)
    twice = (form for inner in once for form in _in_json(inner))
    return (*twice, *once, line)


def _in_json(text: str) -> tuple[str, str]:
    """Returns a text as the two forms of a JSON string hold it: other characters escaped, or as they are."""
    escaped, plain = (json.dumps(text, ensure_ascii=ascii_)[1:-1] for ascii_ in (True, False))
    return escaped, plain
