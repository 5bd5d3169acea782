"""What memory gave an agent in one trial: before its prompt, or by the answers of tools that it asked. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.model.lifecycle import RankedItem, StoredMemory
from orchestrator.model.memory import Injection
from orchestrator.model.toolcalls import ServedCall, ToolLog
from orchestrator.model.trace import DropSeen


@dataclass(frozen=True, slots=True)
class Item:
    """A carrier of facts, whatever stage it stands in."""

    carrier_id: str
    text: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """The account of an arm's tools. `heard` are the numbers of the answers that came before the model."""

    log: ToolLog
    heard: frozenset[int]


@dataclass(frozen=True, slots=True)
class Given:
    """What was ranked, what of it was included, left out and why, the text that the agent got, and its lines anywhere."""

    ranked: tuple[Item, ...]
    included: frozenset[str]
    dropped: tuple[DropSeen, ...]
    text: str
    echoes: frozenset[str]


def given_before(
    injection: Injection, ranked: Sequence[RankedItem], memories: Mapping[str, StoredMemory]
) -> Given:
    """Returns what was put before an agent."""
    return Given(
        ranked=items_of(ranked, memories),
        included=frozenset(item.item_id for item in injection.included),
        dropped=tuple(
            DropSeen(item_id=item.item_id, reason=item.reason) for item in injection.dropped
        ),
        text=injection.text,
        echoes=frozenset(injection.text.splitlines()),
    )


def given_by_tools(asked: Asked, memories: Mapping[str, StoredMemory]) -> Given:
    """Returns what the tools gave over all questions: each memory once, and each line once, in the order of answers."""
    calls = asked.log.calls
    included = asked.log.shown_ids
    drops = {item.item_id: item.reason for call in calls for item in call.left_out}
    ranked = dict.fromkeys(name for call in calls for name in call.ranked_ids)
    return Given(
        ranked=tuple(
            Item(name, memory.text, memory.evidence_event_ids)
            for name in ranked
            if (memory := memories.get(name)) is not None
        ),
        included=included,
        dropped=tuple(
            DropSeen(item_id=name, reason=reason)
            for name, reason in drops.items()
            if name not in included
        ),
        text="\n".join(dict.fromkeys(_lines(call for call in calls if call.seq in asked.heard))),
        echoes=frozenset(_lines(calls)),
    )


def items_of(
    ranked: Sequence[RankedItem], memories: Mapping[str, StoredMemory]
) -> tuple[Item, ...]:
    """Returns ranked items with the events that they rest on, by their own word or the store's."""
    stored = {item.memory_id: memories.get(item.memory_id) for item in ranked}
    return tuple(
        Item(
            item.memory_id,
            item.text,
            item.source_event_ids
            or (memory.evidence_event_ids if (memory := stored[item.memory_id]) else ()),
        )
        for item in ranked
    )


def _lines(calls: Iterable[ServedCall]) -> list[str]:
    return [line for call in calls for line in call.text.splitlines()]
