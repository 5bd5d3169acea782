"""`memtrial curate` with a person's terminal: a real pseudo-terminal, a real process, a real editor."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.places import fixtures_root
from orchestrator.core.waiting import readable

TASK = "depotfeed-returns"
EDITOR = Path(__file__).with_name("editor.py")


class Seat:
    """A process on a pseudo-terminal of its own."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(environment)
            os.execv(sys.executable, [sys.executable, "-m", "orchestrator", *words])
        self.shown = ""

    def until(self, pattern: str) -> str:
        """Reads until a pattern is shown; what was shown before is not looked at again."""
        ends = time.monotonic() + 60
        while not (found := re.search(pattern, self.shown, re.DOTALL)):
            assert time.monotonic() < ends, self.shown
            if readable(self.terminal, 0.2):
                try:
                    data = os.read(self.terminal, 65536)
                except OSError:
                    data = b""
                assert data, f"ended without {pattern}: {self.shown}"
                self.shown += data.decode("utf-8", "replace")
        self.shown = self.shown[found.end() :]
        return found[0]

    def types(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def ends(self) -> int:
        """Reads to the end and returns the exit code."""
        try:
            while data := os.read(self.terminal, 65536):
                self.shown += data.decode("utf-8", "replace")
        except OSError:
            pass
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def blind(tmp_path: Path) -> Path:
    """Fixtures that hold the timeline and the card of one task: whoever needs more than that fails."""
    folder = tmp_path / "fixtures"
    (folder / "tasks" / TASK).mkdir(parents=True)
    for name in ("history.json", "task.json"):
        shutil.copy(fixtures_root() / "tasks" / TASK / name, folder / "tasks" / TASK / name)
    path = folder / "tasks" / TASK / "history.json"
    history = json.loads(path.read_bytes())
    history["episodes"] = history["episodes"][:2]
    path.write_text(json.dumps(history), encoding="utf-8")
    return folder


@pytest.fixture
def seat(blind: Path, tmp_path: Path):
    def open_seat(how: str, *words: str) -> Seat:
        environment = {
            "MEMTRIAL_FIXTURES": str(blind),
            "EDITOR": f"{sys.executable} {EDITOR} {how}",
            "VISUAL": "",
            "CURATE_MARK": str(tmp_path / "editor-runs"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return Seat(["curate", TASK, "--out", str(tmp_path / "sitting"), *words], environment)

    return open_seat


def test_a_person_goes_through_the_episodes_and_installs_the_file(seat, blind, tmp_path, capsys):
    desk = seat("append")
    desk.until(r"episode 1 of 2.*left\.")
    desk.types("\n")
    desk.until(r"left\.")
    desk.types("c\n")
    desk.until("resolved a conflict")
    desk.types("\n")
    desk.until(r"episode 2 of 2.*left\.")
    desk.types("e\n")
    desk.until(r"left\.")
    desk.types("c\n")
    desk.until("resolved a conflict")
    desk.types("1\n")
    desk.until("next: .*--install")
    assert desk.ends() == 0
    text = (tmp_path / "sitting" / "MEMORY.md").read_bytes()
    log = json.loads((tmp_path / "sitting" / "curator-log.json").read_bytes())
    assert text == b"- note 1\n- note 2\n"
    assert log["final_file_sha256"] == sha256_hex(text)
    assert [s["conflict_resolution_count"] for s in log["steps"]] == [0, 1]
    assert (log["curator_kind"], log["minutes_by"]) == ("human", "clock")
    assert all(0 < s["minutes_spent"] < 3 for s in log["steps"])
    words = ["curate", TASK, "--pack", str(blind), "--out", str(tmp_path / "sitting"), "--install"]
    assert main(words) == 0
    assert (blind / "curated" / TASK / "MEMORY.md").read_bytes() == text
    assert "next: " in capsys.readouterr().out


@pytest.mark.parametrize("how", ["hang", "stubborn"])
def test_an_editor_that_is_open_at_the_deadline_is_ended_and_the_saved_file_counts(
    seat, tmp_path, how
):
    desk = seat(how, "--minutes", "0.05")
    desk.until(r"left\.")
    desk.types("\n")
    desk.until("the editor was ended")
    desk.until("resolved a conflict")
    desk.types("0\n")
    desk.until("episode 2 of 2")
    editor = int((tmp_path / "editor-runs").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(editor, 0)
    desk.types("s\n")
    assert desk.ends() == 8
    state = json.loads((tmp_path / "sitting" / "sitting.json").read_bytes())
    assert state["steps"][0]["minutes_spent"] == 0.05
    assert state["steps"][0]["chars_after"] == len("- saved before the end\n")


def test_a_deadline_without_a_word_closes_the_episode(seat):
    desk = seat("append", "--minutes", "0.02")
    desk.until("episode 1 of 2")
    desk.until("episode 2 of 2")
    desk.until("next: .*--install")
    assert desk.ends() == 0


def test_ctrl_c_stops_and_the_next_sitting_goes_on(seat, tmp_path):
    desk = seat("append")
    desk.until(r"left\.")
    desk.types("\n")
    desk.until(r"left\.")
    desk.types("\x03")
    assert desk.ends() == 130
    desk = seat("append")
    desk.until(r"episode 1 of 2.*left\.")
    desk.types("c\n")
    desk.until("resolved a conflict")
    desk.types("\n")
    desk.until(r"episode 2 of 2.*left\.")
    desk.types("s\n")
    assert desk.ends() == 8
    state = json.loads((tmp_path / "sitting" / "sitting.json").read_bytes())
    assert state["steps"][0]["interruptions"] == 1
    assert state["steps"][0]["chars_after"] == len("- note 1\n")


def test_ctrl_c_inside_the_editor_is_the_editors_own(seat, tmp_path):
    desk = seat("hang")
    desk.until(r"left\.")
    desk.types("\n")
    mark = tmp_path / "editor-runs"
    while not (mark.exists() and mark.read_text()):
        time.sleep(0.05)
    desk.types("\x03")
    desk.until(r"left\.")
    desk.types("s\n")
    assert desk.ends() == 8


def test_time_that_passed_before_a_kill_is_not_given_back(seat, tmp_path):
    desk = seat("hang")
    desk.until(r"left\.")
    desk.types("\n")
    path = tmp_path / "sitting" / "sitting.json"
    while True:
        time.sleep(0.1)
        state = json.loads(path.read_bytes())
        if state["open_step"] and state["open_step"]["spent_ms"] > 1500:
            break
    os.kill(int((tmp_path / "editor-runs").read_text()), signal.SIGKILL)
    os.kill(desk.pid, signal.SIGKILL)
    desk.ends()
    desk = seat("append")
    shown = desk.until(r"\d:\d\d left\.")
    assert shown.startswith("2:5")
    desk.types("s\n")
    desk.ends()
    state = json.loads(path.read_bytes())
    assert state["open_step"]["spent_ms"] > 1500
    assert state["open_step"]["text"] == "- saved before the end\n"


def test_the_screen_is_emptied_between_episodes(seat):
    desk = seat("append")
    desk.until(r"left\.")
    desk.types("c\n")
    desk.until(re.escape("\x1b[3J") + ".*episode 2 of 2")
    desk.types("s\n")
    assert desk.ends() == 8


def test_what_history_says_cannot_move_the_cursor(seat, blind):
    path = blind / "tasks" / TASK / "history.json"
    history = json.loads(path.read_bytes())
    history["episodes"][0]["events"][0]["text"] = "before\x1b]0;title\x07after\u202e"
    path.write_text(json.dumps(history), encoding="utf-8")
    desk = seat("append")
    desk.until(re.escape(r"before\x1b]0;title\x07after\u202e"))
    desk.types("s\n")
    assert desk.ends() == 8


def run(words: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", "curate", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment,
        check=False,
    )


def test_minutes_count_only_at_a_terminal(blind, tmp_path, command_environment):
    environment = command_environment | {"MEMTRIAL_FIXTURES": str(blind)}
    found = run([TASK, "--out", str(tmp_path / "s"), "--json"], environment)
    assert found.returncode == 4
    assert json.loads(found.stdout)["error"]["reference"] == "no-terminal"


def test_an_editor_that_is_not_there_is_refused_before_the_clock_starts(seat, blind, tmp_path):
    os.environ.pop("VISUAL", None)
    environment = {"MEMTRIAL_FIXTURES": str(blind), "EDITOR": "no-such-editor-here", "VISUAL": ""}
    desk = Seat(["curate", TASK, "--out", str(tmp_path / "sitting")], environment)
    assert desk.ends() == 4
    assert "no-such-editor-here" in desk.shown
    assert not (tmp_path / "sitting" / "sitting.json").exists()


@pytest.mark.parametrize(
    ("words", "reference"),
    [
        (["no-such-task"], "task-unknown"),
        ([], "task-missing"),
        ([TASK, "--minutes", "0"], "curation-budget-invalid"),
        ([TASK, "--max-chars", "0"], "curation-budget-invalid"),
        ([TASK, "--status"], "curation-unknown"),
        (["--history", "/no/such/file"], "file-missing"),
    ],
)
def test_what_cannot_be_curated_is_refused_by_name(
    blind, tmp_path, monkeypatch, capsys, words, reference
):
    monkeypatch.setenv("MEMTRIAL_FIXTURES", str(blind))
    assert main(["curate", *words, "--out", str(tmp_path / "s"), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["reference"] == reference
