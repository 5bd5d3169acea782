"""The promotion policy: which drafts become memories, which wait for a person, which are turned away. Pure.

Every answer names its rule. A conflict without a cue of correction never overwrites: it is held. Rules are
tried in the order of `decide`; the first that speaks decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from orchestrator.memory.reference.cues import cues_of
from orchestrator.memory.reference.drafts import CONTESTED, PARTIAL, TENTATIVE, Draft
from orchestrator.memory.reference.evidence import unsaid_in
from orchestrator.memory.reference.injection import INSTRUCTION_LIKE
from orchestrator.memory.reference.related import Relation
from orchestrator.memory.reference.text import sentences, terms, values

RULES: Final[dict[str, str]] = {
    "r1-no-evidence": "rests on no captured event of its session",
    "r2-not-in-evidence": "says what its evidence does not say",
    "r3-nothing-said": "has fewer than two content words once secrets are cut out",
    "r4-duplicate": "says what an active memory says already",
    "r5-declined": "a person turned it away",
    "h1-instruction-like": "reads like an order to the reading model; a person decides",
    "h2-contested": "the answer to it says that it contradicts something or is not settled",
    "h3-tentative": "was only considered",
    "h4-conflict": "gives another value than an active memory, and no word says that this is a correction",
    "p1-stated": "was stated, and contradicts nothing",
    "p2-corrects": "says that it replaces an active memory, which ends",
    "p3-refines": "changes a part of an active memory, which stays with a reference",
    "p4-reviewed": "a person promoted it",
    "p5-late": "was said before an active memory that contradicts it, but arrived later; it is stored as ended",
}

# Shares from 0 to 1 of rarity-weighted words, chosen on half of the pack's tasks (docs/adr/0066).
_DUPLICATE_ALIKE: Final = 0.8
_SAME_SUBJECT_COVERED: Final = 0.6
_TOUCHES_ALIKE: Final = 0.08
_CONFLICT_ALIKE: Final = 0.45
_MARK: Final = re.compile(r"\[redacted:[a-z-]+\]")
_CLAUSE: Final = re.compile(r"[,;:]\s")


@dataclass(frozen=True, slots=True)
class Ruling:
    """What becomes of a draft, by which rule, and which memories it concerns."""

    action: Literal["promote", "hold", "reject"]
    rule: str
    detail: str
    ends: tuple[str, ...] = ()
    refines: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    ended_by: str | None = None


def decide(
    draft: Draft, evidence: tuple[str, ...] | None, at: str, related: list[Relation]
) -> Ruling:
    """Decides on one draft.

    Args:
        draft: what was proposed.
        evidence: the whole captured text of each event that it cites; None if one was not captured.
        at: when its last evidence was said (RFC 3339, UTC).
        related: active memories of its scope that share words with it.
    """
    refusal = _refuse(draft, evidence, related)
    if refusal:
        return refusal
    corrections = [relation for relation in related if _corrects(draft, relation)]
    held = _hold(draft, related, bool(corrections))
    if held:
        return held
    later = [r for r in related if r.known.at > at and _differs(draft, r, _CONFLICT_ALIKE)]
    if later:
        newest = max(later, key=lambda r: (r.known.at, r.known.memory_id)).known.memory_id
        return Ruling("promote", "p5-late", f"{newest} was said later", ended_by=newest)
    ends = tuple(r.known.memory_id for r in corrections if _replaces_whole(draft, r))
    refines = tuple(r.known.memory_id for r in corrections if r.known.memory_id not in ends)
    if ends:
        return Ruling("promote", "p2-corrects", " ".join(ends), ends=ends, refines=refines)
    if refines:
        return Ruling("promote", "p3-refines", " ".join(refines), refines=refines)
    return Ruling("promote", "p1-stated", RULES["p1-stated"])


def _refuse(
    draft: Draft, evidence: tuple[str, ...] | None, related: list[Relation]
) -> Ruling | None:
    said = terms(_MARK.sub(" ", draft.text))
    if evidence is None or not draft.evidence:
        return Ruling("reject", "r1-no-evidence", RULES["r1-no-evidence"])
    if len(said) < 2:
        return Ruling("reject", "r3-nothing-said", RULES["r3-nothing-said"])
    unsaid = unsaid_in(_MARK.sub(" ", draft.text), evidence)
    if unsaid is not None:
        return Ruling("reject", "r2-not-in-evidence", " ".join(sorted(unsaid)[:8]))
    twin = next(
        (
            r
            for r in related
            if r.alike >= _DUPLICATE_ALIKE and r.known.values >= values(draft.text)
        ),
        None,
    )
    if twin:
        return Ruling("reject", "r4-duplicate", twin.known.memory_id)
    return None


def _hold(draft: Draft, related: list[Relation], corrected: bool) -> Ruling | None:
    if INSTRUCTION_LIKE in draft.labels:
        return Ruling("hold", "h1-instruction-like", RULES["h1-instruction-like"])
    if CONTESTED in draft.labels:
        opposed = tuple(r.known.memory_id for r in related if _opposes(draft, r))
        return Ruling("hold", "h2-contested", RULES["h2-contested"], contradicts=opposed)
    if TENTATIVE in draft.labels:
        return Ruling("hold", "h3-tentative", RULES["h3-tentative"])
    if corrected or "correction" in draft.cues:
        return None
    against = [r.known.memory_id for r in related if _differs(draft, r, _CONFLICT_ALIKE)]
    if against:
        return Ruling("hold", "h4-conflict", " ".join(against), contradicts=tuple(against))
    return None


def disagree(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    """Whether the values of two statements about one subject exclude each other: each has one of its own."""
    return bool(mine - theirs) and bool(theirs - mine)


def _differs(draft: Draft, relation: Relation, alike: float) -> bool:
    """The same subject with values on both sides, none of which is the other's."""
    return relation.alike >= alike and disagree(values(draft.text), relation.known.values)


def _opposes(draft: Draft, relation: Relation) -> bool:
    """Another value about all that the memory is about. An answer names nothing when it says "that contradicts".

    It is part of a contested draft's text, so how alike the two are as wholes says little.
    """
    same = relation.covered >= _SAME_SUBJECT_COVERED
    return _differs(draft, relation, 0.0 if same else _CONFLICT_ALIKE)


def _corrects(draft: Draft, relation: Relation) -> bool:
    """The draft carries a cue of correction and touches the memory in the very sentence of the cue."""
    if "correction" not in draft.cues or relation.alike < _TOUCHES_ALIKE:
        return False
    for sentence in sentences(draft.text):
        if "correction" in cues_of(sentence) and len(terms(sentence) & relation.known.terms) >= 2:
            return True
    return bool(_withdrawn_values(draft, relation))


def _replaces_whole(draft: Draft, relation: Relation) -> bool:
    """The memory's own value is withdrawn by name, or the draft is about all that the memory is about."""
    if _withdrawn_values(draft, relation):
        return True
    return PARTIAL not in draft.labels and relation.covered >= _SAME_SUBJECT_COVERED


def _withdrawn_values(draft: Draft, relation: Relation) -> set[str]:
    """Values of the memory that a clause of withdrawal names: `03:00 no longer holds`."""
    found: set[str] = set()
    for sentence in sentences(draft.text):
        for clause in _CLAUSE.split(sentence):
            if "withdrawal" in cues_of(clause):
                found |= {value for value in relation.known.values if _names(clause, value)}
    return found


def _names(clause: str, value: str) -> bool:
    """Whether a clause names a value, as a whole word; one with capitals is meant with them."""
    folded = value.islower()
    at = (clause.casefold() if folded else clause).find(value)
    if at < 0:
        return False
    around = clause[at - 1 : at] + clause[at + len(value) : at + len(value) + 1]
    return not any(c.isalnum() for c in around)
