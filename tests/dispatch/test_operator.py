"""Promise: an operator of another user reads no key, state or book, and dispatches nothing but what was approved.

The operator is a program of the system's own Python under another uid: it has nothing of memtrial but the
socket. Becoming another user needs root, as an engine does.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.keys import SigningKey
from orchestrator.trust.gate.machine import NONCES
from orchestrator.trust.nonces import NonceBook
from tests.dispatch.conftest import smoke
from tests.dispatch.supervised import Site, site
from tests.gate.world import ID
from tests.unit.trust.support import LEDGER

pytestmark = pytest.mark.docker
OPERATOR_UID, STRANGER_UID = 65534, 65533
# Sends what it is told to a socket, and prints the line that comes back and what a trial's socket answers.
CLIENT = """
import json, socket, sys
told = json.loads(sys.stdin.read())
way = socket.socket(socket.AF_UNIX); way.settimeout(60); way.connect(told["socket"])
lines = way.makefile("rb")
for data in told["send"]:
    try:
        way.sendall(data.encode("latin-1"))
        answer = lines.readline().decode()
    except ConnectionError:
        answer = ""
    print(answer.rstrip("\\n"), flush=True)
    if "tokens" in answer:
        said = json.loads(answer)
        trial = socket.socket(socket.AF_UNIX); trial.settimeout(60)
        trial.connect(said["folder"] + "/gateway.sock")
        body = told["call"]
        trial.sendall((f"POST /v1/chat/completions HTTP/1.1\\r\\nhost: g\\r\\nconnection: close\\r\\nauthorization: "
            f"Bearer {said['tokens']['agent']}\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n{body}").encode())
        print(trial.makefile("rb").readline().decode().rstrip(), flush=True)
"""


def as_user(uid: int, program: str, told: object = None) -> str:
    finished = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", program],
        input=json.dumps(told),
        user=uid,
        group=uid,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    return str(finished.stdout)


@pytest.fixture
def here() -> Iterator[Site]:
    """A site in a place that everybody may enter, whose own folders are closed as the installer closes them."""
    with tempfile.TemporaryDirectory(prefix="memtrial-test-", dir="/opt") as name:
        Path(name).chmod(0o755)
        with site(Path(name), smoke, allowed=frozenset({OPERATOR_UID})) as made:
            SigningKey.create(made.world.state / "supervisor.key.pem")
            (made.world.state / "providers.json").touch(0o600)
            made.world.state.chmod(0o700)
            yield made


def order(here: Site, **changes: Any) -> str:
    plan = changes.pop("plan", here.plan.canonical())
    asked = {
        "kind": "dispatch",
        "approval_id": ID,
        "run_id": "run-1",
        "sealing_keyid": LEDGER.public.keyid,
        "plan_bytes": len(plan),
        "plan_sha256": sha256_hex(plan),
        **changes,
    }
    return str((canonical_bytes(asked) + b"\n" + plan).decode("latin-1"))


def answers(here: Site, *send: str, uid: int = OPERATOR_UID) -> list[str]:
    body = json.dumps({"model": "model-1", "messages": [{"role": "user", "content": "x"}]})
    told = {"socket": str(here.socket), "send": send, "call": body}
    return as_user(uid, CLIENT, told).splitlines()


def opening(here: Site, **changes: Any) -> str:
    trial = here.plan.trials[0]
    said = {"trial": trial.key, "task_id": "x", "condition": "x", "attempt": 1, "roles": ["agent"]}
    return canonical_bytes({"open": {**said, **changes}}).decode() + "\n"


def test_the_operator_reads_and_changes_nothing_of_the_supervisors(here):
    with_use = answers(here, order(here))
    assert "entry" in with_use[0]
    world = here.world
    targets = {
        **{str(p): "rb" for p in world.state.rglob("*") if p.is_file()},
        str(world.state / NONCES / "new"): "xb",
        f"/proc/{os.getpid()}/environ": "rb",
        f"/proc/{os.getpid()}/mem": "rb",
        **{str(p): "ab" for p in world.system.iterdir()},
        str(world.prefix / "interpreter"): "ab",
        str(world.prefix / "new"): "xb",
        str(world.repo / ".git/HEAD"): "ab",
        str(world.repo / ".git/refs/heads/new"): "xb",
        str(here.socket.parent / "new"): "xb",
    }
    assert len([t for t in targets if t.startswith(str(world.state))]) >= 8
    program = (
        "import json, sys\n"
        "for path, mode in json.loads(sys.stdin.read()).items():\n"
        "    try:\n        open(path, mode).read(1) if mode == 'rb' else open(path, mode)\n"
        "        print('reached', path)\n"
        "    except PermissionError:\n        pass\n"
    )
    assert as_user(OPERATOR_UID, program, targets) == ""
    folder = "import os, sys\ntry:\n    os.listdir(__import__('json').loads(sys.stdin.read()))\n    print('listed')\nexcept PermissionError: pass"
    assert as_user(OPERATOR_UID, folder, str(world.state)) == ""


def test_the_operator_dispatches_the_approved_run_and_calls_its_model(here):
    ready, opened, called = answers(here, order(here), opening(here))
    assert json.loads(ready)["entry"]["approval_id"] == ID
    assert "tokens" in opened
    assert called.startswith("HTTP/1.1 200")
    assert len(here.provider.seen) == 1


def refused(line: str) -> str:
    return str(json.loads(line)["failed"]["reference"])


def test_the_operator_dispatches_nothing_that_was_not_approved(here):
    plan = here.plan.canonical()
    for expected, changes in {
        "approval-not-listed": {"approval_id": "another"},
        "plan-not-the-approved-one": {"plan": plan.replace(b'"epochs":1', b'"epochs":2')},
        "plan-cut": {"plan_sha256": "0" * 64},
    }.items():
        (line,) = answers(here, order(here, **changes))
        assert refused(line) == expected
    for changes in (
        {"run_id": "../../etc"},
        {"run_id": ""},
        {"plan_bytes": 10**12},
        {"more": 1},
        {"approval_id": "../x"},
    ):
        assert answers(here, order(here, **changes)) in ([], [""])
    assert len(NonceBook(here.world.state / NONCES).state().lines) == 3
    assert here.provider.seen == []


def test_the_operator_gets_no_trial_of_another_plan_and_no_second_run(here):
    lines = answers(
        here,
        order(here),
        opening(here, trial="another"),
        opening(here, attempt=-1),
        opening(here, roles="agent"),
    )
    assert [refused(line) for line in lines[1:]] == ["trial-not-of-plan"] * 3
    (line,) = answers(here, order(here, run_id="run-2"))
    assert refused(line) == "nonce-used"
    assert here.provider.seen == []


# Has a trial opened, prints where its socket is, and holds it until its input ends.
HOLDER = """
import json, socket, sys
told = json.loads(sys.stdin.readline())
way = socket.socket(socket.AF_UNIX); way.settimeout(60); way.connect(told["socket"])
lines = way.makefile("rb")
for data in told["send"]:
    way.sendall(data.encode("latin-1"))
    answer = lines.readline()
print(json.loads(answer)["folder"], flush=True)
sys.stdin.readline()
"""
KNOCKER = """
import json, socket, sys
try:
    socket.socket(socket.AF_UNIX).connect(json.loads(sys.stdin.read()))
    print("connected")
except PermissionError:
    print("kept out")
"""


def test_a_trials_socket_is_its_operators_and_no_other_users(here):
    told = {"socket": str(here.socket), "send": [order(here), opening(here)]}
    with subprocess.Popen(
        ["/usr/bin/python3", "-I", "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=OPERATOR_UID,
        group=OPERATOR_UID,
        extra_groups=[],
        cwd="/",
        text=True,
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdin.write(json.dumps(told) + "\n")
        holder.stdin.flush()
        path = holder.stdout.readline().strip() + "/gateway.sock"
        found = [as_user(uid, KNOCKER, path) for uid in (OPERATOR_UID, STRANGER_UID)]
    assert found == ["connected\n", "kept out\n"]


def test_another_user_is_answered_nothing(here):
    assert answers(here, order(here), uid=STRANGER_UID) in ([], [""])
    assert len(NonceBook(here.world.state / NONCES).state().lines) == 3
