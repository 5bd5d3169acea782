"""Promise: a product that lives on hooks is driven by them: its capture fires as a history's calls are done again."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.core.places import fixtures_root
from orchestrator.memory.command import CommandAdapter, read_program
from orchestrator.memory.life import Limits
from orchestrator.model.lifecycle import Step
from orchestrator.model.memory import Remembered
from orchestrator.model.task import Episode, Event, History, ToolCall
from orchestrator.pipeline.boxes import Boxes
from orchestrator.pipeline.byhand import Asked, live_by_hand
from orchestrator.pipeline.whereabouts import whereabouts
from orchestrator.protocols import MemoryProgram, OpenBox
from orchestrator.sandbox.adapter import DockerSandbox, EngineClient
from orchestrator.testing.memory import MemoryContract
from tests.unit.memory.lives import COUNTER, arm, life_of

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("nothing_left")]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "how-to" / "hooks-example" / "program"
LIMITS = Limits(step_s=120.0, settle_s=60)


@pytest.fixture
def start(sandbox: DockerSandbox, client: EngineClient) -> OpenBox:
    return Boxes(sandbox, client, lambda _: None).of("test")


class TestTheExampleOfTheGuide(MemoryContract):
    """The same kit as for every other memory system."""

    limits = Limits(step_s=60.0, settle_s=20)
    own_channels = ("docker.sock",)

    @pytest.fixture(autouse=True)
    def _started(self, start: OpenBox) -> None:
        self.start = start

    def make_adapter(self) -> CommandAdapter:
        return CommandAdapter(read_program(EXAMPLE), self.start, COUNTER)


TRACER = """#!/usr/bin/env python3
import json, os, pathlib, sys
event = json.load(sys.stdin)
name = event["hook_event_name"]
seen = {"event": name, "now": os.environ.get("MEMTRIAL_NOW"), "files": sorted(os.listdir(event["cwd"]))}
for key in ("prompt", "tool_input", "tool_response", "source"):
    if key in event:
        seen[key] = event[key]
if name in ("Stop", "SessionEnd"):
    seen["transcript"] = len(pathlib.Path(event["transcript_path"]).read_text().splitlines())
with open(os.path.expanduser("~/seen.jsonl"), "a") as file:
    file.write(json.dumps(seen) + "\\n")
BODY
"""
EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")


def tracer(tmp_path: Path, body: str = "", **more: object) -> MemoryProgram:
    """Returns a product that writes down what its hooks are told."""
    folder = tmp_path / "product"
    folder.mkdir()
    (folder / "hook").write_text(TRACER.replace("BODY", body))
    (folder / "hook").chmod(0o755)
    able = {"timestamps": False, "update": False, "delete": False, "scopes": True, "hooks": True}
    hooks = {event: ["{program}/hook"] for event in EVENTS}
    told = {"adapter": "tracer", "version": "1", "capabilities": able, "hooks": hooks, **more}
    (folder / "hooks.json").write_text(json.dumps({"schema_version": 1, **told}))
    return read_program(folder)


def tool(name: str, at: str, command: str, printed: str, code: int, kind: str = "bash") -> Event:
    call = ToolCall(name=kind, input=command, exit_code=code)
    return Event(event_id=name, at=at, role="tool", text=printed, tool=call)


SESSION = Episode(
    episode_id="s1",
    started_at="2026-01-05T10:00:00Z",
    events=(
        Event(event_id="e1", at="2026-01-05T10:00:00Z", role="user", text="Make the list."),
        tool("e2", "2026-01-05T10:01:00Z", "echo a > made.txt; exit 4", "recorded output", 4),
        tool("e3", "2026-01-05T10:02:00Z", "test -e nowhere", "", 0),
        tool("e4", "2026-01-05T10:03:00Z", "read it", "text", 0, kind="viewer"),
        Event(event_id="e5", at="2026-01-05T10:04:00Z", role="assistant", text="It is made."),
    ),
)


def history(*episodes: Episode) -> History:
    return History(task_id="t", episodes=episodes)


def lived(
    program: MemoryProgram, start: OpenBox, kept: dict[str, bytes], limits: Limits = LIMITS
) -> Remembered:
    adapter = CommandAdapter(program, start, COUNTER, step_s=limits.step_s - 2)
    return life_of(adapter, arm("tracer"), history(SESSION), kept=kept, limits=limits)


def traced(kept: dict[str, bytes]) -> list[dict[str, object]]:
    """Returns what the hooks saw before the freeze, from the archived store."""
    with tarfile.open(fileobj=io.BytesIO(kept["store.tar"])) as archive:
        name = next(n for n in archive.getnames() if n.endswith("seen.jsonl"))
        file = archive.extractfile(name)
        assert file is not None
        return [json.loads(line) for line in file.read().splitlines()]


def test_every_event_fires_its_hooks_in_order_and_the_calls_are_really_done(start, tmp_path):
    kept: dict[str, bytes] = {}
    remembered = lived(tracer(tmp_path), start, kept)
    assert remembered.failure is None, remembered.failure
    seen = traced(kept)
    assert [entry["event"] for entry in seen] == [
        "SessionStart",
        "UserPromptSubmit",
        *("PreToolUse", "PostToolUse") * 3,
        "Stop",
        "SessionEnd",
    ]
    assert seen[2]["files"] == []
    assert seen[3]["files"] == ["made.txt"]
    assert seen[3]["tool_input"] == {"command": "echo a > made.txt; exit 4"}
    assert seen[3]["now"] == "2026-01-05T10:01:00Z"
    assert seen[-1]["transcript"] == 8
    assert remembered.captured_events == 5


def test_a_hook_is_told_the_recorded_bytes_and_the_record_says_how_many_calls_ended_otherwise(
    start, tmp_path
):
    kept: dict[str, bytes] = {}
    lived(tracer(tmp_path), start, kept)
    answer = traced(kept)[3]["tool_response"]
    assert isinstance(answer, dict)
    assert (answer["stdout"], answer["exit_code"]) == ("recorded output", 4)
    assert json.loads(kept["ranked"])["degraded"] == [
        "re-enacted: 1 of 2 commands ended with the recorded exit code, 1 calls were of other tools, 0 hooks failed"
    ]


def test_what_the_product_prints_as_the_task_begins_is_its_memory_and_that_moment_leaves_no_trace(
    start, tmp_path
):
    say = 'print(json.dumps({"hookSpecificOutput": {"additionalContext": "Keep labels."}}) if name == "SessionStart" else "")'
    kept: dict[str, bytes] = {}
    remembered = lived(tracer(tmp_path, say), start, kept)
    assert remembered.failure is None, remembered.failure
    assert [item.text for item in remembered.items] == ["Keep labels."]
    assert len(traced(kept)) == 10


def test_raw_history_is_gone_when_the_task_is_known(start, tmp_path):
    look = (
        'print("found" if any("made" in "".join(f) for _, _, f in os.walk(os.path.dirname(event["cwd"]))) '
        'or pathlib.Path(event["transcript_path"]).parent.joinpath("s1.jsonl").exists() else "nothing")'
    )
    remembered = lived(tracer(tmp_path, look), start, {})
    assert remembered.failure is None, remembered.failure
    assert {item.text for item in remembered.items} == {"nothing"}


def test_a_product_with_a_dump_is_searched_by_its_own_recall(start, tmp_path):
    commands: dict[str, Any] = {
        "dump": [
            "/bin/echo",
            '[{"memory_id": "b", "text": "two"}, {"memory_id": "a", "text": "one"}]',
        ],
        "recall": ["/bin/echo", '["b", "unknown", "a"]'],
    }
    kept: dict[str, bytes] = {}
    remembered = lived(tracer(tmp_path, **commands), start, kept)
    assert remembered.failure is None, remembered.failure
    assert [item.text for item in remembered.items] == ["two", "one"]
    assert json.loads(kept["description"])["shows"] == ["capture", "store", "retrieval"]


def test_a_hook_that_fails_loses_its_event_with_a_reason_and_the_session_goes_on(start, tmp_path):
    fail = (
        'sys.exit("no disk" if name == "UserPromptSubmit" and event["session_id"] != "task" else 0)'
    )
    remembered = lived(tracer(tmp_path, fail), start, {})
    assert remembered.failure is None, remembered.failure
    [drop] = remembered.capture_drops
    assert drop.event_id == "e1"
    assert "no disk" in drop.reason


def test_a_hook_that_forbids_a_call_is_obeyed(start, tmp_path):
    kept: dict[str, bytes] = {}
    lived(tracer(tmp_path, 'sys.exit(2 if name == "PreToolUse" else 0)'), start, kept)
    assert all(entry["files"] == [] for entry in traced(kept))


def test_a_hook_and_a_command_that_hang_are_ended_at_their_limits(start, tmp_path):
    hang = 'import time; time.sleep(3600 if name == "Stop" else 0)'
    program = tracer(tmp_path, hang, hook_s=1, command_s=1)
    slow = SESSION.model_copy(
        update={
            "events": (*SESSION.events[:1], tool("e2", SESSION.started_at, "sleep 3600", "", 0))
        }
    )
    adapter = CommandAdapter(program, start, COUNTER)
    remembered = life_of(adapter, arm("tracer"), history(slow), limits=LIMITS)
    assert remembered.failure is None, remembered.failure


def test_a_queue_that_does_not_drain_is_a_failure_of_settling(start, tmp_path):
    remembered = lived(tracer(tmp_path, settle=["/bin/false"]), start, {})
    assert remembered.failure is not None
    assert remembered.failure.step is Step.SETTLE
    assert "exit 1" in remembered.failure.detail


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"hooks": {"OnStart": ["x"]}}, "OnStart"),
        ({"hooks": {"Stop": ["x"]}}, "expected recall, or a hook"),
        ({"recall": ["x"]}, "expected dump with recall"),
        ({"hook_s": 0}, "hook_s"),
        ({"surprise": 1}, "surprise"),
    ],
    ids=["event", "silent", "recall alone", "no time", "unknown field"],
)
def test_hooks_that_cannot_be_driven_are_refused_by_name(tmp_path, more, told):
    with pytest.raises(DocumentError, match=told):
        tracer(tmp_path, **more)


def test_two_ways_to_drive_one_product_are_refused(tmp_path):
    tracer(tmp_path)
    (tmp_path / "product" / "main.py").write_text("")
    with pytest.raises(DocumentError, match="drives the other away"):
        read_program(tmp_path / "product")


def test_what_a_product_does_not_show_is_called_hidden_and_not_lost(monkeypatch):
    added = EXAMPLE.parent / "conditions.json"
    monkeypatch.setenv("MEMTRIAL_CONDITIONS", str(added))
    asked = Asked(condition="veto_notes_e2e", task="depotfeed-returns")
    lived_through = live_by_hand(asked, fixtures=fixtures_root())
    assert lived_through.task is not None
    for fact in whereabouts(lived_through, lived_through.task.history, lived_through.task.key):
        assert ("stored", "not shown by this system") in fact.seen
        assert fact.lost_at != "stored"


HIDES = """
import ctypes
c = ctypes.CDLL(None, use_errno=True)
c.shmat.restype = ctypes.c_void_p
c.shmat.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
kept = {}
if event["session_id"] != "task":
    pathlib.Path("/dev/shm/kept").write_text("raw")
    assert c.mq_open(b"/kept", os.O_CREAT | os.O_RDWR, 0o600, None) >= 0
    at = c.shmat(c.shmget(77, 4096, 0o1600), None, 0)
    ctypes.memmove(at, b"raw", 3)
    assert c.msgget(78, 0o1600) >= 0
    assert c.semget(79, 1, 0o1600) >= 0
elif name == "SessionStart":
    found = {
        "memory files": os.path.exists("/dev/shm/kept"),
        "queues": c.mq_open(b"/kept", os.O_RDWR) >= 0,
        "segments": c.shmget(77, 0, 0) >= 0,
        "messages": c.msgget(78, 0) >= 0,
        "semaphores": c.semget(79, 0, 0) >= 0,
    }
    print(json.dumps({"hookSpecificOutput": {"additionalContext": json.dumps(found)}}))
"""


def test_what_the_container_shares_between_processes_does_not_outlive_the_freeze(start, tmp_path):
    remembered = lived(tracer(tmp_path, HIDES), start, {})
    assert remembered.failure is None, remembered.failure
    assert remembered.capture_drops == ()
    (item,) = remembered.items
    found = json.loads(item.text)
    assert found == dict.fromkeys(found, False)


SPEAKS_FOR = """
import signal, time
def stat(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
if name == "SessionEnd":
    driver = os.getppid()
    while b"main.py" not in pathlib.Path(f"/proc/{driver}/cmdline").read_bytes():
        driver = int(stat(driver)[1])
    if os.fork() == 0:
        os.setsid()
        for holder in (driver, 1):
            try:
                pipes = open(f"/proc/{holder}/fd/1", "w"), open(f"/proc/{holder}/fd/0")
                break
            except OSError:
                pipes = None
        os.kill(driver, signal.HOW)
        while pipes is None:
            time.sleep(1)
        def say(answer):
            pipes[0].write(json.dumps({"answer": answer}) + "\\n")
            pipes[0].flush()
        taken = [{"event_id": f"e{n}", "outcome": "captured"} for n in range(1, 6)]
        say({"schema_version": 1, "session_id": "s1", "events": taken})
        for line in pipes[1]:
            asked = json.loads(line)
            if asked["step"] == "retrieve":
                item = {"memory_id": "m", "text": "out of RAM", "channels": [{"channel": "c", "rank": 1}]}
                say({"schema_version": 1, "query_sha256": asked["query_sha256"], "considered": 1, "items": [item]})
            else:
                say({"settle": {"schema_version": 1}, "dump": {"schema_version": 1, "memories": []}}.get(asked["step"]))
    # Until it is spoken for: a hook that ended would let the driver answer first.
    time.sleep(60)
"""


@pytest.mark.parametrize(("how", "kind"), [("SIGSTOP", "timed_out"), ("SIGKILL", "crashed")])
def test_a_hook_that_stops_or_ends_what_drives_it_cannot_answer_in_its_place(
    start, tmp_path, how, kind
):
    program = tracer(tmp_path, SPEAKS_FOR.replace("HOW", how), hook_s=60)
    remembered = lived(program, start, {}, Limits(step_s=12.0, settle_s=10))
    assert remembered.failure is not None
    assert (remembered.failure.step, remembered.failure.kind) == (Step.INGEST, kind)
    assert remembered.items == ()
