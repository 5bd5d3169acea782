"""Promise: what drives a product's hooks keeps nothing but its store, and tells what a hook failed to take or to say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.places import images_root
from orchestrator.memory.command import ENACTOR

HEAD = """#!/usr/bin/env python3
import json, os, pathlib, subprocess, sys
event = json.load(sys.stdin)
name, task, home = event["hook_event_name"], event["session_id"] == "task", pathlib.Path.home()
"""
EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")
SESSION = {
    "session_id": "s1",
    "scope": "project",
    "started_at": "2026-01-05T10:00:00Z",
    "events": [
        {"event_id": "e1", "at": "2026-01-05T10:00:00Z", "role": "user", "text": "Secret plan."},
        {
            "event_id": "e2",
            "at": "2026-01-05T10:01:00Z",
            "role": "tool",
            "text": "out",
            "tool": {"name": "bash", "input": "echo hist > ~/notes", "exit_code": 0},
        },
        {"event_id": "e3", "at": "2026-01-05T10:02:00Z", "role": "assistant", "text": "Done."},
    ],
}


class Box:
    """The enactor in a process of its own, as in a product's container."""

    def __init__(self, folder: Path, body: str, **more: object) -> None:
        self.home = folder / "work" / "home"
        self.scratch = folder / "tmp"
        program = folder / "agent" / "program"
        for made in (program, self.home.parent, self.scratch):
            made.mkdir(parents=True)
        for name, source in ENACTOR.items():
            shutil.copy(images_root() / "memory" / source, program / name)
        (program / "hook").write_text(HEAD + body)
        (program / "hook").chmod(0o755)
        hooks = {event: ["{program}/hook"] for event in EVENTS}
        unset = dict.fromkeys(("settle", "dump", "recall"))
        told = {"adapter": "p", "version": "1", "capabilities": {}, "degraded": []}
        limits = {"hook_s": 10, "command_s": 10}
        (program / "hooks.json").write_text(
            json.dumps({**unset, **told, **limits, "hooks": hooks, **more})
        )
        around = {"MEMTRIAL_WORK": str(self.home.parent), "TMPDIR": str(self.scratch)}
        # Never this machine's own.
        around["MEMTRIAL_SHARED"] = str(self.scratch)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-B", program / "main.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **around},
        )
        assert self.ask("open", budget=None, gateway=None, seed=7) == {"answer": None}

    def ask(self, step: str, **request: object) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"step": step, **request}) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def live(self) -> list[dict[str, Any]]:
        """Takes the steps up to the freeze; returns what became of each event."""
        captured = self.ask("ingest", session=SESSION, now="2026-01-05T10:02:00Z")
        events: list[dict[str, Any]] = captured["answer"]["events"]
        self.ask("settle", deadline_s=10)
        return events

    def retrieve(self) -> dict[str, Any]:
        query = {"prompt": "What now?", "scope": "project", "k": 5, "files_in_scope": None}
        return self.ask("retrieve", query=query, query_sha256="0" * 64)


@pytest.fixture
def box(tmp_path) -> Iterator[Any]:
    made: list[Box] = []

    def make(body: str, **more: object) -> Box:
        made.append(Box(tmp_path, body, **more))
        return made[-1]

    yield make
    for one in made:
        assert one.process.stdin
        one.process.stdin.close()
        one.process.wait(10)
        assert one.process.stdout
        one.process.stdout.close()


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("Keep labels.", ["Keep labels.", "Keep labels."]),
        ('{"continue": true, "suppressOutput": true}', []),
        ("{}", []),
        ('{"hookSpecificOutput": {"additionalContext": "Keep."}}', ["Keep.", "Keep."]),
        ('{"hookSpecificOutput": {"additionalContext": 3}}', []),
        ("[" * 40_000, ["[" * 40_000] * 2),
    ],
    ids=["text", "control", "empty object", "context", "context of no text", "deep"],
)
def test_of_an_objects_words_only_the_context_reaches_the_model(box, printed, said):
    one = box(f"print({printed!r} if task else '')")
    one.live()
    assert one.ask("freeze") == {"answer": None}
    assert [item["text"] for item in one.retrieve()["answer"]["items"]] == said


@pytest.mark.parametrize("how", ["sys.exit(1)", "os.kill(os.getpid(), 9)"])
def test_a_hook_that_fails_at_the_question_is_a_failure_and_what_it_printed_is_no_memory(box, how):
    one = box(f"if task:\n    print('half of a trace', flush=True)\n    {how}")
    one.live()
    one.ask("freeze")
    assert "SessionStart: expected exit 0" in one.retrieve()["error"]


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ("", {}),
        ("sys.exit(name in ('Stop', 'SessionEnd'))", {"e3"}),
        ("sys.exit(name == 'Stop')", {}),
        ("sys.exit(name == 'PreToolUse')", {"e2"}),
        ("sys.exit(name == 'UserPromptSubmit')", {"e1"}),
    ],
    ids=["none", "readers", "one reader of two", "before a call", "prompt"],
)
def test_an_event_is_captured_only_if_the_hook_that_is_told_of_it_ended_well(box, body, lost):
    one = box(body)
    dropped = {e["event_id"] for e in one.live() if e["outcome"] == "dropped"}
    assert dropped == set(lost)
    one.ask("freeze")


def test_a_hook_whose_program_is_missing_loses_its_events_and_not_the_life(box):
    one = box("", hooks={"UserPromptSubmit": ["/nowhere/hook"], "SessionStart": ["{program}/hook"]})
    assert {e["outcome"] for e in one.live()} == {"dropped"}
    assert one.ask("freeze") == {"answer": None}


def test_raw_history_kept_outside_the_store_is_gone_before_the_task_is_known(box):
    body = (
        "out = [pathlib.Path(os.environ.get('TMPDIR', '/nowhere')), pathlib.Path(event['cwd']).parents[2]]\n"
        "kept = pathlib.Path(event['cwd']) / 'locked'\n"
        "if name == 'SessionEnd':\n"
        "    kept.mkdir(); (kept / 'copy').write_text('Secret plan.'); kept.chmod(0o555)\n"
        "    (pathlib.Path(event['cwd']).parents[2] / 'copy').write_text('Secret plan.')\n"
        "if task:\n"
        "    found = [str(p) for d in out if d.is_dir() for p in d.rglob('copy')]\n"
        "    print('found' if found or kept.exists() else 'nothing')\n"
    )
    one = box(body)
    one.live()
    assert one.ask("freeze") == {"answer": None}
    assert {item["text"] for item in one.retrieve()["answer"]["items"]} == {"nothing"}


def test_what_a_hook_leaves_running_ends_with_the_freeze_and_with_each_question(box):
    body = (
        "def leave(mark):\n"
        '    code = f\'import os, time; os.setsid()\\nwhile True: open(os.path.expanduser("~/{mark}"), "a").write("x"); time.sleep(0.01)\'\n'
        "    subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "if name == 'SessionStart':\n    leave('asked' if task else 'told')\n"
    )
    one = box(body)
    one.live()
    assert one.ask("freeze") == {"answer": None}
    size = (one.home / "told").stat().st_size
    assert "answer" in one.retrieve()
    assert (one.home / "told").stat().st_size == size
    assert not (one.home / "asked").exists()


def test_a_home_with_sockets_pipes_and_locked_folders_is_asked_and_comes_back_as_it_was(box):
    body = (
        "import socket\n"
        "if name == 'SessionEnd':\n"
        "    socket.socket(socket.AF_UNIX).bind(str(home / 's')); os.mkfifo(home / 'f')\n"
        "    (home / 'locked').mkdir(); (home / 'locked' / 'db').write_text('kept'); (home / 'locked').chmod(0o555)\n"
        "if task:\n"
        "    (home / 'more').write_text('asked'); print((home / 'locked' / 'db').read_text())\n"
    )
    one = box(body)
    one.live()
    assert one.ask("freeze") == {"answer": None}
    inode = (one.home / "locked" / "db").stat().st_ino
    for _ in range(2):
        assert {item["text"] for item in one.retrieve()["answer"]["items"]} == {"kept"}
    assert (one.home / "locked" / "db").stat().st_ino == inode
    assert not (one.home / "more").exists()
    (one.home / "locked").chmod(0o755)


def test_commands_of_the_past_write_into_another_home(box):
    one = box("")
    one.live()
    assert not (one.home / "notes").exists()
    one.ask("freeze")


def test_a_product_that_changes_its_own_program_is_refused(box):
    one = box("pathlib.Path(__file__).with_name('cache').write_text('Secret plan.')")
    one.live()
    assert "leaves its own folder as it is" in one.ask("freeze")["error"]


def test_a_call_without_a_recorded_exit_code_is_not_counted_as_alike(box):
    one = box("")
    session = json.loads(json.dumps(SESSION))
    session["events"][1]["tool"]["exit_code"] = None
    one.ask("ingest", session=session, now="x")
    one.ask("freeze")
    assert "0 of 0 commands" in one.retrieve()["answer"]["degraded"][0]
