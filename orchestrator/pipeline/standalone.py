"""A gateway for a person: serves a script or one recorded trial until it is interrupted.

Reads script, prices and cassette; writes a record. Prints nothing itself: it hands over what a client needs.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.errors import UsageError
from orchestrator.core.places import fixtures_root, results_root
from orchestrator.gateway.gateway import Gateway, offline_gateway
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.gateway import CassetteUse, GatewaySetup
from orchestrator.model.script import Script
from orchestrator.model.usage import PriceTable
from orchestrator.pipeline.find import find_run
from orchestrator.pipeline.replay import cassette_of
from orchestrator.pipeline.run import read_plan
from orchestrator.pipeline.traffic import SCRIPTED_CAPS, load_prices
from orchestrator.protocols import TrialPlace

TRIAL = "standalone"


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for on the command line."""

    script: Path | None
    prices: Path | None
    cassette: str | None
    trial: str | None
    socket: Path | None
    port: int | None
    record: Path | None


def serve(wish: Wish, ready: Callable[[dict[str, object]], None]) -> int:
    """Serves until SIGINT or SIGTERM; returns the exit code.

    Raises:
        UsageError: options that do not fit together, or a file, socket or run that cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="memtrial-") as temporary:
        return asyncio.run(_serve(wish, Path(temporary), ready))


async def _serve(wish: Wish, temporary: Path, ready: Callable[[dict[str, object]], None]) -> int:
    setup, place = _setup(wish, temporary)
    gateway = offline_gateway(setup)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        opened = await gateway.open_trial(place)
        ready(
            {"address": await _listen(gateway, wish), **dict(opened.tokens), "record": setup.folder}
        )
        await stopped.wait()
        await gateway.close_trial(place.trial)
    finally:
        await gateway.close()
    return 0


async def _listen(gateway: Gateway, wish: Wish) -> str:
    if wish.socket is not None:
        await gateway.listen_unix(wish.socket.absolute())
        return f"unix:{wish.socket.absolute()}"
    port = await gateway.listen_loopback(wish.port or 0)
    return f"http://127.0.0.1:{port}"


def _setup(wish: Wish, temporary: Path) -> tuple[GatewaySetup, TrialPlace]:
    folder, sockets = str(wish.record or temporary / "record"), str(temporary / "s")
    if wish.script is not None and wish.cassette is None:
        script = Script.parse(_read(wish.script), where=wish.script.name)
        prices = (
            PriceTable.parse(_read(wish.prices), where=wish.prices.name)
            if wish.prices
            else load_prices(fixtures_root())
        )
        setup = GatewaySetup(
            folder=folder, sockets=sockets, prices=prices, caps=SCRIPTED_CAPS, script=script
        )
        return setup, _place(TRIAL, TRIAL, 1)
    if wish.cassette is not None and wish.script is None:
        return _replaying(wish.cassette, wish.trial, folder, sockets)
    raise UsageError(
        "gateway-mode",
        "expected exactly one of --script and --cassette, found both or none",
        hint="add --script FILE or --cassette RUN",
    )


def _replaying(
    name: str, trial: str | None, folder: str, sockets: str
) -> tuple[GatewaySetup, TrialPlace]:
    run = find_run(results_root(), name)
    plan = read_plan(run / "plan.json")
    use = cassette_of(run, plan, replay(read_entries(run / "ledger.jsonl")[0]))
    keys = [key for key, _ in use.attempts]
    chosen = trial or (keys[0] if len(keys) == 1 else None)
    if chosen not in keys or plan.gateway is None:
        raise UsageError(
            "trial-unknown",
            f"expected --trial with one of {', '.join(keys)}, found {trial!r}",
            hint="add --trial KEY",
        )
    setup = GatewaySetup(
        folder=folder,
        sockets=sockets,
        prices=plan.gateway.prices,
        caps=plan.gateway.caps,
        cassette=CassetteUse(folder=use.folder, attempts=use.attempts),
    )
    task_id, condition, *_ = chosen.split("/")
    return setup, _place(chosen, task_id, dict(use.attempts)[chosen], condition)


def _place(trial: str, task_id: str, attempt: int, condition: str = TRIAL) -> TrialPlace:
    return TrialPlace(
        trial=trial,
        task_id=task_id,
        condition=condition,
        attempt=attempt,
        roles=("agent", "memory", "judge"),
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            "file-missing",
            f"{path}: expected a file, found {error.strerror}",
            hint="name a file that exists",
        ) from error
