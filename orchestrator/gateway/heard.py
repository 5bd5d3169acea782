"""Where the answers of an arm's memory tools came before the model: in which call, and in which string. Pure.

An answer is looked for in the outputs of tools alone, whole, and as agents hand it on: as it is, behind words of
their own, or inside the text of JSON, however that is escaped. An output accounts for one answer, the longest that
it holds, and of equal answers the n-th output is the n-th. One pass over the record: the work grows with its bytes.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from orchestrator.core.canonical import sha256_hex
from orchestrator.gateway.conversation import ToolOutput, outputs_of
from orchestrator.gateway.recorded import RecordedCall
from orchestrator.model.proof import SeenAnswer, short
from orchestrator.model.toolcalls import ToolLog

MAX_NESTING = 3
"""How often an agent may have put JSON into the text of JSON."""
MAX_WAYS = 8
"""How many first lines, and how many ends after equal lines, are told apart: honest answers have two, and one."""
MAX_STEPS = 20_000_000
"""How many lines are compared for one attempt at most; what is found later is not found."""
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


@dataclass(slots=True)
class _Node:
    """Answers that begin with the same lines: by their next whole line, and those of which only an end is left.

    `whole` is an answer of one line, and that line.
    """

    below: dict[str, _Node] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    whole: str | None = None


class Answers:
    """Looks for the answers of an attempt, call by call."""

    def __init__(self, log: ToolLog | None) -> None:
        """Takes what the arm's tool server answered; None in an arm without one."""
        self._calls = log.calls if log else ()
        self._waiting: dict[str, deque[int]] = {}
        self._first: dict[str, _Node] = {}
        for served in self._calls:
            self._waiting.setdefault(served.text, deque()).append(served.seq)
        for text in self._waiting:
            self._plant(text)
        self._left = len(self._calls)
        self._steps = MAX_STEPS
        self._known: set[tuple[str, str, int]] = set()
        self._places: dict[int, tuple[int, str]] = {}

    def _plant(self, text: str) -> None:
        first, *lines = text.split("\n")
        if first not in self._first and len(self._first) >= MAX_WAYS:
            return
        node = self._first.setdefault(first, _Node())
        if not lines:
            node.whole = text
            return
        for line in lines[:-1]:
            node = node.below.setdefault(line, _Node())
        if len(node.ends) < MAX_WAYS:
            node.ends[lines[-1]] = text

    def look(self, call: RecordedCall) -> None:
        """Looks at the next call."""
        again: Counter[tuple[str, str]] = Counter()
        for output in outputs_of(call.body) if self._left else ():
            said = "\0".join(text for _, text in output.strings)
            # Each request tells the whole conversation again.
            name = (output.call_id, sha256_hex(said.encode("utf-8", "surrogatepass")))
            again[name] += 1
            if (*name, again[name]) in self._known:
                continue
            self._known.add((*name, again[name]))
            self._take(output, call.exchange.ordinal or 0)

    def _take(self, output: ToolOutput, ordinal: int) -> None:
        found = [(text, pointer) for pointer, said in output.strings for text in self._held(said)]
        text, pointer = max(found, key=lambda item: len(item[0]), default=("", ""))
        if found and self._waiting[text]:
            self._places[self._waiting[text].popleft()] = (ordinal, short(pointer))
            self._left -= 1

    def _held(self, said: str) -> Iterator[str]:
        """Yields the answers in a string, at whatever depth of JSON."""
        for _ in range(MAX_NESTING + 1):
            yield from self._among(said.split("\n"))
            if "\\" not in said:
                return
            said = _unescaped(said)

    def _among(self, lines: list[str]) -> Iterator[str]:
        for start, line in enumerate(lines):
            for first, node in self._first.items():
                if self._steps <= 0:
                    return
                self._steps -= 1
                if line.endswith(first):
                    yield from self._from(lines, start + 1, node)
                if node.whole is not None and first in line:
                    yield first

    def _from(self, lines: list[str], place: int, node: _Node) -> Iterator[str]:
        for at in range(place, len(lines)):
            line = lines[at]
            self._steps -= 1
            yield from (text for end, text in node.ends.items() if line.startswith(end))
            below = node.below.get(line)
            if below is None or self._steps <= 0:
                return
            node = below

    def seen(self) -> tuple[SeenAnswer, ...]:
        """Returns where each was first seen."""
        nowhere: tuple[None, None] = (None, None)
        found = [(served, self._places.get(served.seq, nowhere)) for served in self._calls]
        return tuple(
            SeenAnswer(seq=served.seq, tool=served.tool, ordinal=place[0], pointer=place[1])
            for served, place in found
        )


def _unescaped(text: str) -> str:
    """Returns a text without one layer of JSON's escapes, whatever a serialiser chose to escape."""
    plain = _ESCAPE.sub(_letter, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _letter(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _PLAIN.get(code, code)
