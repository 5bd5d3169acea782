"""Proves from recorded calls what memory an agent's model was shown. Pure.

The task's prompt tells main calls from side ones (titles, sub-agents); a compaction is a call over the
main conversation that asks for a summary. After an answered compaction the bytes may be gone; before it
they must stand, whole and in exactly one string, in every main call. Signs of other memory decide in those
calls alone: what a side call or a summary says, the model itself has written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from orchestrator.core.canonical import sha256_hex
from orchestrator.gateway.recorded import RecordedCall
from orchestrator.model.proof import (
    CallKind,
    Foreign,
    InjectionProof,
    ProofResult,
    ProvenCall,
    SeenAnswer,
    Slice,
)
from orchestrator.model.toolcalls import ToolLog

# What the memory channels of known agents put around their text, and what our own frame looks like.
SIGNS = (
    "<memory>\n",
    "[mem:",
    "hook success: ",
    "hook additional context: ",
    "# AGENTS.md instructions",
    "CLAUDE.md (project instructions",
    "CLAUDE.md (user's private",
    "MEMORY.md (user's auto-memory",
    "MEMORY_SUMMARY BEGINS",
)
# What agents say of a tool server beside their list of tools.
SERVER_SIGNS = ("# MCP Server Instructions", "- mcp__")
SERVER_PREFIX = "mcp__"
# What an agent's own channel puts before the text that it carries: that is no sign of other memory.
LABELS: dict[str, str] = {
    "session_start_hook": "SessionStart:startup hook success: ",
    "agents_md": "# AGENTS.md instructions\n\n<INSTRUCTIONS>\n",
}
COMPACTION = (
    "create a detailed summary of the conversation",
    "context checkpoint compaction",
    "summarize the conversation so far",
)
FILE_SIGN = "file "
MAX_NOTED = 100
_ROOTS = ("system", "instructions", "messages", "input")


@dataclass(frozen=True, slots=True)
class Expected:
    """What one attempt was to be shown.

    Args:
        trial: the trial's key.
        attempt: its number.
        condition_id: the arm.
        channel: how memory came in.
        text: exactly what memory adds; empty in an arm without memory.
        prompt: the task's own prompt, without memory.
        label: what the arm's channel puts before the text.
        log: what the arm's tool server did; None in an arm without one.
        steering: files of the checkout that steer agents, each with the lines that tell it.
    """

    trial: str
    attempt: int
    condition_id: str
    channel: str
    text: str
    prompt: str
    steering: tuple[tuple[str, tuple[str, ...]], ...] = ()
    label: str = ""
    log: ToolLog | None = None

    @property
    def whole(self) -> str:
        """The text as its channel hands it over; empty in an arm without memory."""
        return f"{self.label}{self.text}" if self.text else ""


def strings(body: dict[str, object]) -> Iterator[tuple[str, str]]:
    """Yields (JSON pointer, string) for every string of a request's conversation, in order."""
    todo: list[tuple[str, object]] = [(f"/{name}", body.get(name)) for name in reversed(_ROOTS)]
    while todo:
        pointer, item = todo.pop()
        if isinstance(item, str):
            yield pointer, item
        elif isinstance(item, dict):
            todo += [(f"{pointer}/{_token(k)}", v) for k, v in reversed(item.items())]
        elif isinstance(item, list):
            todo += [(f"{pointer}/{n}", v) for n, v in reversed(list(enumerate(item)))]


def _token(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def preface(body: dict[str, object]) -> dict[str, object]:
    """Returns what a request says before the model's first own words: no tool output is in it."""
    kept: dict[str, object] = {name: body[name] for name in _ROOTS[:2] if name in body}
    for name in _ROOTS[2:]:
        items = body.get(name)
        if isinstance(items, str):
            kept[name] = items
        elif isinstance(items, list):
            end = next((n for n, item in enumerate(items) if _own(item)), len(items))
            kept[name] = items[:end]
    return kept


def _own(item: object) -> bool:
    if not isinstance(item, dict):
        return False
    kind = str(item.get("type", ""))
    return item.get("role") == "assistant" or kind.endswith(("_call", "_call_output", "reasoning"))


def tools_of(body: dict[str, object]) -> tuple[str, ...]:
    """Returns the names of the tools that a request offers, those of a namespace behind its name."""
    names: list[str] = []
    listed = body.get("tools")
    for tool in listed if isinstance(listed, list) else ():
        if not isinstance(tool, dict):
            continue
        function = tool.get("function")
        inner = function if isinstance(function, dict) else tool
        name = str(inner.get("name") or tool.get("type") or "?")
        within = tool.get("tools") if tool.get("type") == "namespace" else None
        if isinstance(within, list):
            names += [f"{name}.{t.get('name')}" for t in within if isinstance(t, dict)]
        else:
            names.append(name)
    return tuple(names)


class _Course:
    """The calls of an attempt in order: which are main, and whether a compaction lies behind."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt.strip()
        self._tools: tuple[str, ...] | None = None
        self.compacted = False

    def kind(self, call: RecordedCall, tools: tuple[str, ...]) -> CallKind:
        prompted = any(self._prompt in text for _, text in strings(preface(call.body)))
        if self._tools is not None and self._asks_for_summary(call.body, prompted=prompted):
            return "compaction"
        if prompted and (tools or self._tools is None):
            self._tools = tools if self._tools is None else self._tools
            return "main"
        return "main" if self.compacted and tools and tools == self._tools else "side"

    def _asks_for_summary(self, body: dict[str, object], *, prompted: bool) -> bool:
        texts = [text for _, text in strings({k: body.get(k) for k in ("messages", "input")})]
        last = texts[-1].casefold() if texts else ""
        return prompted and any(sign in last for sign in COMPACTION)


def prove(calls: Iterable[RecordedCall], expected: Expected) -> InjectionProof:
    """Returns the finding for the agent's calls of one attempt.

    Args:
        calls: the admitted calls in the order of the record.
        expected: what they were to carry.
    """
    course = _Course(expected.prompt)
    lists: list[tuple[str, ...]] = []
    proven: list[ProvenCall] = []
    foreign: list[Foreign] = []
    noted: list[Foreign] = []
    answers = _Answers(expected.log)
    for call in calls:
        answers.look(call)
        tools = tools_of(call.body)
        if tools not in lists:
            lists.append(tools)
        kind = course.kind(call, tools)
        made = _proven(call, kind, lists.index(tools), expected, compacted=course.compacted)
        proven.append(made)
        decides = kind == "main" and not course.compacted
        (foreign if decides else noted).extend(_foreign(call, made.ordinal, tools, expected))
        if kind == "compaction" and call.exchange.outcome == "answered":
            course.compacted = True
    result, detail = _result(proven, foreign, expected, lists)
    return InjectionProof(
        trial=expected.trial,
        attempt=expected.attempt,
        condition_id=expected.condition_id,
        channel=expected.channel,
        expected_sha256=sha256_hex(expected.text.encode()),
        expected_bytes=len(expected.text.encode()),
        result=result,
        detail=detail,
        tool_lists=tuple(lists),
        calls=tuple(proven),
        foreign=tuple(foreign),
        noted=tuple(noted[:MAX_NOTED]),
        steering=tuple(path for path, _ in expected.steering),
        answers=answers.seen(),
    )


def _proven(
    call: RecordedCall, kind: CallKind, tools: int, expected: Expected, *, compacted: bool
) -> ProvenCall:
    exchange, whole = call.exchange, expected.whole
    found = [
        Slice(
            pointer=pointer,
            offset=string.index(whole) + len(expected.label),
            sha256=sha256_hex(expected.text.encode()),
        )
        for pointer, string in strings(preface(call.body))
        if whole and whole in string
    ]
    return ProvenCall(
        ordinal=exchange.ordinal or 0,
        api=exchange.api or "chat",
        kind=kind,
        compacted=compacted,
        model=exchange.model or "unknown",
        tools=tools,
        request_sha256=exchange.request.sha256,
        slices=tuple(found),
    )


def _foreign(
    call: RecordedCall, ordinal: int, tools: tuple[str, ...], expected: Expected
) -> Iterator[Foreign]:
    """Looks for memory beside what is expected; what the task itself says is no sign."""
    for pointer, string in strings(preface(call.body)):
        rest = string.replace(expected.whole, "", 1) if expected.text else string
        rest = rest.replace(expected.prompt.strip(), "")
        yield from (
            Foreign(ordinal=ordinal, pointer=pointer, sign=sign.strip())
            for sign in (SIGNS if expected.log else (*SIGNS, *SERVER_SIGNS))
            if sign in rest
        )
        yield from (
            Foreign(ordinal=ordinal, pointer=pointer, sign=f"{FILE_SIGN}{path}")
            for path, lines in expected.steering
            if any(line in rest for line in lines)
        )
    declared = _declared(expected.log)
    yield from (
        Foreign(ordinal=ordinal, pointer="/tools", sign=f"tool {name}")
        for name in tools
        if name.startswith(SERVER_PREFIX) and _plain(name, expected.log) not in declared
    )


def _declared(log: ToolLog | None) -> frozenset[str]:
    return frozenset(tool.name for tool in log.tools) if log else frozenset()


def _plain(name: str, log: ToolLog | None) -> str:
    """Returns the server's own name of a tool, without what agents put before it."""
    before = f"{SERVER_PREFIX}{log.server}" if log else name
    return name[len(before) :].lstrip("_.") if name.startswith(before) else name


class _Answers:
    """Looks for the answers of the arm's tools in the calls that follow."""

    def __init__(self, log: ToolLog | None) -> None:
        self._calls = log.calls if log else ()
        self._places: dict[int, tuple[int, str]] = {}

    def look(self, call: RecordedCall) -> None:
        """Looks at the next call."""
        left = [served for served in self._calls if served.seq not in self._places]
        for pointer, string in strings(call.body) if left else ():
            for served in left:
                # An agent may hand an answer on as it is, or inside the text of a JSON object.
                if served.text in string or json.dumps(served.text)[1:-1] in string:
                    self._places.setdefault(served.seq, (call.exchange.ordinal or 0, pointer))

    def seen(self) -> tuple[SeenAnswer, ...]:
        """Returns where each was first seen."""
        nowhere: tuple[None, None] = (None, None)
        found = [(served, self._places.get(served.seq, nowhere)) for served in self._calls]
        return tuple(
            SeenAnswer(seq=served.seq, tool=served.tool, ordinal=place[0], pointer=place[1])
            for served, place in found
        )


def _served(
    main: list[ProvenCall], lists: list[tuple[str, ...]], log: ToolLog
) -> tuple[ProofResult, str]:
    """The finding for an arm of tools: connected before the first call, and all of them in every main one."""
    if not log.connected or not log.listed:
        return "lost", f"the server {log.server}: expected a handshake and a list, found neither"
    declared = _declared(log)
    for call in main:
        missing = declared - {_plain(name, log) for name in lists[call.tools]}
        if missing:
            return "lost", f"call {call.ordinal}: expected all tools, found none of {min(missing)}"
    return "served", f"{len(main)} main calls with all tools; {len(log.calls)} answers"


def _result(
    calls: list[ProvenCall],
    foreign: list[Foreign],
    expected: Expected,
    lists: list[tuple[str, ...]],
) -> tuple[ProofResult, str]:
    main = [call for call in calls if call.kind == "main" and not call.compacted]
    if not calls:
        return "no_call", "the agent never asked a model"
    if not main:
        return "unprompted", f"{len(calls)} calls, none with the task's prompt"
    if foreign:
        first = foreign[0]
        return "foreign", f"call {first.ordinal}, {first.pointer}: {first.sign}"
    if expected.log is not None:
        return _served(main, lists, expected.log)
    return _shown(main, expected.text)


def _shown(main: list[ProvenCall], text: str) -> tuple[ProofResult, str]:
    if not text:
        return "absent", f"{len(main)} main calls without memory"
    for call in main:
        if len(call.slices) != 1:
            said = "cut or missing" if not call.slices else f"{len(call.slices)} times"
            return "lost", f"call {call.ordinal}: expected the bytes once, found them {said}"
    return "shown", f"{len(main)} main calls with all bytes, first at {main[0].slices[0].pointer}"
