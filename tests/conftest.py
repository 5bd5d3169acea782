"""Fixtures that several rooms' tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from orchestrator.core.places import cache_root

ROOT = Path(__file__).resolve().parents[1]
# What installations may share: content that is named by its digest.
SHARED = ("downloads", "images", "layers")


def pytest_configure() -> None:
    """Gives each worker of a parallel run an installation of its own, as if it had a machine to itself.

    What one worker's killed runs leave in the engine is then not the other's to find, count or remove. Whoever
    starts the tests in the background has them ignore interrupts, and commands under test would inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return
    shared = cache_root()
    own = shared / "workers" / worker
    own.mkdir(parents=True, exist_ok=True)
    for name in SHARED:
        (shared / name).mkdir(parents=True, exist_ok=True)
        if not (own / name).exists():
            (own / name).symlink_to(shared / name)
    os.environ["MEMTRIAL_CACHE"] = str(own)


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The shipped fixtures."""
    return ROOT / "fixtures"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder of its own."""
    folder = tmp_path / "results"
    monkeypatch.setenv("MEMTRIAL_RESULTS", str(folder))
    return folder


@pytest.fixture(scope="session")
def command_environment() -> dict[str, str]:
    """Environment for child processes that run the memtrial command."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
