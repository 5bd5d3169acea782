"""Promise: an operator takes no answer of the supervisor for that to another question, and none without its record."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.model.dispatch import RECORD_FILES
from orchestrator.pipeline import dispatched
from orchestrator.pipeline.dispatched import Supervised
from tests.live import live_plan

Say = Callable[[socket.socket], None]


@pytest.fixture
def way() -> Iterator[tuple[Supervised, socket.socket]]:
    """A way whose other end the test holds."""
    made = Supervised(
        live_plan(phase="smoke", namespace="smoke-one", task_set="smoke"),
        "one",
        sealing_keyid="0" * 64,
    )
    made._connection, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    other.settimeout(20)
    with other:
        yield made, other
        made.close()


@contextlib.contextmanager
def saying(other: socket.socket, *answers: Say) -> Iterator[None]:
    """Answers one question after the other, each in its way, beside the block."""

    def work() -> None:
        for answer in answers:
            if not other.recv(65536):
                return
            answer(other)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join(20)
    assert not thread.is_alive()


def files(folder: Path) -> list[int]:
    folder.mkdir(exist_ok=True)
    for name in RECORD_FILES:
        (folder / name).write_bytes(b"line\n")
    return [os.open(folder / name, os.O_RDONLY) for name in RECORD_FILES]


def whole(data: bytes, handles: list[int]) -> Say:
    return lambda other: (socket.send_fds(other, [data], handles), None)[1]


def late(data: bytes, handles: list[int], seconds: float) -> Say:
    def say(other: socket.socket) -> None:
        time.sleep(seconds)
        with contextlib.suppress(OSError):
            socket.send_fds(other, [data], handles)

    return say


def test_a_late_answer_is_not_taken_for_the_next_questions(way, tmp_path, monkeypatch):
    made, other = way
    monkeypatch.setattr(dispatched, "TIMEOUT_S", 0.3)
    handles = files(tmp_path / "theirs")
    with (
        saying(other, late(b'{"traffic":"of the first"}\n', handles, 0.6)),
        pytest.raises(EnvironmentMissing, match="expected an answer"),
    ):
        made._ask(b'{"close":"first"}\n')
    monkeypatch.setattr(dispatched, "TIMEOUT_S", 20)
    with pytest.raises(EnvironmentMissing, match="no dispatch"):
        made._ask(b'{"close":"second"}\n')


def test_an_answer_that_trickles_in_has_one_deadline(way, monkeypatch):
    made, other = way
    monkeypatch.setattr(dispatched, "TIMEOUT_S", 0.5)

    def trickle(to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for _ in range(100):
                to.send(b"x")
                time.sleep(0.1)

    began_s = time.monotonic()
    with saying(other, trickle), pytest.raises(EnvironmentMissing, match=r"within|timed out"):
        made._ask(b"{}\n")
    assert time.monotonic() - began_s < 4


def test_two_answers_to_one_question_are_none(way, tmp_path):
    made, other = way
    with (
        saying(other, whole(b'{"a":1}\n{"b":2}\n', files(tmp_path / "theirs"))),
        pytest.raises(EnvironmentMissing, match="more than one answer"),
    ):
        made._ask(b"{}\n")
    with pytest.raises(EnvironmentMissing, match="no dispatch"):
        made._ask(b"{}\n")


def test_a_supervisor_that_breaks_off_before_a_run_began_is_no_reason_to_resume_one(way):
    made, other = way
    with saying(other, socket.socket.close), pytest.raises(EnvironmentMissing) as silent:
        made._ask(b"{}\n", first=True)
    assert "dispatch again" in (silent.value.hint or "")


@pytest.mark.parametrize("count", [0, 2])
def test_an_answer_without_the_record_ends_the_run(way, tmp_path, count):
    made, other = way
    handles = files(tmp_path / "theirs")[:count]
    with (
        saying(other, whole(b'{"ended":true}\n', handles)),
        pytest.raises(EnvironmentMissing, match=f"{count} of 3 descriptors"),
    ):
        made._ask(b"{}\n")


def test_a_copy_that_differs_ends_the_run(way, tmp_path):
    made, other = way
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / RECORD_FILES[0]).write_bytes(b"other\n")
    made.record_into(mine)
    with (
        saying(other, whole(b'{"ended":true}\n', files(tmp_path / "theirs"))),
        pytest.raises(IntegrityError, match="what the supervisor wrote"),
    ):
        made._ask(b"{}\n")
    assert other.recv(1) == b""


def test_the_last_answer_compares_the_whole_copy(way, tmp_path):
    made, other = way
    made.record_into(tmp_path / "mine")
    handles = files(tmp_path / "theirs")
    with saying(other, whole(b'{"a":1}\n', handles), whole(b'{"ended":true}\n', handles)):
        made._ask(b"{}\n")
        (tmp_path / "mine" / RECORD_FILES[0]).write_bytes(b"LINE\n")
        with pytest.raises(IntegrityError):
            made.end()
