"""Proves from recorded calls what memory an agent's model was shown. Pure.

The task's prompt tells main calls from side ones (titles, sub-agents); a compaction is a call over the
main conversation that asks for a summary. After an answered compaction the bytes may be gone; before it
they must stand, whole and in exactly one string, in every main call. Signs of other memory decide in those
calls alone: what a side call or a summary says, the model itself has written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.gateway.conversation import preface, strings, tools_of
from orchestrator.gateway.heard import Answers
from orchestrator.gateway.recorded import RecordedCall
from orchestrator.gateway.steered import Steering
from orchestrator.model.proof import (
    CONNECTED,
    MAX_CALLS_TOLD,
    MAX_LISTS,
    MAX_NAMES,
    MAX_SIGNS,
    MAX_SLICES,
    MAX_STEERING,
    UNSAID,
    Blame,
    CallKind,
    Foreign,
    InjectionProof,
    ProofResult,
    ProvenCall,
    Rest,
    Slice,
    short,
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
T = TypeVar("T", ProvenCall, Foreign, str)
Before = tuple[tuple[str, str], ...]
"""The strings of a request before the model's first words, each with its place."""


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
        stated: what the client itself said of the arm's server before its first call; None where it says nothing
            of servers.
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
    stated: str | None = None

    @property
    def whole(self) -> str:
        """The text as its channel hands it over; empty in an arm without memory."""
        return f"{self.label}{self.text}" if self.text else ""


class _Course:
    """The calls of an attempt in order: which are main, and whether a compaction lies behind."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt.strip()
        self._tools: tuple[str, ...] | None = None
        self.compacted = False

    def kind(self, call: RecordedCall, before: Before, tools: tuple[str, ...]) -> CallKind:
        prompted = any(self._prompt in text for _, text in before)
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


class _Finding(NamedTuple):
    """What an attempt came to, in a word and in words, and by whose evidence."""

    result: ProofResult
    detail: str
    blame: Blame | None = None


@dataclass(slots=True)
class _Signs:
    """Signs of memory beside what is expected: in general, and of the checkout's own files."""

    foreign: list[Foreign] = field(default_factory=list)
    files: list[Foreign] = field(default_factory=list)


@dataclass(slots=True)
class _Seen:
    """What was seen in the calls so far. Tool lists are numbered as they come; only deciding signs decide."""

    answers: Answers
    steering: Steering
    lists: dict[tuple[str, ...], int] = field(default_factory=dict)
    proven: list[ProvenCall] = field(default_factory=list)
    deciding: _Signs = field(default_factory=_Signs)
    noted: _Signs = field(default_factory=_Signs)


def prove(calls: Iterable[RecordedCall], expected: Expected) -> InjectionProof:
    """Returns the finding for the agent's calls of one attempt.

    Args:
        calls: the admitted calls in the order of the record.
        expected: what they were to carry.
    """
    course = _Course(expected.prompt)
    seen = _Seen(Answers(expected.log), Steering(expected.steering))
    for call in calls:
        seen.answers.look(call)
        tools, before = tools_of(call.body), tuple(strings(preface(call.body)))
        place = seen.lists.setdefault(tools, len(seen.lists))
        kind = course.kind(call, before, tools)
        made = _proven(call, kind, before, place, expected, compacted=course.compacted)
        seen.proven.append(made)
        decides = kind == "main" and not course.compacted
        signs = seen.deciding if decides else seen.noted
        beside = _beside(before, expected)
        signs.foreign += _foreign(beside, made.ordinal, tools, expected)
        signs.files += _files(beside, made.ordinal, seen.steering)
        if kind == "compaction" and call.exchange.outcome == "answered":
            course.compacted = True
    return _told(expected, seen)


def _told(expected: Expected, seen: _Seen) -> InjectionProof:
    """Returns the document, each list within its bound."""
    lists = tuple(seen.lists)
    found = _finding(seen.proven, seen.deciding, expected, lists)
    calls, more_calls = _bounded(seen.proven, MAX_CALLS_TOLD)
    foreign, more_foreign = _bounded(seen.deciding.foreign, MAX_SIGNS)
    files, more_files = _bounded(seen.deciding.files, MAX_SIGNS)
    noted_signs, more_noted = _bounded(seen.noted.foreign, MAX_SIGNS)
    noted_files, more_noted_files = _bounded(seen.noted.files, MAX_SIGNS)
    steering, more_steering = _bounded([short(path) for path, _ in expected.steering], MAX_STEERING)
    return InjectionProof(
        trial=expected.trial,
        attempt=expected.attempt,
        condition_id=expected.condition_id,
        channel=expected.channel,
        expected_sha256=sha256_hex(expected.text.encode()),
        expected_bytes=len(expected.text.encode()),
        result=found.result,
        detail=found.detail,
        blame=found.blame,
        stated=expected.stated,
        tool_lists=tuple(_cut(names) for names in lists[:MAX_LISTS]),
        more_tool_lists=Rest.of(lists[MAX_LISTS:]),
        calls=calls,
        more_calls=more_calls,
        foreign=foreign,
        more_foreign=more_foreign,
        noted=noted_signs,
        more_noted=more_noted,
        files=files,
        more_files=more_files,
        noted_files=noted_files,
        more_noted_files=more_noted_files,
        steering=steering,
        more_steering=more_steering,
        answers=seen.answers.seen(),
    )


def _bounded(items: Sequence[T], most: int) -> tuple[tuple[T, ...], Rest | None]:
    return tuple(items[:most]), Rest.of(items[most:])


def _cut(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) <= MAX_NAMES:
        return names
    left_out = list(names[MAX_NAMES:])
    return (*names[:MAX_NAMES], f"and {len(left_out)} more, sha256 {digest_sha256(left_out)}")


def _proven(
    call: RecordedCall,
    kind: CallKind,
    before: Before,
    tools: int,
    expected: Expected,
    *,
    compacted: bool,
) -> ProvenCall:
    exchange, whole = call.exchange, expected.whole
    found = [
        Slice(
            pointer=pointer,
            offset=string.index(whole) + len(expected.label),
            sha256=sha256_hex(expected.text.encode()),
        )
        for pointer, string in before
        if whole and whole in string
    ]
    return ProvenCall(
        ordinal=exchange.ordinal or 0,
        api=exchange.api or "chat",
        kind=kind,
        compacted=compacted,
        model=short(exchange.model or "unknown"),
        tools=tools,
        request_sha256=exchange.request.sha256,
        slices=tuple(found[:MAX_SLICES]),
        more_slices=len(found[MAX_SLICES:]),
    )


def _beside(before: Before, expected: Expected) -> Before:
    """Returns the strings without what is expected; what the task itself says is no sign."""
    whole, prompt = expected.whole, expected.prompt.strip()
    return tuple(
        (pointer, (string.replace(whole, "", 1) if whole else string).replace(prompt, ""))
        for pointer, string in before
    )


def _foreign(
    beside: Before, ordinal: int, tools: tuple[str, ...], expected: Expected
) -> Iterator[Foreign]:
    """Looks for memory beside what is expected."""
    for pointer, rest in beside:
        yield from (
            Foreign(ordinal=ordinal, pointer=pointer, sign=sign.strip())
            for sign in (SIGNS if expected.log else (*SIGNS, *SERVER_SIGNS))
            if sign in rest
        )
    declared = _declared(expected.log)
    yield from (
        Foreign(ordinal=ordinal, pointer="/tools", sign=f"tool {name}")
        for name in tools
        if name.startswith(SERVER_PREFIX) and _plain(name, expected.log) not in declared
    )


def _files(beside: Before, ordinal: int, steering: Steering) -> Iterator[Foreign]:
    """Looks for lines of the checkout's files that steer agents."""
    for pointer, rest in beside if steering else ():
        yield from (
            Foreign(ordinal=ordinal, pointer=pointer, sign=f"{FILE_SIGN}{short(path)}")
            for path in steering.in_text(rest)
        )


def _declared(log: ToolLog | None) -> frozenset[str]:
    return frozenset(tool.name for tool in log.tools) if log else frozenset()


def _plain(name: str, log: ToolLog | None) -> str:
    """Returns the server's own name of a tool, without what agents put before it."""
    before = f"{SERVER_PREFIX}{log.server}" if log else name
    return name[len(before) :].lstrip("_.") if name.startswith(before) else name


def _blame(log: ToolLog, otherwise: Blame) -> Blame:
    """Whose evidence there is: a memory system that broke while it served, or a fault of the harness's own door."""
    if log.failure is not None:
        return "arm"
    return "harness" if log.door is not None else otherwise


def _unreached(expected: Expected, *, called: bool) -> _Finding | None:
    """An arm of tools whose client never reached the server, by its own word or by the server's."""
    log, stated = expected.log, expected.stated
    if log is None:
        return None
    if stated not in {None, CONNECTED} and (called or stated != UNSAID):
        told = f"the server {log.server}: expected the client to state {CONNECTED}, found {stated}"
        return _Finding("unconnected", told, _blame(log, "harness"))
    if (not log.connected or not log.listed) and (called or log.door is not None):
        told = f"the server {log.server}: expected a handshake and a list, found neither"
        return _Finding("lost", told, _blame(log, "harness"))
    return None


def _served(main: list[ProvenCall], lists: tuple[tuple[str, ...], ...], log: ToolLog) -> _Finding:
    """The finding for a server that was reached: all of its tools stand in every main call.

    What stood in the first was given to the agent; if a later one lacks it, it went without the harness's doing
    unless there is evidence of that.
    """
    declared = _declared(log)
    missing: dict[int, frozenset[str]] = {}
    for call in main:
        if call.tools not in missing:
            offered = {_plain(name, log) for name in lists[call.tools]}
            missing[call.tools] = declared - offered
        if missing[call.tools]:
            name = min(missing[call.tools])
            told = f"call {call.ordinal}: expected all tools, found none of {name}"
            if call is main[0]:
                return _Finding("lost", told, _blame(log, "harness"))
            return _Finding("dropped", told, _blame(log, "agent"))
    return _Finding("served", f"{len(main)} main calls with all tools; {len(log.calls)} answers")


def _finding(
    calls: list[ProvenCall], signs: _Signs, expected: Expected, lists: tuple[tuple[str, ...], ...]
) -> _Finding:
    main = [call for call in calls if call.kind == "main" and not call.compacted]
    if not calls:
        unreached = _unreached(expected, called=False)
        return unreached or _Finding("no_call", "the agent never asked a model")
    if not main:
        return _Finding("unprompted", f"{len(calls)} calls, none with the task's prompt")
    if signs.foreign or signs.files:
        return _Finding("foreign", (signs.foreign or signs.files)[0].told)
    unreached = _unreached(expected, called=True)
    if unreached is not None:
        return unreached
    if expected.log is not None:
        return _served(main, lists, expected.log)
    return _shown(main, expected.text)


def _shown(main: list[ProvenCall], text: str) -> _Finding:
    if not text:
        return _Finding("absent", f"{len(main)} main calls without memory")
    for call in main:
        if len(call.slices) != 1:
            times = len(call.slices) + call.more_slices
            said = f"{times} times" if times else "cut or missing"
            told = f"call {call.ordinal}: expected the bytes once, found them {said}"
            return _Finding("lost", told)
    first = main[0].slices[0].pointer
    return _Finding("shown", f"{len(main)} main calls with all bytes, first at {first}")
