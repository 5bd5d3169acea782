"""The one door by which facts of the answer key reach a memory system: for arms that bear no claim.

A `Key` itself is never handed over; what crosses is a `GoldFacts`, made here and nowhere else.
"""

from __future__ import annotations

from orchestrator.core.errors import IntegrityError
from orchestrator.model.condition import Condition
from orchestrator.model.lifecycle import GoldFacts, GoldNote
from orchestrator.model.task import Key


def gold_for(condition: Condition, key: Key) -> GoldFacts | None:
    """Returns what an arm is told of the answer key; None for every arm without that door.

    Raises:
        IntegrityError: the arm bears claims, so it may be told nothing.
    """
    if condition.door != "gold":
        return None
    if condition.claim_bearing or condition.role == "primary":
        raise IntegrityError(
            "gold-for-a-claim",
            f"condition {condition.id}: expected an arm that bears no claim, found one that does",
            hint="set door to sessions, or role to diagnostic",
        )
    return GoldFacts(
        facts=tuple(
            GoldNote(
                note_id=fact.id,
                statement=fact.statement,
                event_ids=fact.supporting_event_ids,
            )
            for fact in key.card.gold_facts
        ),
        superseded=tuple(
            GoldNote(note_id=old.id, statement=old.statement, event_ids=old.event_ids)
            for old in key.card.stale_facts
        ),
    )
