"""Fixtures that several rooms' tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


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
