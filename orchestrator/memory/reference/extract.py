"""The offline extractor: a heuristic baseline over general cues of working conversations. Deterministic.

A session is cut into threads (one topic each); of a thread the sentences that carry a cue or a value are
kept, with the question that they answer. It reads captured events and never summaries, prompts or keys.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from orchestrator.memory.reference.cues import cues_of, is_order, is_problem, is_question
from orchestrator.memory.reference.drafts import (
    CONTESTED,
    PARTIAL,
    TENTATIVE,
    Draft,
    Extraction,
    Utterance,
)
from orchestrator.memory.reference.injection import INSTRUCTION_LIKE
from orchestrator.memory.reference.text import (
    MAX_READ_CHARS,
    files,
    identifiers,
    literals,
    numbers,
    sentences,
    terms,
)
from orchestrator.memory.stopwords import STOP_WORDS
from orchestrator.model.lifecycle import MemoryKind

NAME: Final = "heuristic-1"
MAX_TEXT_CHARS: Final = 900
MAX_THREAD_EVENTS: Final = 24
_WEIGHTS: Final[dict[str, int]] = {
    "decision": 3,
    "correction": 2,
    "withdrawal": 1,
    "veto": 2,
    "constraint": 2,
    "root_cause": 2,
    "preference": 2,
    "wish": 1,
    "workstream": 2,
    "fact": 2,
    "hypothetical": -2,
}
_KINDS: Final[tuple[MemoryKind, ...]] = (
    *("decision", "veto", "constraint", "root_cause", "preference", "workstream", "fact"),
)
_ANAPHORA: Final = re.compile(
    r"(?i)^(?:fine|good|yes|no|right|ok(?:ay)?|that|this|it|they|those|these|then|and|plus|also|but|so|same|which|he|she|if|"
    r"counts?|second|third|next|let|what is|exactly|sure|will)\b"
)
_REJECTED: Final = re.compile(
    r"(?i)\b(?:never(?: use| using)?(?: an?| the| any)?|no|instead of(?: an?| the)?|rather than(?: an?| the)?|forget(?: the)?|drop(?:ped)? the|"
    r"decided against(?: an?| the)?|ruled out(?: an?| the)?|rejected(?: an?| the)?)\s+"
    r"(\"[^\"\n]{1,60}\"|[\w/'-]{2,30}(?:\s[\w/'-]{2,30})?)"
)
# Words by which a reply says that something was stated to last.
_TAKEN_DOWN: Final = re.compile(
    r"(?i)^(?:noted|understood|agreed|settled|recorded|written down|will remember|saved|replaced|good to know|confirmed|then|so|by)\b"
)
# `Subject: one, two and three` or `a is x, b is y`: somebody tells how several things are.
_LISTS: Final = re.compile(r":\s[^:\n]{3,200}?,\s|,\s[^,\n]{3,80},\s|;\s")
_WHOLE_MESSAGE_CHARS: Final = 400
_REASON: Final = re.compile(
    r"(?i)\b(?:because|since|so that|as otherwise|due to|the reason is)\s+([^.!?\n]{8,200})"
)
# What a thread must reach to be proposed: a decision by itself, or two weaker signs.
_USER_BAR: Final = 3
_ASSISTANT_BAR: Final = 4


@dataclass(slots=True)
class _Said:
    """A sentence with what speaks for keeping it."""

    text: str
    role: str
    event_id: str
    cues: frozenset[str]
    weight: int
    question: bool


@dataclass(slots=True)
class _Thread:
    """Consecutive events about one topic."""

    events: list[Utterance] = field(default_factory=list)
    said: list[_Said] = field(default_factory=list)
    about: set[str] = field(default_factory=set)


class HeuristicExtractor:
    """Finds what people said to last, by general cues. Reports itself as a heuristic baseline."""

    @property
    def name(self) -> str:
        """Its name and version."""
        return NAME

    def close(self) -> None:
        """Holds nothing."""

    def extract(self, session_id: str, events: tuple[Utterance, ...]) -> Extraction:
        """Reads one session; never fails."""
        del session_id
        drafts = (_draft(thread) for thread in _threads(events))
        return Extraction(tuple(draft for draft in drafts if draft))


def _threads(events: tuple[Utterance, ...]) -> list[_Thread]:
    threads: list[_Thread] = []
    for event in events:
        said = [] if event.role == "tool" else [_weigh(s, event) for s in sentences(event.text)]
        if not threads or _starts_topic(threads[-1], event, said):
            threads.append(_Thread())
        thread = threads[-1]
        thread.events.append(event)
        thread.said += said
        thread.about |= terms(event.text) if event.role != "tool" else set()
    return threads


def _starts_topic(thread: _Thread, event: Utterance, said: list[_Said]) -> bool:
    """A user who says something of weight that shares next to nothing with what went before."""
    if event.role != "user" or not any(e.role == "user" for e in thread.events):
        return False
    if len(thread.events) >= MAX_THREAD_EVENTS:
        return True
    last = thread.said[-1] if thread.said else None
    if (last and last.role == "assistant" and last.question) or _ANAPHORA.match(event.text):
        return False
    if sum(max(0, s.weight) for s in said) < _USER_BAR:
        return False
    shared = terms(event.text) & thread.about
    return len(shared) < 2


def _weigh(sentence: str, event: Utterance) -> _Said:
    question = is_question(sentence)
    cues = cues_of(sentence)
    specifics = 2 * len(literals(sentence)) + len(identifiers(sentence)) + len(numbers(sentence))
    weight = sum(_WEIGHTS.get(cue, 0) for cue in cues) + min(3, specifics)
    weight += 1 if _LISTS.search(sentence) else 0
    if question or (is_order(sentence) and not cues & {"decision", "veto", "preference"}):
        weight = 0
    if len(terms(sentence)) < 2 and not specifics:
        weight = 0
    return _Said(sentence, event.role, event.event_id, cues, weight, question)


def _draft(thread: _Thread) -> Draft | None:
    user = sum(s.weight for s in thread.said if s.role == "user" and s.weight > 0)
    helper = sum(s.weight for s in thread.said if s.role == "assistant" and s.weight > 0)
    best = max((s.weight for s in thread.said if s.role == "user"), default=0)
    assistant_best = max((s.weight for s in thread.said if s.role == "assistant"), default=0)
    if not (
        (best >= _USER_BAR or user >= _USER_BAR + 1)
        or (assistant_best >= _ASSISTANT_BAR and helper >= _ASSISTANT_BAR)
        or (assistant_best >= 2 and _explains(thread))
        or (user > 0 and (_taken_down(thread) or _restated(thread)))
    ):
        return None
    kept = _select(thread.said)
    if not kept:
        return None
    text = _join(kept)
    cues = Counter(cue for said in kept for cue in said.cues)
    return Draft(
        kind=_kind(kept, thread),
        text=text,
        evidence=_evidence(thread, kept),
        reason=_first(_REASON, text),
        rejected=_rejected(kept),
        files=_files(thread),
        cues=tuple(sorted(cues)),
        labels=_labels(thread, kept),
        confidence_milli=min(950, 400 + 50 * max(best, assistant_best)),
    )


def _evidence(thread: _Thread, kept: list[_Said]) -> tuple[str, ...]:
    """The events of the kept sentences, and the replies that only repeat them."""
    ids = {said.event_id for said in kept}
    replies = {e.event_id for e in thread.events if e.role == "assistant" and terms(e.text)}
    echoed = {
        e.event_id
        for e in thread.events
        if e.event_id in replies - ids and _TAKEN_DOWN.match(e.text)
    }
    return tuple(e.event_id for e in thread.events if e.event_id in ids | echoed)


def _explains(thread: _Thread) -> bool:
    """The assistant names a cause of something that went wrong."""
    wrong = any(e.failed or (e.role == "user" and is_problem(e.text)) for e in thread.events)
    return wrong and any("root_cause" in s.cues and s.role == "assistant" for s in thread.said)


def _taken_down(thread: _Thread) -> bool:
    """The assistant's answer says that it will be remembered."""
    return any(e.role == "assistant" and _TAKEN_DOWN.match(e.text) for e in thread.events)


def _restated(thread: _Thread) -> bool:
    """The assistant says again in its own words what the user stated."""
    stated = {t for s in thread.said if s.role == "user" and not s.question for t in terms(s.text)}
    return any(
        len(terms(s.text) & stated) >= 3
        for s in thread.said
        if s.role == "assistant" and not s.question
    )


def _select(said: list[_Said]) -> list[_Said]:
    """Keeps what carries weight, a question right before its answer, and the line that opens the topic."""
    keep = [s.weight > 0 for s in said]
    for i, sentence in enumerate(said[:-1]):
        if sentence.question and keep[i + 1] and said[i + 1].event_id != sentence.event_id:
            keep[i] = True
    for event_id in {s.event_id for s in said if s.role == "user"}:
        places = [i for i, s in enumerate(said) if s.event_id == event_id]
        if (
            sum(max(0, said[i].weight) for i in places) >= _USER_BAR
            and sum(len(said[i].text) for i in places) <= _WHOLE_MESSAGE_CHARS
        ):
            for i in places:
                keep[i] = keep[i] or not (said[i].question or is_order(said[i].text))
    opener = next((i for i, s in enumerate(said) if s.role == "user"), None)
    if opener is not None and len(terms(said[opener].text)) >= 2:
        keep[opener] = True
    chosen = [s for s, kept in zip(said, keep, strict=True) if kept]
    return _without_echo(chosen)


def _without_echo(said: list[_Said]) -> list[_Said]:
    """Drops a reply that says nothing which was not said before in the thread."""
    known: set[str] = set()
    kept = []
    for sentence in said:
        words = terms(sentence.text)
        if sentence.role == "assistant" and known and len(words - known) < 2:
            continue
        known |= words
        kept.append(sentence)
    return kept


def _join(said: list[_Said]) -> str:
    """Returns the text of a memory; a change of speaker is a dash, the heaviest stay when it is too long."""
    size = sum(len(s.text) + 3 for s in said)
    order = sorted(range(len(said)), key=lambda i: (said[i].weight, -i))
    dropped: set[int] = set()
    for i in order:
        if size <= MAX_TEXT_CHARS or len(dropped) == len(said) - 1:
            break
        dropped.add(i)
        size -= len(said[i].text) + 3
    parts: list[str] = []
    role = None
    for i, sentence in enumerate(said):
        if i in dropped:
            continue
        if role not in {None, sentence.role}:
            parts.append("-")
        parts.append(sentence.text)
        role = sentence.role
    return " ".join(parts)[:MAX_TEXT_CHARS]


def _kind(said: list[_Said], thread: _Thread) -> MemoryKind:
    votes: Counter[str] = Counter()
    for sentence in said:
        for cue in sentence.cues:
            if cue in _KINDS:
                votes[cue] += max(1, sentence.weight) * (2 if sentence.role == "user" else 1)
    if _explains(thread) and not votes["decision"]:
        return "root_cause"
    best = max(_KINDS, key=lambda kind: (votes[kind], -_KINDS.index(kind)))
    return best if votes[best] else "fact"


def _rejected(said: list[_Said]) -> tuple[str, ...]:
    found: list[str] = []
    for sentence in said:
        if sentence.cues & {"veto", "withdrawal"}:
            found += [_option(match) for match in _REJECTED.findall(sentence.text)]
    return tuple(dict.fromkeys(option for option in found if terms(option)))[:6]


def _option(match: str) -> str:
    """Returns a rejected option without quotes and without the words of the sentence that go on after it."""
    words = match.strip("\"'").split()
    while words and words[-1].lower() in STOP_WORDS:
        words.pop()
    return " ".join(words)


def _files(thread: _Thread) -> tuple[str, ...]:
    named = [path for event in thread.events for path in files(event.text)]
    return tuple(dict.fromkeys(named))[:20]


def _labels(thread: _Thread, kept: list[_Said]) -> tuple[str, ...]:
    labels: set[str] = set()
    last = next((s.event_id for s in reversed(thread.said)), None)
    if any(
        "contested" in s.cues for s in thread.said if (s.role, s.event_id) == ("assistant", last)
    ):
        labels.add(CONTESTED)
    user = [s for s in kept if s.role == "user" and s.weight > 0]
    if user and all("hypothetical" in s.cues for s in user):
        labels.add(TENTATIVE)
    if any("partial" in s.cues for s in kept):
        labels.add(PARTIAL)
    if any(INSTRUCTION_LIKE in event.labels for event in thread.events):
        labels.add(INSTRUCTION_LIKE)
    if any(len(event.text) > MAX_READ_CHARS for event in thread.events if event.role != "tool"):
        labels.add("cut")
    return tuple(sorted(labels))


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1].strip() if match else None
