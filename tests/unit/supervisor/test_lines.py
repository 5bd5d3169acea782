"""Promise: a message has one deadline, however it comes in pieces, and an answer goes out whole."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.supervisor import lines
from orchestrator.supervisor.lines import Lines


@pytest.fixture
def pair() -> Iterator[tuple[Lines, socket.socket]]:
    mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    other.settimeout(20)
    with mine, other:
        yield Lines(mine), other


def trickling(other: socket.socket, count: int) -> threading.Thread:
    def work() -> None:
        for _ in range(count):
            try:
                other.send(b"x")
            except OSError:
                return
            time.sleep(0.05)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_line_that_trickles_in_is_waited_for_no_longer_than_one_that_never_comes(
    pair, monkeypatch
):
    mine, other = pair
    monkeypatch.setattr(lines, "LINE_TIMEOUT_S", 0.4)
    thread = trickling(other, 60)
    with pytest.raises(TimeoutError):
        mine.line()
    assert thread.is_alive()


def test_the_deadline_of_an_order_counts_from_its_first_byte(pair, monkeypatch):
    mine, other = pair
    monkeypatch.setattr(lines, "LINE_TIMEOUT_S", 0.3)
    timer = threading.Timer(0.8, other.sendall, (b"order\n",))
    timer.start()
    assert mine.line(waits_for_first_byte=True) == b"order"
    thread = trickling(other, 60)
    with pytest.raises(TimeoutError):
        mine.line(waits_for_first_byte=True)
    assert thread.is_alive()


def test_what_follows_an_order_at_once_is_begun_already(pair, monkeypatch):
    mine, other = pair
    monkeypatch.setattr(lines, "LINE_TIMEOUT_S", 0.3)
    other.sendall(b"one\ntwo")
    assert mine.line(waits_for_first_byte=True) == b"one"
    with pytest.raises(TimeoutError):
        mine.line(waits_for_first_byte=True)


def test_a_plan_that_trickles_in_has_one_deadline(pair, monkeypatch):
    mine, other = pair
    monkeypatch.setattr(lines, "PLAN_TIMEOUT_S", 0.4)
    thread = trickling(other, 60)
    with pytest.raises(TimeoutError):
        mine.exactly(1000)
    assert thread.is_alive()


def test_a_line_longer_than_its_bound_is_refused(pair):
    mine, other = pair
    other.sendall(b"x" * 100)
    with pytest.raises(DocumentError, match="short line"):
        mine.line(10)


def test_who_ends_in_the_middle_of_a_line_has_said_nothing(pair):
    mine, other = pair
    other.sendall(b"half")
    other.shutdown(socket.SHUT_WR)
    assert mine.line() is None


def test_a_large_answer_goes_out_whole_with_its_descriptors(pair, tmp_path):
    mine, other = pair
    (tmp_path / "f").write_bytes(b"x")
    data = os.urandom(3_000_000)
    heard = bytearray()
    came: list[int] = []

    def hear() -> None:
        while len(heard) < len(data):
            piece, handles, _, _ = socket.recv_fds(other, 65536, 3)
            heard.extend(piece)
            came.extend(handles)
            time.sleep(0.001)

    thread = threading.Thread(target=hear, daemon=True)
    thread.start()
    with (tmp_path / "f").open("rb") as file:
        mine.answer(data, [file.fileno()] * 3)
    thread.join(20)
    assert bytes(heard) == data
    assert len(came) == 3
    for handle in came:
        os.close(handle)


def test_who_goes_with_a_whole_answer_was_answered(pair, tmp_path, monkeypatch):
    mine, other = pair
    (tmp_path / "f").write_bytes(b"x")
    send = socket.send_fds

    def taken(*parts: Any) -> int:
        sent = send(*parts)
        with other:
            assert other.recv(100) == b"ended\n"
        return sent

    monkeypatch.setattr(socket, "send_fds", taken)
    with (tmp_path / "f").open("rb") as file:
        mine.answer(b"ended\n", [file.fileno()])


def test_who_takes_no_answer_is_not_waited_for_longer_than_its_deadline(pair, monkeypatch):
    mine, _ = pair
    monkeypatch.setattr(lines, "SEND_TIMEOUT_S", 0.3)
    with pytest.raises(TimeoutError):
        mine.answer(b"x" * 10_000_000)
