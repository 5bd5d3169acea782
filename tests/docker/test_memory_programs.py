"""Promise: a memory system as a program runs in a container of its own, meets the contract, and breaks alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.gateway.process import GatewayProcess
from orchestrator.memory.command import CommandAdapter, read_program
from orchestrator.memory.life import Limits
from orchestrator.model.gateway import GatewaySetup, Traffic
from orchestrator.model.lifecycle import Step
from orchestrator.model.memory import Remembered
from orchestrator.model.script import Scenario, Script, ScriptedTurn
from orchestrator.pipeline.boxes import Boxes
from orchestrator.pipeline.traffic import SCRIPTED_CAPS, SCRIPTED_MODEL, load_prices
from orchestrator.protocols import GatewayAccess, MemoryProgram, OpenBox, TrialPlace
from orchestrator.sandbox.adapter import DockerSandbox, EngineClient
from orchestrator.testing.memory import MemoryContract
from tests.unit.memory.lives import COUNTER, arm, life_of, said

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("nothing_left")]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "how-to" / "memory-example" / "program"
HISTORY = said("We decided to keep labels verbatim.", "The parcel count may never be 0.")
FAST = Limits(step_s=20.0, settle_s=6)
WIDE = Limits(step_s=120.0, settle_s=60)


@pytest.fixture
def start(sandbox: DockerSandbox, client: EngineClient) -> OpenBox:
    return Boxes(sandbox, client, lambda _: None).of("test")


def changed(**steps: str) -> MemoryProgram:
    """Returns the example with other bodies for some of its steps."""
    source = (EXAMPLE / "main.py").read_text(encoding="utf-8")
    extra = "".join(
        f"\ndef {name}(self, request):\n    import os, socket, sys, time\n    {body}\n\nMemory.{name} = {name}\n"
        for name, body in steps.items()
    )
    whole = source.replace('if __name__ == "__main__":', f'{extra}\nif __name__ == "__main__":')
    return MemoryProgram("main.py", (("main.py", 0o644, whole.encode()),))


@pytest.fixture
def lived(start: OpenBox) -> Callable[..., Remembered]:
    def run(program: MemoryProgram, limits: Limits = WIDE) -> Remembered:
        adapter = CommandAdapter(program, start, COUNTER, step_s=limits.step_s - 2)
        return life_of(adapter, arm("cue_lines"), HISTORY, limits=limits)

    return run


class TestTheExampleOfTheGuide(MemoryContract):
    """The same kit that a third party runs."""

    limits = Limits(step_s=30.0, settle_s=20)
    own_channels = ("docker.sock",)

    @pytest.fixture(autouse=True)
    def _started(self, start: OpenBox) -> None:
        self.start = start

    def make_adapter(self) -> CommandAdapter:
        return CommandAdapter(read_program(EXAMPLE), self.start, COUNTER)


def test_the_test_file_of_the_guide_runs_the_kit_from_a_folder_of_somebody_else(tmp_path):
    guide = (EXAMPLE.parents[1] / "plug-in-a-memory.md").read_text(encoding="utf-8")
    (printed,) = (b for b in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "Program" in b)
    shutil.copytree(EXAMPLE.parent, tmp_path / "mine")
    (tmp_path / "mine" / "test_my_memory.py").write_text(printed)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-k", "whole_life", "-q", "test_my_memory.py"],
        cwd=tmp_path / "mine",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("steps", "step", "kind", "told"),
    [
        ({"settle": "raise ValueError('queue')"}, Step.SETTLE, "crashed", "ValueError: queue"),
        ({"settle": "os._exit(3)"}, Step.SETTLE, "crashed", "exit 3"),
        ({"settle": "time.sleep(3600)"}, Step.SETTLE, "timed_out", "no line within"),
        (
            {"settle": "sys.stdout.write('x' * 80_000_000) or sys.stdout.flush()"},
            Step.SETTLE,
            "flooded",
            "more than",
        ),
        (
            {"ingest": "self.hog = [b'x' * 50_000_000 for _ in range(60)]"},
            Step.INGEST,
            "crashed",
            "ended",
        ),
        ({"settle": "return print('chatter', flush=True)"}, Step.SETTLE, "answer_invalid", ""),
        (
            {
                "retrieve": "open('/work/log', 'a').write('asked'); return Memory.first(self, request)"
            },
            Step.RETRIEVE,
            "contract_broken",
            "frozen",
        ),
        (
            {"freeze": "os.symlink('/etc/passwd', '/work/link')"},
            Step.FREEZE,
            "contract_broken",
            "store",
        ),
    ],
    ids=["raises", "exits", "hangs", "floods", "eats memory", "chatters", "learns late", "links"],
)
def test_a_program_that_breaks_is_a_failure_of_its_step(lived, steps, step, kind, told):
    program = changed(**steps)
    if "retrieve" in steps:
        data = program.files[0][2].replace(
            b"\ndef retrieve(self", b"\nMemory.first = Memory.retrieve\n\ndef retrieve(self"
        )
        program = MemoryProgram("main.py", (("main.py", 0o644, data),))
    limits = FAST if kind == "timed_out" else WIDE
    remembered = lived(program, limits)
    assert remembered.failure is not None
    assert (remembered.failure.step, remembered.failure.kind) == (step, kind)
    assert told in remembered.failure.detail


PROBE = """
found = {}
for name, try_it in {
    "network": lambda: socket.create_connection(("192.0.2.1", 80), timeout=2),
    "names": lambda: socket.getaddrinfo("example.org", 80),
    "root": lambda: open("/usr/stray", "w"),
    "program": lambda: open("/opt/stray", "w"),
    "socket": lambda: os.stat("/run/memtrial/gateway.sock"),
    "engine": lambda: os.stat("/var/run/docker.sock"),
    "checkout": lambda: os.stat("/work/.git"),
    "repository": lambda: os.stat("/opt/memtrial/checkout"),
}.items():
    try:
        try_it()
        found[name] = "reached"
    except OSError as error:
        found[name] = "no"
found["uid"] = "root" if os.getuid() == 0 else "own"
import json
return {"schema_version": 1, "extractor": json.dumps(found), "tasks": [], "candidates": []}
"""


def test_a_program_reaches_nothing_but_its_own_folders(start):
    program = changed(settle=PROBE.strip().replace("\n", "\n    "))
    kept: dict[str, bytes] = {}
    adapter = CommandAdapter(program, start, COUNTER)
    remembered = life_of(adapter, arm("cue_lines"), HISTORY, kept=kept)
    assert remembered.failure is None, remembered.failure
    found = json.loads(json.loads(kept["extraction"])["extractor"])
    assert found.pop("uid") == "own"
    assert set(found.values()) == {"no"}


def test_an_executable_in_another_language_is_started_as_it_is(start):
    """A shell script that hands each line on: nothing of ours knows the program's language."""
    source = (EXAMPLE / "main.py").read_bytes()
    wrapper = b'#!/bin/sh\nexec python3 -I -B "$(dirname "$0")/real.txt"\n'
    program = MemoryProgram("main", (("main", 0o755, wrapper), ("real.txt", 0o644, source)))
    remembered = life_of(CommandAdapter(program, start, COUNTER), arm("cue_lines"), HISTORY)
    assert remembered.failure is None, remembered.failure
    assert [item.item_id for item in remembered.items] == ["e0", "e1"]


CALL = """
import urllib.request
body = {"model": self.gateway["model"], "messages": [{"role": "user", "content": "What was decided?"}]}
asked = urllib.request.Request(
    self.gateway["base_url"] + "/v1/chat/completions",
    data=json.dumps(body).encode(),
    headers={"content-type": "application/json", "authorization": "Bearer " + self.gateway["token"]},
)
said = json.load(urllib.request.urlopen(asked, timeout=20))["choices"][0]["message"]["content"]
return {"schema_version": 1, "extractor": said, "tasks": [], "candidates": []}
"""


def lived_with_a_gateway(
    program: MemoryProgram, start: OpenBox, folder: Path
) -> tuple[Remembered, str, Traffic]:
    """Returns what the life came to, what was told as the extractor, and the traffic."""
    turn = ScriptedTurn(text="Labels stay verbatim.")
    script = Script(scenarios=(Scenario(name="memory", role="memory", turns=(turn,)),))
    setup = GatewaySetup(
        folder=str(folder / "gateway"),
        sockets=str(folder / "s"),
        prices=load_prices(fixtures_root()),
        caps=SCRIPTED_CAPS,
        script=script,
    )
    kept: dict[str, bytes] = {}
    trial = TrialPlace("t/memory/e1", "t", "cue_lines", 1, ("agent", "memory"))
    with GatewayProcess(setup) as process:
        place = process.open_trial(trial)
        access = GatewayAccess("http://gateway", place.token("memory"), SCRIPTED_MODEL)
        remembered = life_of(
            CommandAdapter(program, start, COUNTER),
            arm("cue_lines"),
            HISTORY,
            kept=kept,
            gateway=access,
            socket=place.folder,
        )
        traffic = process.close_trial(trial.trial)
    assert remembered.failure is None, remembered.failure
    return remembered, json.loads(kept["extraction"])["extractor"], traffic


def test_a_program_calls_a_model_through_the_gateway_as_memory_and_it_is_recorded(start, tmp_path):
    program = changed(
        open="self.gateway = request['gateway']", settle=CALL.strip().replace("\n", "\n    ")
    )
    _, said, traffic = lived_with_a_gateway(program, start, tmp_path)
    assert said == "Labels stay verbatim."
    assert [(role.role, role.calls) for role in traffic.roles] == [("memory", 1)]


PRY = """
import glob, json
others = [p for p in glob.glob("/proc/[0-9]*") if int(p[6:]) != os.getpid()]
opened = []
for path in [f"{p}/{part}" for p in others for part in ("mem", "environ", "fd/0", "fd/1")]:
    try:
        os.close(os.open(path, os.O_RDONLY))
        opened.append(path)
    except PermissionError:
        pass
return {"schema_version": 1, "extractor": json.dumps([len(others), opened]), "tasks": [], "candidates": []}
"""


def test_the_processes_of_ours_beside_a_program_are_shut_to_it(start, tmp_path):
    """The container's init and the way to the gateway: they run under the same uid and outlive a freeze."""
    program = changed(settle=PRY.strip().replace("\n", "\n    "))
    _, said, _ = lived_with_a_gateway(program, start, tmp_path)
    assert json.loads(said) == [2, []]


def test_the_store_of_a_program_is_archived_and_two_lives_are_equal(lived):
    first, second = lived(changed()), lived(changed())
    assert first.failure is None
    assert first.archive_sha256 == second.archive_sha256
    assert first.canonical() == second.canonical()
