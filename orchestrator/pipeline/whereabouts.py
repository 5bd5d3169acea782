"""Where each fact of an answer key went in one life by hand: by its own matchers, stage by stage. Pure.

A fact stands at a stage when what is there holds it by the graders' own rule (`scoring/matching.py`). For people
at a keyboard; the charge of a trial is made from its record elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.words import counted
from orchestrator.model.lifecycle import Observed
from orchestrator.model.task import GoldFact, History, Key
from orchestrator.pipeline.byhand import Lived
from orchestrator.scoring.captured import captured_of
from orchestrator.scoring.given import Item, items_of
from orchestrator.scoring.matching import holders


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
    captured = captured_of(history, lived.captures())
    kept = captured.of(fact)
    cut = sum(captured.cut[event] for event in kept)
    ends = f", {counted(cut, 'character')} cut off" if cut else ""
    seen = [("captured", f"{len(set(kept))} of {len(set(fact.supporting_event_ids))} events{ends}")]
    lost = None if captured.survived(fact) or not _learns(lived) else "captured"
    candidates = lived.extraction().candidates
    memories = {memory.memory_id: memory for memory in lived.dump().memories}
    ranked = items_of(lived.ranked().items, memories)
    context = lived.remembered.context
    included = {item.item_id for item in context.included} if context else set()
    stages: list[tuple[str, list[Item]]] = [
        ("extracted", [Item(c.candidate_id, c.text, c.evidence_event_ids) for c in candidates]),
        (
            "stored",
            [
                Item(m.memory_id, m.text, m.evidence_event_ids)
                for m in memories.values()
                if m.status == "active"
            ],
        ),
        ("retrieved", list(ranked)),
        ("in the context", [item for item in ranked if item.carrier_id in included]),
    ]
    if not candidates:
        stages = stages[1:]
    hidden = set() if Observed.STORE in lived.description().shows else {"stored"}
    for name, texts in stages:
        if name in hidden:
            seen.append((name, "not shown by this system"))
            continue
        found = [item.carrier_id for item in holders(fact, texts)]
        seen.append((name, ", ".join(found[:3]) if found else "no"))
        if not found and lost is None:
            lost = name
    return Whereabouts(fact.id, fact.statement, tuple(seen), lost)


def _learns(lived: Lived) -> bool:
    return lived.remembered.captured_events > 0
