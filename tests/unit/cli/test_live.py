"""Promise: one line per running trial on a terminal, plain lines elsewhere, at any width, no residue."""

from __future__ import annotations

import io
import re

import pytest

from orchestrator.cli.live import Progress

LONG = "humanize-transfer-eta/curated_file_budgeted/follower/e12"


class Screen(io.StringIO):
    """A terminal that understands what is used here: CR, LF, cursor up, erase below, and wrapping."""

    def __init__(self, columns: int = 80) -> None:
        super().__init__()
        self.columns = columns
        self.writes: list[str] = []
        self.rows = [""]
        self.at = 0
        self.column = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.writes.append(text)
        for part in re.findall(r"\x1b\[\d*[A-Z]|\r|\n|[^\x1b\r\n]+", text):
            if part == "\r":
                self.column = 0
            elif part == "\n":
                self._down()
                self.column = 0
            elif part.endswith("A") and part.startswith("\x1b"):
                self.at -= int(part[2:-1])
                assert self.at >= 0, "the cursor left the screen"
            elif part == "\x1b[J":
                self.rows[self.at] = self.rows[self.at][: self.column]
                del self.rows[self.at + 1 :]
            else:
                for character in part:
                    if self.column == self.columns:
                        self._down()
                        self.column = 0
                    row = self.rows[self.at].ljust(self.column)
                    self.rows[self.at] = row[: self.column] + character + row[self.column + 1 :]
                    self.column += 1
        return len(text)

    def _down(self) -> None:
        self.at += 1
        if self.at == len(self.rows):
            self.rows.append("")

    def narrow(self, columns: int) -> None:
        """Wraps what is shown again, as terminals do."""
        text = "\n".join(self.rows[:-1])
        self.__init__(columns)  # type: ignore[misc]
        self.write(text + "\n")
        self.writes.clear()


class Time:
    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def terminal(monkeypatch) -> Screen:
    monkeypatch.setenv("TERM", "xterm")
    return Screen()


def progress_on(screen: Screen, clock: Time) -> Progress:
    return Progress(screen, width=lambda: screen.columns, height=lambda: 8, now_ms=clock)


def test_each_running_trial_has_a_line_with_its_stage_and_seconds(terminal, clock):
    progress = progress_on(terminal, clock)
    progress.stage("t/a", "act")
    clock.ms = 3000
    progress.stage("t/b", "grade")
    clock.ms = 5400
    progress.frame()
    assert terminal.rows == ["  t/a act 5 s", "  t/b grade 2 s", ""]


def test_lines_that_stay_go_above_and_ended_trials_leave_nothing(terminal, clock):
    progress = progress_on(terminal, clock)
    progress.say("run x: 2 trials")
    progress.stage("t/a", "act")
    progress.stage("t/b", "act")
    progress.frame()
    progress.ended("t/a")
    progress.say("[1/2] t/a resolved")
    assert terminal.rows == ["run x: 2 trials", "[1/2] t/a resolved", "  t/b act 0 s", ""]
    progress.ended("t/b")
    progress.frame()
    assert terminal.rows == ["run x: 2 trials", "[1/2] t/a resolved", ""]


def test_a_frame_is_one_write_and_an_unchanged_one_is_none(terminal, clock):
    progress = progress_on(terminal, clock)
    progress.stage("t/a", "act")
    progress.frame()
    before = len(terminal.writes)
    progress.frame()
    assert len(terminal.writes) == before
    clock.ms = 1000
    progress.frame()
    assert len(terminal.writes) == before + 1


@pytest.mark.parametrize("columns", [20, 21, 40, 79, 200])
def test_no_line_is_wider_than_the_terminal_and_its_seconds_are_kept(terminal, clock, columns):
    terminal.columns = columns
    progress = progress_on(terminal, clock)
    progress.stage(LONG, "remember")
    progress.frame()
    assert len(terminal.rows) == 2
    assert len(terminal.rows[0]) < columns
    assert terminal.rows[0].endswith("remember 0 s")


def test_a_terminal_that_becomes_narrower_keeps_no_residue(terminal, clock):
    progress = progress_on(terminal, clock)
    progress.say("kept")
    for name in ("a", "b", "c"):
        progress.stage(f"{LONG}-{name}", "act")
    progress.frame()
    terminal.narrow(30)
    clock.ms = 1000
    progress.frame()
    assert len(terminal.rows) == 5
    assert terminal.rows[0] == "kept"
    assert all(row.endswith("act 1 s") for row in terminal.rows[1:4])


def test_elsewhere_there_are_plain_lines_and_no_control_sequence(clock):
    out = io.StringIO()
    with Progress(out, now_ms=clock) as progress:
        progress.stage("t/a", "act")
        progress.frame()
        progress.say("[1/1] t/a resolved")
        progress.ended("t/a")
    assert out.getvalue() == "[1/1] t/a resolved\n"


def test_a_dumb_terminal_gets_plain_lines(clock, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen()
    progress = Progress(screen, now_ms=clock)
    progress.stage("t/a", "act")
    progress.frame()
    progress.say("line")
    assert screen.writes == ["line\n"]


@pytest.mark.parametrize("value", ["", "1"])
def test_colour_is_never_used_whether_no_color_is_set_or_not(terminal, clock, monkeypatch, value):
    monkeypatch.setenv("NO_COLOR", value)
    progress = progress_on(terminal, clock)
    progress.stage("t/a", "act")
    progress.frame()
    progress.say("x")
    assert not re.search(r"\x1b\[[\d;]*m", "".join(terminal.writes))


def test_the_block_is_gone_when_the_work_is_done(terminal, clock):
    with progress_on(terminal, clock) as progress:
        progress.stage("t/a", "act")
        progress.frame()
    assert terminal.rows == [""]


def test_what_the_terminal_echoes_at_ctrl_c_is_wiped_before_the_next_line(terminal, clock):
    progress = progress_on(terminal, clock)
    progress.say("run x")
    progress.stage("t/a", "act")
    progress.frame()
    terminal.write("^C")
    progress.say("stopping: ending 1 trial")
    assert terminal.rows == ["run x", "stopping: ending 1 trial", "  t/a act 0 s", ""]
    progress.ended("t/a")
    terminal.write("^C")
    progress.say("stopped")
    assert terminal.rows[:3] == ["run x", "stopping: ending 1 trial", "stopped"]


def test_after_the_end_nothing_is_drawn_but_lines_that_stay(terminal, clock):
    progress = progress_on(terminal, clock)
    progress.stage("t/a", "act")
    progress.frame()
    progress.close()
    progress.stage("t/b", "act")
    progress.frame()
    progress.say("killed")
    assert terminal.rows == ["killed", ""]


def test_no_more_lines_are_drawn_than_the_terminal_has(terminal, clock):
    progress = progress_on(terminal, clock)
    for number in range(20):
        progress.stage(f"t/{number:02}", "act")
    progress.frame()
    assert len(terminal.rows) == 8
    assert terminal.rows[6] == "  and 14 more"


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def test_a_display_that_takes_no_more_does_not_stop_the_work(clock):
    with Progress(Gone(), now_ms=clock) as progress:
        progress.say("x")
