"""Promise: a socket listens before it can be found, takes nobody's place who lives, and waits for nobody to know."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core import sockets
from orchestrator.core.errors import UsageError
from orchestrator.core.sockets import listen_at


def reached(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        return client.connect_ex(str(path)) == 0


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as error:
        listen_at(path, backlog=1)
    return error.value.reference


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))
    return tmp_path / "s"


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Path]:
    """Somebody listens, and as many wait there as may."""
    with contextlib.ExitStack() as held, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(1)
        for _ in range(100):
            client = held.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            try:
                client.connect(str(tmp_path / "s"))
            except BlockingIOError:
                break
        else:
            pytest.fail("the backlog has no end")
        yield tmp_path / "s"


def test_a_free_path_gets_a_socket_for_everybody_and_nothing_beside_it(tmp_path):
    with listen_at(tmp_path / "s", backlog=1):
        assert reached(tmp_path / "s")
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o666
        assert names(tmp_path) == ["s"]


def test_a_socket_that_a_dead_process_left_is_replaced(dead):
    with listen_at(dead, backlog=1):
        assert reached(dead)
        assert names(dead.parent) == ["s"]


def test_whoever_listens_is_left_in_place(tmp_path):
    with listen_at(tmp_path / "s", backlog=8):
        assert refused(tmp_path / "s") == "socket-taken"
        assert reached(tmp_path / "s")
        assert names(tmp_path) == ["s"]


def test_whoever_is_too_busy_to_answer_listens_all_the_same(busy):
    assert refused(busy) == "socket-taken"
    assert names(busy.parent) == ["s"]


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda p: p.symlink_to("none")])
def test_what_is_no_socket_is_left_as_it_is(tmp_path, make: Callable[[Path], object]):
    make(tmp_path / "s")
    assert refused(tmp_path / "s") == "not-a-socket"
    assert names(tmp_path) == ["s"]


def test_a_socket_listens_before_it_can_be_found(tmp_path, monkeypatch):
    """In between, another process that begins would take it for a dead one."""
    found: list[bool] = []
    link = os.link

    def look(own: Path, path: Path) -> None:
        found.append(reached(own) and not path.exists())
        link(own, path)

    monkeypatch.setattr(os, "link", look)
    listen_at(tmp_path / "s", backlog=8).close()
    assert found == [True]


def test_of_two_that_find_the_same_dead_one_the_second_takes_nothing_away(dead, monkeypatch):
    check = sockets._check_dead
    others: list[Any] = []

    def late(path: Path) -> None:
        check(path)
        if not others:
            others.append(None)
            others[0] = listen_at(dead, backlog=8)

    monkeypatch.setattr(sockets, "_check_dead", late)
    assert refused(dead) == "socket-taken"
    assert reached(dead)
    assert names(dead.parent) == ["s"]
    others[0].close()


def test_of_two_that_begin_at_once_the_second_takes_nothing_away(dead, monkeypatch):
    remove = sockets._remove_dead
    others: list[Any] = []

    def late(path: Path) -> None:
        remove(path)
        if not others:
            others.append(None)
            others[0] = listen_at(dead, backlog=8)

    monkeypatch.setattr(sockets, "_remove_dead", late)
    assert refused(dead) == "socket-taken"
    assert reached(dead)
    others[0].close()


def test_one_that_somebody_else_took_away_meanwhile_is_no_obstacle(dead, monkeypatch):
    check = sockets._check_dead

    def gone(path: Path) -> None:
        check(path)
        path.unlink(missing_ok=True)

    monkeypatch.setattr(sockets, "_check_dead", gone)
    with listen_at(dead, backlog=1):
        assert reached(dead)


def test_a_folder_that_is_not_there_is_told_by_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        listen_at(tmp_path / "none" / "s", backlog=1)
