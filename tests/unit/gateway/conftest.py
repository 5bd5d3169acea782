"""A fake provider, and gateways in every mode, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from orchestrator.gateway.keys import ProviderKeys
from orchestrator.gateway.live import LiveMode, Patience
from orchestrator.gateway.scripted import ScriptedMode
from orchestrator.gateway.secrets import Secrets
from tests.unit.gateway.support import PLAN_SHA256, SCRIPT, Running, mint_permit, running
from tests.unit.gateway.upstream import FakeServer, fake_provider

KEYS = {
    "anthropic": "planted-anthropic-key-7f3a9c/+=x",
    "openai": "planted-openai-key-51bd02/+=y",
}
QUICK = Patience(tries=4, first_wait_s=0.01, longest_wait_s=0.05, connect_s=2, idle_s=5)


@pytest.fixture
def provider() -> Iterator[FakeServer]:
    with fake_provider() as server:
        yield server


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Running]:
    with running(ScriptedMode(SCRIPT), tmp_path) as made:
        yield made


MakeLive = Callable[..., Running]


@pytest.fixture
def make_live(provider: FakeServer, tmp_path: Path) -> Iterator[MakeLive]:
    """Makes live gateways against the fake provider, with keys that are easy to look for."""
    with ExitStack() as stack:

        def make(
            *,
            patience: Patience = QUICK,
            origin: str | None = None,
            providers: tuple[str, ...] = ("anthropic", "openai"),
            models: tuple[str, ...] = ("model-1", "embed-1"),
            **changes: Any,
        ) -> Running:
            where = origin or provider.origin
            permit = mint_permit(*((name, where) for name in providers), models=models)
            keys = ProviderKeys(KEYS)  # type: ignore[arg-type]
            mode = LiveMode(permit, keys, plan_sha256=PLAN_SHA256, patience=patience)
            secrets = Secrets(keys.values())
            return stack.enter_context(running(mode, tmp_path, secrets=secrets, **changes))

        yield make


@pytest.fixture
def live(make_live: MakeLive) -> Running:
    return make_live()
