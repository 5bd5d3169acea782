"""Full-text search over captured events: BM25 of SQLite FTS5, ties broken by age.

The query is plain words: every term is quoted, so no text can be taken for search syntax.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass

from orchestrator.memory.stopwords import STOP_WORDS

MAX_TERMS = 64
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class Hit:
    """A captured event in rank order."""

    event_id: str
    at: str
    role: str
    text: str


def split_camel(text: str) -> str:
    """Puts spaces into camelCase; the index and the query are cut by this one rule, so they meet."""
    return _CAMEL.sub(" ", text)


def query_terms(prompt: str) -> list[str]:
    """Returns the distinct content words of a prompt in order; identifiers are cut into their words."""
    words = [word.lower() for word in _WORD.findall(split_camel(prompt))]
    return [w for w in dict.fromkeys(words) if len(w) > 1 and w not in STOP_WORDS][:MAX_TERMS]


def sqlite_version() -> str:
    """Returns the version of the SQLite library that ranks; its FTS decides what is found."""
    return sqlite3.sqlite_version


def search(store: sqlite3.Connection, prompt: str, k: int, *, scope: str) -> list[Hit]:
    """Returns the best k events of a scope for a prompt."""
    terms = query_terms(prompt)
    if not terms:
        return []
    rows = store.execute(
        "SELECT c.event_id, c.at, c.role, c.text FROM captured_text f JOIN captured_events c ON c.ordinal = f.rowid "
        "JOIN raw_events r ON r.ordinal = f.rowid "
        "WHERE captured_text MATCH ? AND r.scope = ? ORDER BY bm25(captured_text), c.ordinal LIMIT ?",
        (" OR ".join(f'"{term}"' for term in terms), scope, k),
    ).fetchall()
    return [Hit(*row) for row in rows]
