"""Promise: every user has places of their own, and a run's sockets are its operator's and its containers' alone."""

from __future__ import annotations

import os
import stat

import pytest

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.supervisor.peers import Places, close_to_others, may_call


def test_one_user_cannot_take_anothers_places():
    places = Places(2)
    assert [places.take(1) for _ in range(3)] == [True, True, False]
    assert places.take(2)
    places.give_back(1)
    assert places.take(1)


@pytest.mark.parametrize(
    ("uid", "expected"),
    [(1000, True), (0, True), (100_000, True), (1001, False), (65_534, False), (99_999, False)],
    ids=["operator", "root", "container", "other user", "nobody", "last account"],
)
def test_a_trials_socket_serves_its_operator_and_containers_and_no_other_account(uid, expected):
    assert may_call(uid, 1000) is expected


def test_a_closed_folder_is_its_owners_and_one_operators(tmp_path):
    close_to_others(tmp_path, os.geteuid() + 1)
    mode = stat.S_IMODE(tmp_path.stat().st_mode)
    # With an access list the bits of the group are its mask, and no right of a group.
    assert mode & 0o707 == 0o700
    data = os.getxattr(tmp_path, "system.posix_acl_access")
    assert (os.geteuid() + 1).to_bytes(4, "little") in data


def test_a_closed_folder_of_the_owners_own_needs_no_access_list(tmp_path):
    tmp_path.chmod(0o755)
    close_to_others(tmp_path, os.geteuid())
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_without_access_lists_nobody_is_let_in(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    with pytest.raises(EnvironmentMissing, match="access lists"):
        close_to_others(tmp_path, os.geteuid() + 1)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
