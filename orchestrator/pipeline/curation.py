"""The curated-file protocol: one person, one episode after another, under a clock and a character cap.

Gets a History and nothing else of a task, so the person can be shown neither the prompt nor a test; of the
timeline only the episode that is open is ever handed on. Writes one folder, at every turn, so that a
sitting that was stopped or killed goes on where it was, with the time that it had used.
"""

from __future__ import annotations

import difflib
import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import monotonic_ms
from orchestrator.core.errors import DocumentError, IntegrityError, UsageError
from orchestrator.core.files import read_confined, write_atomic
from orchestrator.core.words import counted
from orchestrator.model.curation import (
    MILLISECONDS_PER_MINUTE,
    PROTOCOL,
    CurationBudget,
    CurationSitting,
    HumanCuratorLog,
    HumanStep,
    OpenStep,
)
from orchestrator.model.task import Episode, History

MAX_FILE_BYTES = 1024 * 1024
# An editor is ended within this time after the deadline; what is saved later does not count.
LATE_MS = 5_000
SITTING, FILE, LOG = "sitting.json", "MEMORY.md", "curator-log.json"
Choice = Literal["edit", "close", "stop", "time"]
Tick = Callable[[], None]


class Desk(Protocol):
    """Where the person sits. `edit` and `choose` end at the deadline and call `tick` every second or so."""

    def say(self, text: str) -> None:
        """Tells the person something."""

    def show(self, episode: Episode, place: str) -> None:
        """Shows the open episode."""

    def edit(self, file: Path, left_ms: int, tick: Tick) -> None:
        """Lets the person change the file; at the deadline the editor is ended."""

    def choose(self, left_ms: int, tick: Tick) -> Choice:
        """Asks what comes next; `time` at the deadline."""

    def conflicts(self, most: int) -> int:
        """Asks how many of the changes resolved a conflict with what the file said."""

    def clear(self) -> None:
        """Takes the episode off the screen."""


def changes(before: str, after: str) -> tuple[int, int]:
    """Returns how many lines were added or changed, and how many are gone; blank lines do not count."""
    old, new = ([line for line in text.splitlines() if line.strip()] for text in (before, after))
    edits = deletions = 0
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if tag != "equal":
            edits += new_to - new_from
            deletions += max(0, (old_to - old_from) - (new_to - new_from))
    return edits, deletions


class Sitting:
    """A person's way through one timeline, kept in a folder."""

    def __init__(
        self,
        folder: Path,
        history: History,
        budget: CurationBudget,
        desk: Desk,
        *,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        """Begins, or takes up what the folder holds.

        Raises:
            UsageError: the folder holds another timeline or budget.
            IntegrityError: a closed file was changed afterwards.
        """
        self._folder = folder
        self._history = history
        self._desk = desk
        self._now_ms = now_ms
        self._state = read_sitting(folder) or CurationSitting(
            task_id=history.task_id, history_sha256=history.digest_sha256(), budget=budget
        )
        _check_same(self._state, history, budget, folder)
        self._text = closed_text(folder, self._state)

    def run(self) -> HumanCuratorLog | None:
        """Goes on to the end of the timeline, or until the person stops.

        Returns:
            The closed log, or None if episodes are left.
        """
        with _alone(self._folder):
            self._save()
            episodes = self._history.episodes
            for number, episode in enumerate(episodes[len(self._state.steps) :], 1):
                place = f"episode {len(self._state.steps) + 1} of {len(episodes)}"
                self._desk.say(f"{place}; {self._terms()}" if number == 1 else place)
                if not self._episode(episode, place):
                    self._desk.clear()
                    return None
                self._desk.clear()
            return self._finish()

    def _terms(self) -> str:
        budget = self._state.budget
        return f"{budget.minutes_per_episode:g} minutes each, by the clock, and {budget.max_chars} characters for the file"

    def _episode(self, episode: Episode, place: str) -> bool:
        """Takes one episode to its close; False if the person stops before."""
        before = self._state.open_step
        step = (
            before.model_copy(update={"interruptions": before.interruptions + 1})
            if before
            else OpenStep(episode_id=episode.episode_id, text=self._text)
        )
        self._update(step)
        working = self._folder / "open" / episode.episode_id / FILE
        write_atomic(working, step.text.encode())
        if self._left_ms():
            with self._clock(working):
                self._desk.show(episode, place)
        while self._left_ms():
            with self._clock(working) as tick:
                choice = self._desk.choose(self._left_ms(), tick)
                if choice == "edit":
                    self._desk.edit(working, self._left_ms(), tick)
            if choice == "stop":
                return False
            if choice == "close" and self._fits():
                break
        self._close(episode)
        return True

    def _fits(self) -> bool:
        text, cap = self._open().text, self._state.budget.max_chars
        if len(text) > cap:
            self._desk.say(
                f"{len(text)} characters, {len(text) - cap} above the cap: cut, then close again"
            )
        return len(text) <= cap

    def _close(self, episode: Episode) -> None:
        step = self._open()
        undone = len(step.text) > self._state.budget.max_chars
        text = self._text if undone else step.text
        if undone:
            self._desk.say(
                "the time is up and the file is above the cap: it stays as it was before this episode"
            )
        edits, deletions = changes(self._text, text)
        most = edits + deletions
        budget_ms = self._state.budget.episode_ms
        done = HumanStep(
            episode_id=episode.episode_id,
            minutes_spent=round(min(step.spent_ms, budget_ms) / MILLISECONDS_PER_MINUTE, 3),
            interruptions=step.interruptions,
            undone=undone,
            edit_count=edits,
            deletion_count=deletions,
            conflict_resolution_count=self._desk.conflicts(most) if most else 0,
            chars_after=len(text),
            episode_sha256=episode.digest_sha256(),
            file_sha256=sha256_hex(text.encode()),
        )
        write_atomic(self._folder / "versions" / f"{episode.episode_id}.md", text.encode())
        self._text = text
        steps = (*self._state.steps, done)
        self._state = self._state.model_copy(update={"steps": steps, "open_step": None})
        self._save()

    def _finish(self) -> HumanCuratorLog:
        state = self._state
        log = HumanCuratorLog(
            task_id=state.task_id,
            curator_kind="human",
            minutes_by="clock",
            target_blind=True,
            protocol=PROTOCOL,
            history_sha256=state.history_sha256,
            budget=state.budget,
            steps=state.steps,
            final_char_count=len(self._text),
            final_file_sha256=sha256_hex(self._text.encode()),
        )
        write_atomic(self._folder / FILE, self._text.encode())
        write_atomic(self._folder / LOG, log.canonical() + b"\n")
        return log

    @contextmanager
    def _clock(self, working: Path) -> Iterator[Tick]:
        """Counts what passes inside; `tick` writes it down, with the file as it is saved at that moment."""
        base_ms, started_ms = self._open().spent_ms, self._now_ms()

        def tick() -> None:
            spent_ms = base_ms + self._now_ms() - started_ms
            late = spent_ms > self._state.budget.episode_ms + LATE_MS
            text = None if late else _read_text(working)
            known = self._open()
            self._update(
                known.model_copy(
                    update={"spent_ms": spent_ms, "text": known.text if text is None else text}
                )
            )

        try:
            yield tick
        finally:
            tick()

    def _left_ms(self) -> int:
        return max(0, self._state.budget.episode_ms - self._open().spent_ms)

    def _open(self) -> OpenStep:
        step = self._state.open_step
        if step is None:
            raise IntegrityError(
                "no-open-episode",
                "expected an open episode, found none",
                hint="report this as a bug",
            )
        return step

    def _update(self, step: OpenStep) -> None:
        self._state = self._state.model_copy(update={"open_step": step})
        self._save()

    def _save(self) -> None:
        write_atomic(self._folder / SITTING, self._state.canonical() + b"\n")


def read_sitting(folder: Path) -> CurationSitting | None:
    """Reads where a person is; None if nobody began in this folder."""
    if not (folder / SITTING).is_file():
        return None
    data = read_confined(folder, SITTING, max_bytes=4 * MAX_FILE_BYTES)
    return CurationSitting.parse(data, where=f"{folder.name}/{SITTING}")


def closed_text(folder: Path, state: CurationSitting) -> str:
    """Returns the file as the last closed episode left it, and checks it and all before it.

    Raises:
        IntegrityError: a file was changed after its episode was closed.
    """
    text = ""
    for step in state.steps:
        name = f"versions/{step.episode_id}.md"
        data = read_confined(folder, name, max_bytes=MAX_FILE_BYTES)
        if sha256_hex(data) != step.file_sha256:
            raise IntegrityError(
                "curation-changed",
                f"{folder.name}/{name}: expected the file that was closed ({str(step.file_sha256)[:16]}), found {sha256_hex(data)[:16]}",
                hint="restore it from a copy, or begin again with another --out",
            )
        text = data.decode("utf-8")
    return text


def _read_text(file: Path) -> str | None:
    """Returns what the person saved; None if it is no text file of a sensible size at this moment."""
    try:
        return read_confined(file.parent, file.name, max_bytes=MAX_FILE_BYTES).decode("utf-8")
    except (DocumentError, UnicodeDecodeError):
        return None


def _check_same(
    state: CurationSitting, history: History, budget: CurationBudget, folder: Path
) -> None:
    found = (state.task_id, state.history_sha256, state.budget)
    if found == (history.task_id, history.digest_sha256(), budget):
        return
    raise UsageError(
        "curation-of-another",
        f"{folder}: expected a sitting over {history.task_id} with this timeline, {budget.minutes_per_episode:g} minutes and {budget.max_chars} characters, found one over {state.task_id} with {state.budget.minutes_per_episode:g} minutes and {state.budget.max_chars} characters, or an older timeline",
        hint="give the same options as before, or begin anew with another --out",
    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds the folder, so that two sittings do not write over each other."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("wb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                "curation-under-way",
                f"expected {folder} to be free, found another sitting in it",
                hint="end the other one first, or name another folder with --out",
            ) from error
        yield


def described(state: CurationSitting, episodes: int) -> str:
    """Returns in one line how far a sitting is; the task's name, which can tell what will be asked, is not in it."""
    spent = sum(step.minutes_spent for step in state.steps)
    last = state.steps[-1].chars_after if state.steps else 0
    return f"{len(state.steps)} of {counted(episodes, 'episode')} closed, {spent:.1f} minutes, {last} of {state.budget.max_chars} characters"
