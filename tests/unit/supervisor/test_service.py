"""Promise: the supervisor answers the users that it was told, to their question alone, with its own key."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.cli import supervisor as verb
from orchestrator.core.errors import ApprovalRefused, UsageError
from orchestrator.core.keys import SigningKey
from orchestrator.model.gate import ANSWER_TYPE, GateConfig, SupervisorAnswer, SupervisorQuestion
from orchestrator.supervisor import lines, service
from orchestrator.supervisor.service import Identity, Service, load_identity
from orchestrator.trust import ask
from orchestrator.trust.ask import ask_supervisor
from orchestrator.trust.envelope import open_signed
from orchestrator.trust.roles import Role
from tests.unit.trust.support import key

QUESTION = ("c" * 64, "a" * 64, "b" * 64)


def system(folder: Path, *, uid: int, signing: SigningKey, prefix: str = sys.prefix) -> Path:
    config = GateConfig(
        name="example",
        repository="example/memtrial",
        default_branch="main",
        root_sha256="0" * 64,
        supervisor_identity="supervisor-one",
        supervisor_uid=uid,
        supervisor_keyid=signing.public.keyid,
        supervisor_prefix=prefix,
        supervisor_state="/var/lib/memtrial",
        ledger_origin="example/approvals",
    )
    (folder / "gate.json").write_bytes(config.canonical())
    (folder / "supervisor.manifest.json").write_bytes(b"{}")
    return folder


@pytest.fixture
def place(tmp_path):
    signing = SigningKey.create(tmp_path / "key")
    return system(tmp_path, uid=os.geteuid(), signing=signing), tmp_path / "key", signing


def serving(identity: Identity, path: Path) -> Iterator[Service]:
    service = Service(identity, path)
    thread = threading.Thread(target=service.serve, daemon=True)
    thread.start()
    yield service
    service.close()
    thread.join(10)


@pytest.fixture
def served(place, tmp_path):
    folder, key_file, signing = place
    identity = load_identity(folder, key_file, allowed_uids=frozenset({os.geteuid()}))
    for _ in serving(identity, tmp_path / "s"):
        yield tmp_path / "s", signing


def test_the_answer_binds_the_question_and_the_supervisor(served):
    path, signing = served
    data = ask_supervisor(*QUESTION, path=path)
    role = Role("supervisor", 1, {signing.public.keyid: signing.public})
    found = open_signed(data, role, payload_type=ANSWER_TYPE, where="answer")
    said = SupervisorAnswer.parse_canonical(found.payload, where="answer")
    assert (said.challenge, said.approval_sha256, said.plan_sha256) == QUESTION
    assert (said.identity, said.uid) == ("supervisor-one", os.geteuid())


def test_a_user_who_is_not_among_the_allowed_gets_nothing(place, tmp_path):
    folder, key_file, _ = place
    identity = load_identity(folder, key_file, allowed_uids=frozenset({os.geteuid() + 1}))
    for _ in serving(identity, tmp_path / "s"):
        assert _ask_raw(tmp_path / "s", b"{}\n") == b""
        question = SupervisorQuestion(
            challenge="c" * 64, approval_sha256="a" * 64, plan_sha256="b" * 64
        )
        assert _ask_raw(tmp_path / "s", question.canonical() + b"\n") == b""


def _ask_raw(path: Path, data: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        try:
            connection.sendall(data)
            return connection.recv(1 << 16)
        except ConnectionError:
            return b""


@pytest.mark.parametrize(
    "data",
    [b"\n", b"{}\n", b"[]\n", b"x" * 10_000, b'{"challenge":1}\n', b"\xff\n"],
    ids=["empty", "no fields", "list", "endless", "wrong", "no text"],
)
def test_nonsense_gets_nothing_and_the_next_one_is_answered(served, data):
    path, _ = served
    assert _ask_raw(path, data) == b""
    assert ask_supervisor(*QUESTION, path=path)


class Failing:
    """A listener whose system has no descriptors left for a while."""

    def __init__(self, listener: socket.socket, times: int) -> None:
        self._listener, self._left = listener, times

    def accept(self):
        if self._left:
            self._left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()

    def __getattr__(self, name: str):
        return getattr(self._listener, name)


def test_a_system_without_descriptors_ends_nothing_and_the_log_says_so(
    place, tmp_path, monkeypatch
):
    monkeypatch.setattr(service, "AGAIN_S", 0.05)
    folder, key_file, _ = place
    identity = load_identity(folder, key_file, allowed_uids=frozenset({os.geteuid()}))
    said: list[str] = []
    made = Service(identity, tmp_path / "s", say=said.append)
    monkeypatch.setattr(made, "_listener", Failing(made._listener, 3))
    thread = threading.Thread(target=made.serve, daemon=True)
    thread.start()
    assert ask_supervisor(*QUESTION, path=tmp_path / "s")
    made.close()
    thread.join(10)
    assert not thread.is_alive()
    assert said == [
        "nobody can be let in: Too many open files; trying on",
        "callers are let in again",
    ]


def test_what_befalls_one_caller_stands_in_the_log(place, tmp_path, capfd):
    folder, key_file, _ = place
    identity = load_identity(folder, key_file, allowed_uids=frozenset({os.geteuid()}))
    for _ in serving(identity, tmp_path / "s"):
        assert _ask_raw(tmp_path / "s", b"\x1b[31m\n") == b""
        assert ask_supervisor(*QUESTION, path=tmp_path / "s")
    told = capfd.readouterr().err
    assert f"supervisor: uid {os.geteuid()} was served no further" in told
    assert "\x1b" not in told


def test_who_dawdles_is_served_no_further(served, monkeypatch):
    monkeypatch.setattr(lines, "LINE_TIMEOUT_S", 0.4)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(served[0]))
        for _ in range(60):
            try:
                connection.send(b"x")
            except OSError:
                break
            time.sleep(0.05)
        else:
            pytest.fail("a slow caller was served for ever")


def test_a_user_has_so_many_places_and_strangers_have_none(place, tmp_path, monkeypatch):
    """The kernel's word on who calls is made to differ: calls come from two users and a stranger in turn."""
    # Longer than the test takes on any machine: who is held here is not ended by being late.
    monkeypatch.setattr(lines, "LINE_TIMEOUT_S", 600)
    folder, key_file, _ = place
    callers = iter([5] * (service.MAX_OF_ONE_USER + 1) + [99] * 40 + [6])
    monkeypatch.setattr(service, "peer_uid", lambda _: next(callers))
    identity = load_identity(folder, key_file, allowed_uids=frozenset({5, 6}))
    said: list[str] = []
    made = Service(identity, tmp_path / "s", say=said.append)
    thread = threading.Thread(target=made.serve, daemon=True)
    thread.start()
    with contextlib.ExitStack() as held:

        def call() -> socket.socket:
            connection = held.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(20)
            connection.connect(str(tmp_path / "s"))
            return connection

        first = [call() for _ in range(service.MAX_OF_ONE_USER)]
        assert call().recv(1) == b""
        assert [call().recv(1) for _ in range(40)] == [b""] * 40
        assert ask_supervisor(*QUESTION, path=tmp_path / "s")
        first[0].settimeout(0.2)
        with pytest.raises(TimeoutError):
            first[0].recv(1)
    made.close()
    thread.join(10)
    assert said[0] == "uid 5 has 16 connections already: another one is refused"


def test_root_and_the_supervisors_own_user_are_answered_besides_the_operators():
    """They alone can read what a validation reads."""
    parser = argparse.ArgumentParser()
    verb.configure(parser)
    told = parser.parse_args(["--key", "k", "--allow-uid", "1000", "--allow-uid", "1001"])
    assert verb.allowed_uids(told) == {0, os.geteuid(), 1000, 1001}


def test_it_runs_as_its_own_user_with_its_own_key_or_not_at_all(tmp_path, place):
    folder, key_file, signing = place
    allowed = frozenset({0})
    system(folder, uid=os.geteuid() + 1, signing=signing)
    with pytest.raises(UsageError, match="to run as uid"):
        load_identity(folder, key_file, allowed_uids=allowed)
    system(folder, uid=os.geteuid(), signing=signing, prefix="/opt/other")
    with pytest.raises(UsageError, match="to run from"):
        load_identity(folder, key_file, allowed_uids=allowed)
    system(folder, uid=os.geteuid(), signing=key("other"))
    with pytest.raises(UsageError, match="expected key"):
        load_identity(folder, key_file, allowed_uids=allowed)
    system(folder, uid=os.geteuid(), signing=signing)
    key_file.chmod(0o644)
    with pytest.raises(UsageError, match="only its owner can read"):
        load_identity(folder, key_file, allowed_uids=allowed)


def test_a_socket_that_is_taken_is_not_taken_over(served, place):
    folder, key_file, _ = place
    identity = load_identity(folder, key_file, allowed_uids=frozenset({0}))
    with pytest.raises(UsageError, match="found another process listening"):
        Service(identity, served[0])


def test_a_socket_that_a_dead_supervisor_left_is_no_obstacle(place, tmp_path):
    folder, key_file, _ = place
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    identity = load_identity(folder, key_file, allowed_uids=frozenset({os.geteuid()}))
    for _ in serving(identity, tmp_path / "s"):
        assert ask_supervisor(*QUESTION, path=tmp_path / "s")


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda p: p.symlink_to("none")])
def test_what_is_no_socket_is_left_as_it_is(place, tmp_path, make):
    folder, key_file, _ = place
    identity = load_identity(folder, key_file, allowed_uids=frozenset({os.geteuid()}))
    make(tmp_path / "s")
    with pytest.raises(UsageError, match="found something"):
        Service(identity, tmp_path / "s")
    assert (tmp_path / "s").lstat()


def test_nobody_answering_is_a_refusal(tmp_path):
    with pytest.raises(ApprovalRefused) as refused:
        ask_supervisor(*QUESTION, path=tmp_path / "none")
    assert (refused.value.reference, refused.value.exit_code) == ("supervisor-unreachable", 5)


def test_an_answer_that_trickles_in_has_one_deadline(tmp_path, monkeypatch):
    monkeypatch.setattr(ask, "TIMEOUT_S", 0.5)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                for _ in range(100):
                    connection.send(b"x")
                    time.sleep(0.1)

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        with pytest.raises(ApprovalRefused, match=r"no whole answer|timed out"):
            ask_supervisor(*QUESTION, path=tmp_path / "s")
        assert thread.is_alive()
        thread.join(20)


def test_one_who_hangs_up_answers_nothing_and_a_late_answer_is_none(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def hang_up() -> None:
            for _ in range(2):
                listener.accept()[0].close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        with contextlib.suppress(ApprovalRefused):
            assert ask_supervisor(*QUESTION, path=tmp_path / "s") == b""
        times = iter([0.0, 1e9])
        monkeypatch.setattr(ask, "time", SimpleNamespace(monotonic=lambda: next(times)))
        with pytest.raises(ApprovalRefused) as refused:
            ask_supervisor(*QUESTION, path=tmp_path / "s")
        assert refused.value.reference == "supervisor-unreachable"
        thread.join(10)
