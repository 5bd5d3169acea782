"""Search over a frozen store: full text, vectors, files and a second hop, fused by rank; all ranks are kept.

Fusion is Reciprocal Rank Fusion (Cormack, Clarke, Buettcher 2009) with k = 60. Only active memories of the
query's scope compete; a memory that another one refines brings the newer one with it.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from orchestrator.memory.reference.text import MAX_READ_CHARS, files, sentences
from orchestrator.memory.reference.vectors import Embedder
from orchestrator.memory.sqlite.search import query_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RRF_K: Final = 60
FETCH: Final = 50
# Words of a query are taken from the rarest on, until so many places in the index would have to be read.
MAX_POSTINGS: Final = 5_000
MIN_TERMS: Final = 1
MAX_HOP_POSTINGS: Final = 1_000
# In a store of more rows than this a prompt is one vector; in a smaller one each of its sentences is one too.
MAX_ROWS_FOR_PARTS: Final = 20_000
HOP_SOURCES: Final = 3
HOP_TERMS: Final = 12
MAX_QUERY_PARTS: Final = 6
WEIGHTS: Final[Mapping[str, float]] = {"fts": 1.0, "vector": 1.0, "files": 0.5, "hop": 0.5}
_COSINE_DIGITS: Final = 4
_SCRATCH: Final = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.query_words USING fts5(word, content='', tokenize='porter unicode61');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.query_stems USING fts5vocab(temp, query_words, instance);
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A memory in rank order: its row, its fused score, its place in each channel."""

    ordinal: int
    score: float
    channels: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Searcher:
    """Search over a store that no longer changes; holds the active rows of one scope and their vectors."""

    store: sqlite3.Connection
    scope: str
    embedder: Embedder | None
    channels: tuple[str, ...] = ("fts", "vector", "files", "hop")
    _ordinals: list[int] = field(default_factory=list)
    _active: set[int] = field(default_factory=set)
    _others: int = 0
    _documents: dict[str, int] = field(default_factory=dict)
    _files: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    _matrix: NDArray[np.float32] | None = None
    _refiners: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        """Reads what a search needs from the store, and makes a scratch index beside it for words of queries."""
        self.store.executescript(_SCRATCH)
        rows = self.store.execute(
            "SELECT m.ordinal, m.files, v.vector FROM memories m LEFT JOIN vectors v USING (memory_id) "
            "WHERE m.scope = ? AND m.memory_id NOT IN (SELECT memory_id FROM memory_ends) ORDER BY m.ordinal",
            (self.scope,),
        )
        vectors: list[bytes | None] = []
        for ordinal, named, vector in rows:
            self._ordinals.append(ordinal)
            vectors.append(vector)
            for path in files(named):
                self._files[path].add(ordinal)
        self._active = set(self._ordinals)
        total = self.store.execute("SELECT count(*) FROM memories").fetchone()[0]
        self._others = int(total) - len(self._ordinals)
        self._documents = dict(self.store.execute("SELECT term, doc FROM memory_terms"))
        if self.embedder and self._ordinals and all(v is not None for v in vectors):
            import numpy as np

            joined = b"".join(v for v in vectors if v is not None)
            self._matrix = np.frombuffer(joined, dtype="<f4").reshape(len(vectors), -1)
        for newer, older in self.store.execute(
            "SELECT a.ordinal, b.ordinal FROM links l JOIN memories a ON a.memory_id = l.from_id "
            "JOIN memories b ON b.memory_id = l.to_id WHERE l.kind = 'refines' ORDER BY a.ordinal DESC"
        ):
            if newer in self._active and older in self._active:
                self._refiners[older].append(newer)

    @property
    def considered(self) -> int:
        """How many memories compete."""
        return len(self._ordinals)

    @property
    def has_vectors(self) -> bool:
        """Whether the vector channel answers."""
        return self._matrix is not None

    def search(
        self, prompt: str, k: int, files_in_scope: tuple[str, ...] | None = None
    ) -> list[Found]:
        """Returns the best k memories for a prompt.

        Args:
            prompt: the task's prompt.
            k: how many at most.
            files_in_scope: granted files; without them the files that the prompt itself names are used.
        """
        depth = max(FETCH, 2 * k)
        named = files_in_scope if files_in_scope is not None else files(prompt)
        steps: dict[str, Callable[[], list[int]]] = {
            "fts": lambda: self.full_text(query_terms(prompt[:MAX_READ_CHARS]), depth),
            "vector": lambda: self.nearest(prompt, depth),
            "files": lambda: self._by_files(named, depth),
        }
        ranked = {name: steps[name]() for name in steps if name in self.channels}
        if "hop" in self.channels:
            ranked["hop"] = self._hop(prompt, fuse(ranked), depth)
        return self._with_refiners(fuse(ranked), k)

    def full_text(self, words: list[str], depth: int, postings: int = MAX_POSTINGS) -> list[int]:
        """Returns rows by BM25 over the rarest of the words."""
        chosen = self._affordable(words, postings)
        if not chosen:
            return []
        # What has ended or is of another scope stands in the index too: so many more are read.
        rows = self.store.execute(
            "SELECT rowid, rank FROM memory_text WHERE memory_text MATCH ? ORDER BY rank LIMIT ?",
            (" OR ".join(f'"{word}"' for word in chosen), depth + self._others),
        ).fetchall()
        found = [row for row, _ in sorted(rows, key=lambda r: (r[1], r[0])) if row in self._active]
        return found[:depth]

    def nearest(self, prompt: str, depth: int) -> list[int]:
        """Returns rows by the best cosine with the prompt or one of its sentences."""
        if self._matrix is None or self.embedder is None:
            return []
        import numpy as np

        parts = dict.fromkeys([prompt[:MAX_READ_CHARS]])
        if len(self._ordinals) <= MAX_ROWS_FOR_PARTS:
            parts |= dict.fromkeys(sentences(prompt)[: MAX_QUERY_PARTS - 1])
        query = np.stack([np.frombuffer(self.embedder.embed(part), dtype="<f4") for part in parts])
        cosines = np.round((self._matrix @ query.T).max(axis=1), _COSINE_DIGITS)
        take = min(depth, len(cosines))
        best: Any = np.argpartition(-cosines, take - 1)[:take]
        # Ties at the cut are taken by row, so that the answer does not depend on how the parts were split.
        bar = cosines[best].min()
        best = np.flatnonzero(cosines >= bar)
        order = sorted(best.tolist(), key=lambda i: (-float(cosines[i]), i))[:take]
        return [self._ordinals[i] for i in order]

    def _affordable(self, words: list[str], postings: int) -> list[str]:
        counts = self._frequencies(words)
        costs = sorted((counts[word], place, word) for place, word in enumerate(words))
        chosen: list[str] = []
        total = 0
        for cost, _, word in costs:
            total += cost
            if cost and (len(chosen) < MIN_TERMS or total <= postings):
                chosen.append(word)
        return chosen

    def _frequencies(self, words: list[str]) -> dict[str, int]:
        """Returns in how many memories each word stands, stemmed by the index's own stemmer."""
        self.store.execute("INSERT INTO query_words(query_words) VALUES ('delete-all')")
        self.store.executemany(
            "INSERT INTO query_words(rowid, word) VALUES (?, ?)", list(enumerate(words, 1))
        )
        stems = self.store.execute("SELECT doc, term FROM query_stems ORDER BY doc").fetchall()
        counts = dict.fromkeys(words, 0)
        for place, term in stems:
            counts[words[place - 1]] = self._documents.get(term, 0)
        return counts

    def _by_files(self, named: Iterable[str], depth: int) -> list[int]:
        counts: dict[int, int] = defaultdict(int)
        for path in set(named):
            for ordinal in self._files.get(path, ()):
                if ordinal in self._active:
                    counts[ordinal] += 1
        return sorted(counts, key=lambda o: (-counts[o], o))[:depth]

    def _hop(self, prompt: str, found: list[Found], depth: int) -> list[int]:
        """Searches with words that the best answers have and the question has not."""
        asked = set(query_terms(prompt[:MAX_READ_CHARS]))
        words: dict[str, None] = {}
        for item in found[:HOP_SOURCES]:
            text = self.store.execute(
                "SELECT text FROM memories WHERE ordinal = ?", (item.ordinal,)
            ).fetchone()[0]
            words |= dict.fromkeys(w for w in query_terms(text) if w not in asked)
        counts = self._frequencies(list(words))
        costs = sorted((counts[w], i, w) for i, w in enumerate(words))
        shared = [w for n, _, w in costs if n > 1][:HOP_TERMS]
        return self.full_text(shared, depth, MAX_HOP_POSTINGS)

    def _with_refiners(self, found: list[Found], k: int) -> list[Found]:
        placed: dict[int, Found] = {}
        by_row = {item.ordinal: item for item in found}
        for item in found:
            placed.setdefault(item.ordinal, item)
            for newer in self._refiners.get(item.ordinal, ()):
                known = by_row.get(newer, Found(newer, item.score, (("link", 1),)))
                placed.setdefault(newer, known)
        return list(placed.values())[:k]


def fuse(ranked: Mapping[str, list[int]]) -> list[Found]:
    """Fuses ranked lists; a tie goes to the older row."""
    scores: dict[int, float] = defaultdict(float)
    places: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for channel in sorted(ranked):
        for place, ordinal in enumerate(ranked[channel], 1):
            scores[ordinal] += WEIGHTS.get(channel, 1.0) / (RRF_K + place)
            places[ordinal].append((channel, place))
    order = sorted(scores, key=lambda o: (-round(scores[o], 12), o))
    return [Found(o, scores[o], tuple(places[o])) for o in order]
