"""The curated-file protocol: clock, cap, blindness, and a sitting that survives being stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.model.curation import CurationBudget, HumanCuratorLog
from orchestrator.model.task import Episode, Event, History
from orchestrator.pipeline.curation import Choice, Sitting, Tick, changes, read_sitting
from orchestrator.sources.loader import check_curated

BUDGET = CurationBudget(minutes_per_episode=1, max_chars=40)


def history(episodes: int = 3) -> History:
    return History(
        task_id="a-task",
        episodes=tuple(
            Episode(
                episode_id=f"ep{n}",
                started_at=f"2026-01-0{n}T10:00:00Z",
                events=(
                    Event(event_id=f"e{n}", at=f"2026-01-0{n}T10:00:00Z", role="user", text=f"said {n}"),
                ),
            )
            for n in range(1, episodes + 1)
        ),
    )  # fmt: skip


@dataclass
class Person:
    """Does what the script says: (choice, text to save, milliseconds that pass)."""

    script: list[tuple[Choice, str | None, int]]
    resolves: int = 0
    time_ms: int = 0
    saw: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    cleared: int = 0

    def now_ms(self) -> int:
        return self.time_ms

    def say(self, text: str) -> None:
        self.told.append(text)

    def show(self, episode: Episode, place: str) -> None:
        self.saw.append(episode.episode_id)

    def choose(self, left_ms: int, tick: Tick) -> Choice:
        if not self.script:
            raise KeyboardInterrupt
        choice = self.script[0][0]
        if choice != "edit":
            self.script.pop(0)
        if choice == "time":
            self.time_ms += left_ms
        return choice

    def edit(self, file: Path, left_ms: int, tick: Tick) -> None:
        _, text, passes_ms = self.script.pop(0)
        if text is not None:
            file.write_text(text, encoding="utf-8")
        self.time_ms += min(left_ms, passes_ms)
        tick()

    def conflicts(self, most: int) -> int:
        return min(most, self.resolves)

    def clear(self) -> None:
        self.cleared += 1


def edits(text: str, passes_ms: int = 15_000) -> list[tuple[Choice, str | None, int]]:
    return [("edit", text, passes_ms), ("close", None, 0)]


@pytest.fixture
def sit(tmp_path: Path) -> Callable[..., HumanCuratorLog | None]:
    def run(person: Person, **changes: object) -> HumanCuratorLog | None:
        budget = changes.get("budget", BUDGET)
        assert isinstance(budget, CurationBudget)
        return Sitting(tmp_path, history(), budget, person, now_ms=person.now_ms).run()

    return run


def test_a_whole_sitting_gives_a_file_and_a_log_that_load_together(sit, tmp_path):
    person = Person([*edits("- one\n"), *edits("- one\n- two\n"), *edits("- three\n")], resolves=1)
    log = sit(person)
    assert check_curated(tmp_path, history()).log == log
    assert (tmp_path / "MEMORY.md").read_text() == "- three\n"
    counted = [(s.edit_count, s.deletion_count, s.conflict_resolution_count) for s in log.steps]
    assert counted == [(1, 0, 1), (1, 0, 1), (1, 1, 1)]
    assert [s.minutes_spent for s in log.steps] == [0.25, 0.25, 0.25]
    assert log.maintenance_minutes == 0.75
    assert [s.file_sha256 for s in log.steps][-1] == sha256_hex(b"- three\n")
    assert [s.episode_sha256 for s in log.steps] == [e.digest_sha256() for e in history().episodes]


def test_a_later_episode_is_shown_only_after_the_one_before_is_closed(sit):
    person = Person([*edits("- one\n"), ("stop", None, 0)])
    assert sit(person) is None
    assert person.saw == ["ep1", "ep2"]
    assert person.cleared == 2


def test_nothing_in_the_folder_tells_of_later_episodes(sit, tmp_path):
    sit(Person([*edits("- one\n"), ("stop", None, 0)]))
    written = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"said" not in written
    assert b"ep3" not in written


def test_time_of_one_episode_cannot_be_saved_for_the_next(sit):
    person = Person(
        [*edits("- one\n", 1_000), ("edit", "- one\n- two\n", 999_000), *edits("- x\n")]
    )
    log = sit(person)
    assert [s.minutes_spent for s in log.steps][:2] == [0.017, 1.0]


def test_what_is_saved_when_the_time_is_up_counts(sit):
    person = Person([("edit", "- kept\n", 999_000), ("time", None, 0), ("time", None, 0)])
    log = sit(person)
    assert [s.chars_after for s in log.steps] == [7, 7, 7]
    assert [s.undone for s in log.steps] == [False, False, False]


def test_a_file_above_the_cap_cannot_be_closed(sit):
    person = Person([*edits("x" * 41, 1_000), *edits("- cut\n", 1_000), ("stop", None, 0)])
    assert sit(person) is None
    assert any("1 above the cap" in text for text in person.told)


def test_a_file_above_the_cap_when_the_time_is_up_stays_as_it_was(sit):
    person = Person([*edits("- one\n"), ("edit", "x" * 41, 999_000), ("time", None, 0)])
    log = sit(person)
    assert [(s.undone, s.chars_after) for s in log.steps] == [(False, 6), (True, 6), (False, 6)]
    assert log.steps[1].edit_count == 0


def test_the_cap_counts_characters_and_not_bytes(sit):
    log = sit(Person([*edits("ü" * 40), ("time", None, 0), ("time", None, 0)]))
    assert log.final_char_count == 40


def test_an_interrupted_sitting_goes_on_with_the_time_that_it_had_used(sit, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        sit(Person([("edit", "- half\n", 45_000)]))
    state = read_sitting(tmp_path)
    assert state is not None
    assert state.open_step is not None
    assert (state.open_step.spent_ms, state.open_step.text) == (45_000, "- half\n")
    log = sit(Person([("close", None, 0), ("time", None, 0), ("time", None, 0)]))
    assert (log.steps[0].minutes_spent, log.steps[0].interruptions) == (0.75, 1)
    assert log.steps[0].chars_after == 7


def test_an_episode_whose_time_was_used_up_before_the_interruption_is_not_shown_again(sit):
    class Killed(Person):
        def conflicts(self, most: int) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sit(Killed([("edit", "- late\n", 999_000)]))
    person = Person([("stop", None, 0)])
    assert sit(person) is None
    assert person.saw == ["ep2"]


def test_an_edit_made_while_the_clock_stood_still_is_gone(sit, tmp_path):
    assert sit(Person([("edit", "- on the clock\n", 1_000), ("stop", None, 0)])) is None
    (tmp_path / "open" / "ep1" / "MEMORY.md").write_text("- off the clock\n")
    log = sit(Person([("close", None, 0), ("time", None, 0), ("time", None, 0)]))
    assert (tmp_path / "MEMORY.md").read_text() == "- on the clock\n"
    assert log.steps[0].chars_after == 15


def test_a_closed_file_that_was_changed_stops_the_sitting(sit, tmp_path):
    sit(Person([*edits("- one\n"), ("stop", None, 0)]))
    (tmp_path / "versions" / "ep1.md").write_text("- other\n")
    with pytest.raises(IntegrityError, match=r"ep1\.md"):
        sit(Person([]))


def test_a_sitting_cannot_go_on_with_another_budget(sit):
    sit(Person([("stop", None, 0)]))
    with pytest.raises(UsageError, match="2 minutes"):
        sit(Person([]), budget=CurationBudget(minutes_per_episode=2, max_chars=40))


def test_two_people_cannot_sit_in_one_folder(sit, tmp_path):
    class Second(Person):
        def show(self, episode: Episode, place: str) -> None:
            with pytest.raises(UsageError, match="another sitting"):
                sit(Person([]))
            self.told.append("refused")

    first = Second([("stop", None, 0)])
    assert sit(first) is None
    assert "refused" in first.told


@pytest.mark.parametrize("what", ["gone", "link", "bytes", "huge"])
def test_a_file_that_is_no_text_leaves_what_was_saved_before(sit, what, tmp_path):
    class Breaks(Person):
        def edit(self, file: Path, left_ms: int, tick: Tick) -> None:
            if self.script[0][1] is not None:
                super().edit(file, left_ms, tick)
                return
            self.script.pop(0)
            file.unlink()
            if what == "link":
                file.symlink_to("/etc/passwd")
            elif what == "bytes":
                file.write_bytes(b"\xff\xfe")
            elif what == "huge":
                file.write_bytes(b"x" * 2**20 + b"x")
            tick()

    person = Breaks([*edits("- good\n")[:1], ("edit", None, 0), ("close", None, 0)])
    person.script += [("time", None, 0), ("time", None, 0)]
    assert sit(person).final_char_count == 7


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ("", "- a\n- b\n", (2, 0)),
        ("- a\n- b\n", "- a\n", (0, 1)),
        ("- a\n- b\n", "- c\n", (1, 1)),
        ("- a\n", "- c\n- d\n", (2, 0)),
        ("- a\n\n\n- b\n", "- a\n- b\n", (0, 0)),
    ],
)
def test_edits_and_deletions_are_counted_by_lines(before, after, counts):
    assert changes(before, after) == counts
