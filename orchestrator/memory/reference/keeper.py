"""Writes candidates, rulings, memories, their ends and links; answers what held at which time.

Two times are kept: when a statement held (`valid_from`, `valid_to`, from its event) and when it was written
(`recorded_at`, from the history's clock). Rows are only added; an ended memory is a row in `memory_ends`.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.errors import UsageError
from orchestrator.memory.reference.drafts import Draft, Utterance
from orchestrator.memory.reference.policy import RULES, Ruling, decide, disagree
from orchestrator.memory.reference.related import Index
from orchestrator.memory.reference.store import next_ordinal
from orchestrator.memory.reference.text import terms, values
from orchestrator.memory.sqlite.search import split_camel

CANDIDATE: Final = "c{:05d}"
MEMORY: Final = "m{:05d}"


@dataclass(slots=True)
class Keeper:
    """The writer of one store; its index holds the active memories in RAM.

    `now` is when the session at hand was captured (RFC 3339, UTC), by the history's own clock.
    """

    store: sqlite3.Connection
    now: str
    index: Index = field(default_factory=Index)

    def take(
        self,
        draft: Draft,
        session_id: str,
        scope: str,
        events: tuple[Utterance, ...],
        extractor: str,
    ) -> Ruling:
        """Keeps a draft as a candidate and decides on it, inside the caller's transaction."""
        said = {event.event_id: event for event in events}
        cited = [said[name] for name in draft.evidence if name in said]
        complete = len(cited) == len(draft.evidence) and bool(cited)
        at = max((event.at for event in cited), default=events[-1].at if events else self.now)
        ordinal = next_ordinal(self.store, "candidates")
        candidate_id = CANDIDATE.format(ordinal)
        self.store.execute(
            "INSERT INTO candidates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(ordinal, candidate_id, session_id, at, draft.kind, draft.text, draft.reason),
                *(_packed(draft.rejected), _packed(draft.files), scope, _packed(draft.evidence)),
                *(_packed(draft.cues), _packed(draft.labels), draft.confidence_milli, extractor),
            ),
        )
        ruling = decide(
            draft,
            tuple(event.text for event in cited) if complete else None,
            at,
            # A raw event kept as it is states nothing that another could replace.
            [] if draft.kind == "event" else self.index.related(draft.text, scope),
        )
        self._carry_out(ruling, candidate_id, draft, scope, at)
        return ruling

    def review(self, candidate_id: str, action: str, reviewer: str, seconds_spent: int) -> Ruling:
        """Resolves a held candidate as a person said, in a transaction of its own.

        What was held for giving another value than a memory replaces that memory, or is replaced by it if the
        memory was said later. What was held for another reason stays beside what gives another value, and says so.

        Raises:
            UsageError: there is no such held candidate, or it was resolved before.
        """
        row = self.store.execute(
            "SELECT c.kind, c.text, c.evidence, c.reason, c.rejected, c.files, c.cues, c.labels, c.scope, c.at, d.rule "
            "FROM candidates c JOIN decisions d USING (candidate_id) WHERE c.candidate_id = ? AND d.action = 'hold' "
            "AND c.candidate_id NOT IN (SELECT candidate_id FROM reviews)",
            (candidate_id,),
        ).fetchone()
        if row is None:
            raise UsageError(
                "candidate-not-held",
                f"expected a held candidate, found {candidate_id} is none or was resolved",
                hint="list the held ones with `memtrial memory review`",
            )
        kind, text, evidence, reason, rejected, files, cues, labels, scope, at, held_by = row
        draft = Draft(
            kind=kind,
            text=text,
            evidence=_unpacked(evidence),
            reason=reason,
            rejected=_unpacked(rejected),
            files=_unpacked(files),
            cues=_unpacked(cues),
            labels=_unpacked(labels),
        )
        if action == "promote":
            ruling = self._promoted(candidate_id, text, at, replaces=held_by == "h4-conflict")
        else:
            ruling = Ruling("reject", "r5-declined", RULES["r5-declined"])
        with self.store:
            self.store.execute("BEGIN IMMEDIATE")
            self.store.execute(
                "INSERT INTO reviews VALUES (?, ?, ?, ?, ?, ?)",
                (
                    *(next_ordinal(self.store, "reviews"), candidate_id, action),
                    *(reviewer, seconds_spent, self.now),
                ),
            )
            self._carry_out(ruling, candidate_id, draft, scope, at)
        return ruling

    def _promoted(self, candidate_id: str, text: str, at: str, *, replaces: bool) -> Ruling:
        """Returns what a promotion by hand makes of the active memories that the candidate contradicts.

        A memory that ended since stands for the one that took its place; what stays beside that one contradicts
        it only where its values do.
        """
        rows = self.store.execute(
            "WITH RECURSIVE against(memory_id) AS ("
            "SELECT to_id FROM links WHERE from_id = ? AND kind = 'contradicts' "
            "UNION SELECT e.superseded_by FROM memory_ends e JOIN against USING (memory_id)) "
            "SELECT m.memory_id, m.valid_from, m.text FROM against JOIN memories m USING (memory_id) "
            "WHERE m.memory_id NOT IN (SELECT memory_id FROM memory_ends) ORDER BY m.valid_from, m.memory_id",
            (candidate_id,),
        ).fetchall()
        rule, detail = "p4-reviewed", RULES["p4-reviewed"]
        if not replaces:
            mine = values(text)
            beside = tuple(other for other, _, theirs in rows if disagree(mine, values(theirs)))
            return Ruling("promote", rule, detail, contradicts=beside)
        later = [other for other, said, _ in rows if said > at]
        ends = tuple(other for other, said, _ in rows if said <= at)
        return Ruling("promote", rule, detail, ends=ends, ended_by=later[-1] if later else None)

    def _carry_out(
        self, ruling: Ruling, candidate_id: str, draft: Draft, scope: str, at: str
    ) -> None:
        memory_id = None
        ordinal = next_ordinal(self.store, "memories")
        if ruling.action == "promote":
            memory_id = MEMORY.format(ordinal)
        self.store.execute(
            "INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?)",
            (
                *(next_ordinal(self.store, "decisions"), candidate_id),
                *(ruling.action, ruling.rule, ruling.detail, memory_id),
            ),
        )
        if memory_id is None:
            for other in ruling.contradicts:
                self._link(candidate_id, other, "contradicts")
            return
        self.store.execute(
            "INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(ordinal, memory_id, candidate_id, draft.kind, draft.text),
                *(_packed(draft.rejected), _packed(draft.files), scope, _packed(draft.evidence)),
                *(draft.reason, _packed(draft.labels), at, self.now),
            ),
        )
        self.store.execute(
            "INSERT INTO memory_text(rowid, text) VALUES (?, ?)", (ordinal, split_camel(draft.text))
        )
        self.index.add(memory_id, scope, draft.text, at)
        for other in ruling.ends:
            self._end(other, memory_id, at, ruling.rule)
            self._inherit(memory_id, other, draft)
        for other in ruling.refines:
            self._link(memory_id, other, "refines")
        for other in ruling.contradicts:
            self._link(memory_id, other, "contradicts")
        if ruling.ended_by:
            self._end(memory_id, ruling.ended_by, self._valid_from(ruling.ended_by), ruling.rule)

    def _end(self, memory_id: str, superseded_by: str, valid_to: str, rule: str) -> None:
        self.store.execute(
            "INSERT INTO memory_ends VALUES (?, ?, ?, ?, ?, ?)",
            (
                *(next_ordinal(self.store, "memory_ends"), memory_id, valid_to),
                *(self.now, superseded_by, rule),
            ),
        )
        self.index.remove(memory_id)
        self._link(superseded_by, memory_id, "supersedes")

    def _inherit(self, memory_id: str, ended: str, draft: Draft) -> None:
        """A rejection outlives the choice that it was made with, unless the new choice is what was rejected."""
        row = self.store.execute(
            "SELECT rejected FROM memories WHERE memory_id = ?", (ended,)
        ).fetchone()
        chosen = terms(draft.text)
        if any(not terms(option) <= chosen for option in _unpacked(row[0])):
            self._link(memory_id, ended, "inherits_veto")

    def _valid_from(self, memory_id: str) -> str:
        row = self.store.execute(
            "SELECT valid_from FROM memories WHERE memory_id = ?", (memory_id,)
        ).fetchone()
        return str(row[0])

    def _link(self, from_id: str, to_id: str, kind: str) -> None:
        self.store.execute(
            "INSERT OR IGNORE INTO links VALUES (?, ?, ?, ?, ?)",
            (next_ordinal(self.store, "links"), from_id, to_id, kind, self.now),
        )


def _packed(names: tuple[str, ...]) -> str:
    return json.dumps(list(names), ensure_ascii=False)


def _unpacked(packed: str) -> tuple[str, ...]:
    decoder = json.JSONDecoder()
    return tuple(str(name) for name in decoder.decode(packed))
