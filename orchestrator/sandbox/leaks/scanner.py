"""Searches bytes for the literals of a set in all their forms, in one pass, inside compressed streams too.

Pure. The automaton is the `ahocorasick-rs` library's (Aho and Corasick, 1975). A finding names place,
encoding, offset and the literal's SHA-256; the literal itself never leaves this room.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal as Choice
from urllib.parse import unquote_to_bytes

from ahocorasick_rs import BytesAhoCorasick

from orchestrator.core.canonical import sha256_hex
from orchestrator.sandbox.leaks.forms import BLANKS, Form, forms
from orchestrator.sandbox.leaks.unpack import Budget, Embedded, embedded, encoded_streams

SCANNER_VERSION = 1
CHUNK_BYTES = 8 * 1024 * 1024
OVERLAP_BYTES = 16 * 1024
MAX_DEPTH = 3
PLACE_CONTENT_BYTES = 64 * 1024 * 1024
PLACE_STREAMS = 20_000

REPORTED_IN_A_CHUNK = 32
_QUOTED = re.compile(rb"%[0-9a-f]{2}")

Data = bytes | mmap.mmap
Kind = Choice["hidden", "fact", "reference", "canary", "host_path"]


@dataclass(frozen=True, slots=True)
class Literal:
    """One string that must not be seen. A strong one cannot occur by chance, a weak one hardly."""

    kind: Kind
    data: bytes
    strong: bool

    @property
    def sha256(self) -> str:
        """Digest of the literal's bytes, by which public documents name it."""
        return sha256_hex(self.data)


@dataclass(frozen=True, slots=True)
class Hit:
    """A literal that was found: where, how encoded, at which byte of the place."""

    literal: Literal
    place: str
    encoding: str
    offset: int


@dataclass(frozen=True, slots=True)
class Scan:
    """The findings of a place; `partial` says that the budget ended before the content did."""

    hits: tuple[Hit, ...]
    partial: bool


class Scanner:
    """All forms of a set of literals, ready to search. Safe to share between threads."""

    def __init__(self, literals: Iterable[Literal], *, own: bytes | None = None) -> None:
        """Takes the literals; `own` is the one canary that may be seen although its prefix is searched."""
        self.literals = tuple(dict.fromkeys(literals))
        self._own_literal = own
        self._tables: dict[bool, list[tuple[Literal, Form]]] = {True: [], False: []}
        seen: set[tuple[bytes, bool]] = set()
        for literal in self.literals:
            for form in forms(literal.data):
                if (form.data, form.exact) not in seen:
                    seen.add((form.data, form.exact))
                    self._tables[form.exact].append((literal, form))
        self._automata = {
            exact: BytesAhoCorasick([form.data for _, form in table])
            for exact, table in self._tables.items()
        }

    def owned_by(self, canary: bytes) -> Scanner:
        """Returns the same search for a trial that may show its own canary; the tables are shared."""
        twin = object.__new__(Scanner)
        twin.__dict__.update(self.__dict__)
        twin.__dict__.pop("_own", None)
        twin._own_literal = canary
        return twin

    @cached_property
    def _own(self) -> dict[bool, list[bytes]]:
        made = list(forms(self._own_literal)) if self._own_literal else []
        return {
            exact: sorted((f.data for f in made if f.exact == exact), key=len, reverse=True)
            for exact in (True, False)
        }

    @property
    def size(self) -> int:
        """How many forms are searched."""
        return sum(len(table) for table in self._tables.values())

    def scan(
        self,
        data: Data,
        place: str,
        *,
        content_bytes: int = PLACE_CONTENT_BYTES,
        every: bool = False,
    ) -> Scan:
        """Searches one place.

        Args:
            data: the bytes of the place.
            place: its name in findings.
            content_bytes: how much compressed content may be unpacked.
            every: report all places of a literal, not only the first.
        """
        budget = Budget(content_bytes, PLACE_STREAMS)
        found: dict[object, Hit] = {}
        for found_hit in self._search(data, budget, 0):
            hit = replace(found_hit, place=place)
            found.setdefault(hit if every else hit.literal, hit)
        return Scan(tuple(found.values()), budget.exhausted)

    def _search(self, data: Data, budget: Budget, depth: int) -> Iterator[Hit]:
        for start in range(0, max(1, len(data)), CHUNK_BYTES):
            chunk = bytes(data[start : start + CHUNK_BYTES + OVERLAP_BYTES])
            yield from self._search_chunk(chunk, start)
            if depth < MAX_DEPTH:
                streams = encoded_streams(chunk, budget)
                yield from self._inside(streams, budget, depth, start, squeezed_in=chunk)
        if depth < MAX_DEPTH:
            yield from self._inside(embedded(data, budget), budget, depth, 0)

    def _inside(
        self,
        streams: Iterator[Embedded],
        budget: Budget,
        depth: int,
        start: int,
        *,
        squeezed_in: bytes | None = None,
    ) -> Iterator[Hit]:
        for stream in streams:
            at = stream.offset
            for hit in self._search(stream.content, budget, depth + 1):
                name = f"{stream.kind}({hit.encoding})"
                place = at if squeezed_in is None else raw_offset(squeezed_in, at)
                yield replace(hit, encoding=name, offset=start + place)

    def _search_chunk(self, chunk: bytes, start: int) -> Iterator[Hit]:
        squeezed = chunk.translate(None, BLANKS)
        lowered = squeezed.lower()
        for exact, view in ((True, squeezed), (False, lowered)):
            for form, at in self._matches(exact, view):
                yield Hit(form[0], "", form[1].encoding, start + raw_offset(chunk, at))
        # What a URL quotes and what it leaves is each tool's own choice, so quotes are undone as well.
        unquoted = unquote_to_bytes(lowered) if _QUOTED.search(lowered) else lowered
        if len(unquoted) < len(lowered):
            for form, at in self._matches(False, unquoted.translate(None, BLANKS).lower()):
                # Quotes before it have moved it: the offset is a lower bound.
                yield Hit(form[0], "", f"url({form[1].encoding})", start + raw_offset(chunk, at))

    def _matches(self, exact: bool, view: bytes) -> Iterator[tuple[tuple[Literal, Form], int]]:
        matches = self._automata[exact].find_matches_as_indexes(view, overlapping=True)
        if self._own_literal and any(self._is_canary(exact, number) for number, _, _ in matches):
            view = _mask(view, self._own[exact])
            matches = self._automata[exact].find_matches_as_indexes(view, overlapping=True)
        reported: dict[Literal, int] = {}
        for number, at, _ in matches:
            literal, form = self._tables[exact][number]
            reported[literal] = reported.get(literal, 0) + 1
            if reported[literal] <= REPORTED_IN_A_CHUNK:
                yield (literal, form), at

    def _is_canary(self, exact: bool, number: int) -> bool:
        return self._tables[exact][number][0].kind == "canary"


def _mask(view: bytes, patterns: list[bytes]) -> bytes:
    for pattern in patterns:
        view = view.replace(pattern, b"\1" * len(pattern))
    return view


def raw_offset(data: bytes, squeezed_offset: int) -> int:
    """Returns where the byte at an offset of the squeezed bytes stands in the bytes themselves."""
    low, high = squeezed_offset, len(data)
    # The first position whose prefix holds more than `squeezed_offset` bytes that are no white space.
    while low < high:
        middle = (low + high) // 2
        if len(data[: middle + 1].translate(None, BLANKS)) > squeezed_offset:
            high = middle
        else:
            low = middle + 1
    return low
