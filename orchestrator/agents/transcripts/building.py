"""Collects events into a transcript under bounds: number of events, length of texts, number of paths.

What an agent prints is hostile input: anything may be missing, of another type, or megabytes long. Pure.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json
from orchestrator.model.transcript import EventKind, Transcript, TranscriptEvent, TranscriptFormat

MAX_EVENTS = 5_000
MAX_TEXT_CHARS = 4_000
MAX_LINE_BYTES = 4 * 1024 * 1024
MAX_PATHS = 50
MAX_PATH_CHARS = 1_000
MAX_EXIT_CODE = 2**31 - 1
# From the beginning of a run of such characters, and possessive, so that no text makes it go back.
_PATH = re.compile(r"(?<![\w@.+-])[\w@.+-]*+(?:/[\w@.+-]++)++|(?<![\w@+-])[\w@+-]++\.[A-Za-z]{1,5}")
_WRITERS = re.compile(r"(?:^|\s)\d?>>?\s*([^\s&|;<>]+)")
_PATCHED = re.compile(r"^(?:\+\+\+ b/|\*\*\* (?:Update|Add|Delete) File: )(\S+)", re.MULTILINE)
# Few enough that int() takes them, and no others than int() takes.
_DIGITS = re.compile(r"-?[0-9]{1,10}")
_CHANGERS = frozenset({"tee", "sed", "rm", "mv", "cp", "touch", "patch", "truncate"})


def as_object(value: object) -> dict[str, object]:
    """Returns a JSON object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Returns a JSON array, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Returns a string, or the empty one for anything else."""
    return value if isinstance(value, str) else ""


def as_exit_code(value: object) -> int | None:
    """Returns an exit code, given as a number or in digits; None for anything else, also for one that no program has."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) <= MAX_EXIT_CODE else None


def json_lines(output: bytes) -> tuple[list[dict[str, object]], int]:
    """Returns the JSON objects among the lines of an output, and how many other lines there are."""
    found: list[dict[str, object]] = []
    broken = 0
    for line in output.split(b"\n"):
        if not line.strip():
            continue
        value: object = None
        if line.lstrip().startswith(b"{") and len(line) <= MAX_LINE_BYTES:
            try:
                value = parse_json(line, where="event", max_bytes=MAX_LINE_BYTES)
            except DocumentError:
                value = None
        if isinstance(value, dict):
            found.append(value)
        else:
            broken += 1
    return found, broken


@dataclass(slots=True)
class Collected:
    """Events so far."""

    events: list[TranscriptEvent] = field(default_factory=list)
    cut: bool = False
    turn: int = 0

    def add(
        self,
        kind: EventKind,
        text: str = "",
        *,
        name: str | None = None,
        call_id: str | None = None,
        failed: bool | None = None,
        exit_code: int | None = None,
        read: tuple[str, ...] = (),
        written: tuple[str, ...] = (),
    ) -> None:
        """Adds an event, its text cut to the bound."""
        if len(self.events) >= MAX_EVENTS:
            self.cut = True
            return
        plain = text.encode("utf-8", "replace").decode()
        self.events.append(
            TranscriptEvent(
                seq=len(self.events),
                kind=kind,
                turn=self.turn,
                name=name[:200] if name else None,
                call_id=call_id[:200] if call_id else None,
                text=plain[:MAX_TEXT_CHARS],
                text_cut=len(plain) > MAX_TEXT_CHARS,
                failed=failed,
                exit_code=exit_code,
                paths_read=_bounded(read),
                paths_written=_bounded(written),
            )
        )

    def transcript(
        self,
        agent: str,
        form: TranscriptFormat,
        *,
        broken: int,
        exit_code: int | None,
        version: str | None = None,
        model: str | None = None,
        stop_reason: str | None = None,
    ) -> Transcript:
        """Returns the transcript of what was collected, without usage; `broken` lines were no events."""
        return Transcript(
            agent=agent,
            format=form,
            version=version,
            model=model,
            events=tuple(self.events),
            events_cut=self.cut,
            broken=broken,
            turns=self.turn,
            stop_reason=stop_reason,
            exit_code=exit_code,
            usage=None,
        )


def paths_of_command(command: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns (paths that a shell command names, paths that it seems to write).

    A guess from the text of the command: redirections, patches on standard input and the usual programs
    that change files count as writing. Of the part before a patch no more is read than a transcript keeps.
    """
    written = [*_WRITERS.findall(command), *_PATCHED.findall(command)]
    first = command.partition("<<")[0][:MAX_TEXT_CHARS]
    named = _PATH.findall(first)
    words = words_of(first) or first.split()
    if _CHANGERS.intersection(words):
        written += named
    return _unique(named), _unique(written)


def _bounded(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in paths[:MAX_PATHS] if len(path) <= MAX_PATH_CHARS)


def words_of(command: str) -> list[str]:
    """Returns the words of a shell command; none where it is unclosed, or longer than a transcript keeps.

    `shlex` adds one character at a time to a growing text, so its work grows with the square of the length.
    """
    if len(command) > MAX_TEXT_CHARS:
        return []
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _unique(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.removeprefix("/work/").removeprefix("./") for name in names))
