"""Promise: the engine's own start is waited for, and a process that stays is listed whatever it calls itself."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time

import pytest

from orchestrator.core.places import images_root

AGENT = {"command": ["python3", "enter.py"], "descriptors": []}
START = {"command": ["runc", "init"], "descriptors": []}


@pytest.fixture
def stock(monkeypatch):
    spec = importlib.util.spec_from_file_location("stock", images_root() / "agent" / "stock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PATIENCE_S", 0.3)
    return module


def test_the_engines_own_start_is_waited_for(stock, monkeypatch):
    looks = iter([[AGENT, START], [AGENT, START], [AGENT]])
    monkeypatch.setattr(stock, "listed", lambda: next(looks))
    assert stock.processes() == [AGENT]


def test_a_process_that_stays_under_the_engines_name_is_listed(stock, monkeypatch):
    monkeypatch.setattr(stock, "listed", lambda: [AGENT, START])
    began = time.monotonic()
    assert stock.processes() == [AGENT, START]
    assert time.monotonic() - began < 5


def test_what_is_running_is_listed_with_its_command(stock):
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as child:
        # A program that has just been started has no command line for a moment.
        until = time.monotonic() + 20
        commands: list[object] = []
        while [sys.executable, "-c", "input()"] not in commands and time.monotonic() < until:
            commands = [entry["command"] for entry in stock.listed()]
        assert [sys.executable, "-c", "input()"] in commands
        assert child.stdin is not None
        child.stdin.close()
