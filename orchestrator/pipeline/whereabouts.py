"""Where each fact of an answer key went in one life by hand: by its own matchers, stage by stage. Pure.

A fact stands at a stage when one text of that stage satisfies all its matchers, or all texts that rest on its
events do together. For people at a keyboard; the charge of a trial is made from its record elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.core.words import counted
from orchestrator.model.lifecycle import Observed
from orchestrator.model.task import GoldFact, History, Key
from orchestrator.pipeline.byhand import Lived
from orchestrator.scoring.captured import captured_of


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """The stages at which a fact is there, in words; `lost_at` is null for one that reached the agent."""

    fact_id: str
    statement: str
    seen: tuple[tuple[str, str], ...]
    lost_at: str | None


def whereabouts(lived: Lived, history: History, key: Key) -> tuple[Whereabouts, ...]:
    """Returns the path of every gold fact of the history that was lived through."""
    return tuple(_path(lived, history, fact) for fact in key.card.gold_facts)


def _path(lived: Lived, history: History, fact: GoldFact) -> Whereabouts:
    evidence = set(fact.supporting_event_ids)
    captured = captured_of(history, lived.captures())
    kept = captured.of(fact)
    cut = sum(captured.cut[event] for event in kept)
    ends = f", {counted(cut, 'character')} cut off" if cut else ""
    seen = [("captured", f"{len(set(kept))} of {len(evidence)} events{ends}")]
    lost = None if captured.survived(fact) or not _learns(lived) else "captured"
    candidates = lived.extraction().candidates
    stages: list[tuple[str, list[tuple[str, str, bool]]]] = [
        (
            "extracted",
            [(c.candidate_id, c.text, _rests(c.evidence_event_ids, evidence)) for c in candidates],
        ),
        (
            "stored",
            [
                (m.memory_id, m.text, _rests(m.evidence_event_ids, evidence))
                for m in lived.dump().memories
                if m.status == "active"
            ],
        ),
        (
            "retrieved",
            [
                (i.memory_id, i.text, _rests(i.source_event_ids, evidence))
                for i in lived.ranked().items
            ],
        ),
        ("in the context", _in_context(lived, evidence)),
    ]
    if not candidates:
        stages = stages[1:]
    hidden = set() if Observed.STORE in lived.description().shows else {"stored"}
    for name, texts in stages:
        if name in hidden:
            seen.append((name, "not shown by this system"))
            continue
        found = _holding(fact, texts)
        seen.append((name, ", ".join(found[:3]) if found else "no"))
        if not found and lost is None:
            lost = name
    return Whereabouts(fact.id, fact.statement, tuple(seen), lost)


def _learns(lived: Lived) -> bool:
    return lived.remembered.captured_events > 0


def _rests(names: tuple[str, ...], evidence: set[str]) -> bool:
    return bool(evidence.intersection(names))


def _in_context(lived: Lived, evidence: set[str]) -> list[tuple[str, str, bool]]:
    context = lived.remembered.context
    included = {item.item_id for item in context.included} if context else set()
    return [
        (item.memory_id, item.text, _rests(item.source_event_ids, evidence))
        for item in lived.ranked().items
        if item.memory_id in included
    ]


def _holding(fact: GoldFact, texts: Iterable[tuple[str, str, bool]]) -> list[str]:
    """Returns the ids of what holds the fact: one text, or those that rest on its events together."""
    texts = list(texts)
    alone = [name for name, text, _ in texts if _matches(fact, text)]
    if alone:
        return alone
    resting = [(name, text) for name, text, rests in texts if rests]
    together = " ".join(text for _, text in resting)
    return [name for name, _ in resting] if _matches(fact, together) else []


def _matches(fact: GoldFact, text: str) -> bool:
    flat = " ".join(text.split())
    return bool(flat) and all(re.search(p, flat, re.IGNORECASE) for p in fact.matchers)
