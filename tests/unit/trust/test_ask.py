"""Promise: the supervisor is asked with one question and one deadline, and its line is taken as soon as it is whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.trust import ask
from orchestrator.trust.ask import MAX_ANSWER_BYTES, TIMEOUT_S, ask_supervisor

QUESTION = ("c" * 64, "a" * 64, "b" * 64)
Piece = tuple[float, bytes]


class Line:
    """A connection on which each piece comes after so many seconds of a clock of its own."""

    def __init__(self, pieces: list[Piece]) -> None:
        self._pieces = list(pieces)
        self.now_s = 100.0
        self.timeouts: list[float] = []
        self.sent = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def settimeout(self, seconds: float) -> None:
        self.timeouts.append(seconds)

    def connect(self, path: str) -> None:
        assert path == "/s"

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def recv(self, _: int) -> bytes:
        after_s, piece = self._pieces.pop(0)
        self.now_s += after_s
        return piece


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Piece]], tuple[Line, bytes]]:
    def asked(pieces: list[Piece]) -> tuple[Line, bytes]:
        line = Line(pieces)
        sockets: Any = type("sockets", (), {"AF_UNIX": 1, "SOCK_STREAM": 1})
        sockets.socket = lambda *_: line
        monkeypatch.setattr(ask, "socket", sockets)
        monkeypatch.setattr(ask, "time", SimpleNamespace(monotonic=lambda: line.now_s))
        return line, ask_supervisor(*QUESTION, path=Path("/s"))

    return asked


def test_a_whole_line_is_taken_though_the_other_side_stays(asking):
    line, answer = asking([(1.0, b'{"a"'), (1.0, b":1}\n")])
    assert answer == b'{"a":1}'
    assert line.sent.endswith(b"}\n")


def test_each_piece_is_waited_for_only_as_long_as_the_deadline_leaves(asking):
    line, _ = asking([(4.0, b"a"), (3.0, b"b\n")])
    assert line.timeouts == [TIMEOUT_S, TIMEOUT_S, TIMEOUT_S - 4.0]


def test_past_the_deadline_nothing_more_is_read(asking):
    with pytest.raises(ApprovalRefused, match="no whole answer within 10 s") as refused:
        asking([(TIMEOUT_S, b"a"), (0.0, b"b\n")])
    assert refused.value.reference == "supervisor-unreachable"


def test_who_hangs_up_has_answered_what_came(asking):
    _, answer = asking([(0.0, b"half"), (0.0, b"")])
    assert answer == b"half"


def test_more_than_any_answer_is_not_read_to_its_end(asking):
    _, answer = asking([(0.0, b"x" * MAX_ANSWER_BYTES), (0.0, b"x"), (0.0, b"never read\n")])
    assert answer == b"x" * (MAX_ANSWER_BYTES + 1)
