"""Promise: a trial's socket serves the users that it was told by the kernel's account, and knows nothing of others."""

from __future__ import annotations

import os

import pytest

from orchestrator.gateway.scripted import ScriptedMode
from tests.unit.gateway.support import SCRIPT, chat, post, running


def test_a_user_who_is_not_admitted_gets_nothing_and_leaves_no_trace(tmp_path):
    asked: list[int] = []

    def admits(uid: int) -> bool:
        asked.append(uid)
        return False

    with running(ScriptedMode(SCRIPT), tmp_path, admits=admits) as gateway:
        opened = gateway.open()
        with pytest.raises(ConnectionError):
            post(opened, "/v1/chat/completions", chat())
        gateway.close_trial()
        assert gateway.exchanges() == []
    assert asked == [os.geteuid()]


def test_a_user_who_is_admitted_is_served(tmp_path):
    with running(ScriptedMode(SCRIPT), tmp_path, admits=lambda uid: uid == os.geteuid()) as gateway:
        assert post(gateway.open(), "/v1/chat/completions", chat())[0] == 200
