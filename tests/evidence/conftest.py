"""One recorded run of eight trials, sealed by a key that the tests hold: an insider has no more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.audit.trust import Trust
from orchestrator.core.keys import SigningKey
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.seal import Signer
from tests.played_chat import CHAT, record_chat_run
from tests.played_tools import record_tool_run
from tests.recorded import EIGHT, TINY, files_of, record_run, seal

NOW = "2099-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed run on disk and in memory, with the key that sealed it."""

    folder: Path
    files: dict[str, bytes]
    key: SigningKey

    @property
    def keyid(self) -> str:
        return self.key.public.keyid

    @property
    def trust(self) -> Trust:
        return Trust(now=NOW, keyid=self.keyid)


def sealed_run(results: Path, request) -> Sealed:
    folder = record_run(results, request)
    key = SigningKey.generate()
    seal(folder, Signer(key, "operator"))
    return Sealed(folder, files_of(folder), key)


@pytest.fixture(scope="session")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    """Eight trials. Read only: tests that change something take a copy."""
    return sealed_run(tmp_path_factory.mktemp("eight"), EIGHT)


@pytest.fixture(scope="session")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    """Two trials of an agent that asked a model through the gateway. Read only."""
    folder = record_chat_run(tmp_path_factory.mktemp("chatting"))
    key = SigningKey.generate()
    seal(folder, Signer(key, "operator"))
    return Sealed(folder, files_of(folder), key)


@pytest.fixture(scope="session")
def tooled(tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    """Two trials of an agent, one of which asked its memory as tools. Read only."""
    folder = record_tool_run(tmp_path_factory.mktemp("tooled"))
    key = SigningKey.generate()
    seal(folder, Signer(key, "operator"))
    return Sealed(folder, files_of(folder), key)


@pytest.fixture(scope="session")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    """Two trials of an agent that does nothing, one with memory and so charged to somebody. Read only."""
    request = PlanRequest(
        agents=("noop",), tasks=CHAT.tasks, conditions=("no_memory", "curated_file_budgeted")
    )
    return sealed_run(tmp_path_factory.mktemp("idle"), request)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    """One trial. Read only."""
    return sealed_run(tmp_path_factory.mktemp("tiny"), TINY)
