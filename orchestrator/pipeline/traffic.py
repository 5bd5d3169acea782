"""The gateway as a run needs it: its part of the plan, the script of a task set, the process behind a run.

Reads prices and, for scripted models, rehearsals: the script holds the answer and never enters a container.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from orchestrator.attest import layout
from orchestrator.core.errors import BudgetExhausted, IntegrityError
from orchestrator.core.files import read_confined
from orchestrator.core.places import local_home
from orchestrator.gateway.process import GatewayProcess
from orchestrator.model.gateway import (
    AnyGatewayPin,
    CassetteUse,
    GatewayPin,
    GatewaySetup,
    LivePin,
    LiveSetup,
    Traffic,
)
from orchestrator.model.plan import Plan
from orchestrator.model.script import Scenario, Script, ScriptedCall, ScriptedTurn, Wanted
from orchestrator.model.usage import Caps, PriceTable
from orchestrator.pipeline.options import CapLevel
from orchestrator.sources.loader import LoadedTask

SCRIPTED_MODEL = "scripted-1"
PRICES = "prices.json"
MAX_PRICES_BYTES = 4 * 1024 * 1024
# A scripted model costs nothing; the caps are there so that the same arithmetic runs as live.
SCRIPTED_CAPS = Caps(
    per_call_usd_micros=50_000_000,
    per_trial_usd_micros=500_000_000,
    per_condition_usd_micros=100_000_000_000,
    per_run_usd_micros=100_000_000_000,
)
MARK = "MEMTRIAL_PATCH"
AnyPin = TypeVar("AnyPin", GatewayPin, LivePin)


def load_prices(fixtures: Path) -> PriceTable:
    """Reads the dated price table."""
    data = read_confined(fixtures, PRICES, max_bytes=MAX_PRICES_BYTES)
    return PriceTable.parse(data, where=PRICES)


def script_of(tasks: tuple[LoadedTask, ...]) -> Script:
    """Returns the scripted model of a task set: it acts on the facts if they stand in what it was sent."""
    scenarios = []
    for task in tasks:
        rehearsal = task.rehearsal
        wanted = tuple(Wanted(any_of=fact.any_of) for fact in rehearsal.facts)
        for name, patch, needs in (
            ("told", rehearsal.reference_patch, wanted),
            ("not-told", rehearsal.natural_patch, ()),
        ):
            scenarios.append(
                Scenario(
                    name=f"{task.card.id}-{name}"[:80],
                    role="agent",
                    task_id=task.card.id,
                    wanted=needs,
                    turns=(_look(), _apply(patch)),
                )
            )
    return Script(scenarios=tuple(scenarios))


def _look() -> ScriptedTurn:
    return ScriptedTurn(text="Looking around.", calls=(_bash("ls"),))


def _apply(patch: str) -> ScriptedTurn:
    body = patch if patch.endswith("\n") else patch + "\n"
    command = f"git apply --whitespace=nowarn - <<'{MARK}'\n{body}{MARK}\n"
    return ScriptedTurn(text="Making the change.", calls=(_bash(command),))


def _bash(command: str) -> ScriptedCall:
    return ScriptedCall(name="bash", arguments=json.dumps({"command": command}))


def gateway_pin(fixtures: Path, tasks: tuple[LoadedTask, ...]) -> GatewayPin:
    """Returns the gateway's part of a plan with a scripted model."""
    return GatewayPin(
        mode="scripted",
        model=SCRIPTED_MODEL,
        script_sha256=script_of(tasks).digest_sha256(),
        prices=load_prices(fixtures),
        caps=SCRIPTED_CAPS,
    )


def with_caps(pin: AnyPin, caps: tuple[tuple[CapLevel, int], ...]) -> AnyPin:
    """Returns the gateway's part of a plan with other caps where some are asked for."""
    named = {f"per_{level}_usd_micros": usd_micros for level, usd_micros in caps}
    return pin.model_copy(update={"caps": pin.caps.model_copy(update=named)})


def caps_of(pin: AnyGatewayPin, by_itself: Caps) -> tuple[tuple[CapLevel, int], ...]:
    """Returns the caps that a plan was asked for: those that its gateway would not have by itself."""
    levels: tuple[CapLevel, ...] = ("call", "trial", "condition", "run")
    found = ((level, getattr(pin.caps, f"per_{level}_usd_micros")) for level in levels)
    return tuple(
        (level, usd_micros)
        for level, usd_micros in found
        if usd_micros != getattr(by_itself, f"per_{level}_usd_micros")
    )


@contextmanager
def gateway_of(
    plan: Plan, folder: Path, tasks: tuple[LoadedTask, ...], cassette: CassetteUse | None = None
) -> Iterator[GatewayProcess | None]:
    """Runs the gateway that a plan needs, beside the block; None if it needs none.

    Args:
        plan: the plan; its prices and caps are used.
        folder: the run's folder; the record goes to `gateway/` below it.
        tasks: the tasks of the plan, in its order.
        cassette: a recording to play instead of the plan's script.

    Raises:
        IntegrityError: the tasks give another script than the one the plan pins.
    """
    if plan.gateway is None:
        yield None
        return
    # A socket's path is short by the kernel's rule, so sockets do not live in the results folder.
    with tempfile.TemporaryDirectory(prefix="memtrial-") as sockets:
        setup = _setup(plan.gateway, folder, f"{sockets}/s", tasks, cassette)
        with GatewayProcess(setup) as process:
            yield process


def _setup(
    pin: AnyGatewayPin,
    folder: Path,
    sockets: str,
    tasks: tuple[LoadedTask, ...],
    cassette: CassetteUse | None,
) -> GatewaySetup | LiveSetup:
    record = str(folder / "gateway")
    if isinstance(pin, LivePin) and cassette is None:
        return LiveSetup(
            folder=record,
            sockets=sockets,
            plan=str(folder / layout.PLAN),
            approval=str(folder / layout.APPROVAL),
            home=str(local_home()),
            run_id=folder.name,
        )
    script = script_of(tasks) if isinstance(pin, GatewayPin) else None
    if isinstance(pin, GatewayPin) and script and script.digest_sha256() != pin.script_sha256:
        raise IntegrityError(
            "script-changed",
            "expected the script that the plan pins, found another",
            hint="use the version of memtrial that made the plan, or make a new plan",
        )
    return GatewaySetup(
        folder=record,
        sockets=sockets,
        prices=pin.prices,
        caps=pin.caps,
        script=None if cassette else script,
        cassette=cassette,
    )


def was_capped(traffic: Traffic | None) -> bool:
    """Tells whether a cap of the call or the trial refused a call: that is the arm's own affair."""
    return traffic is not None and bool({"call", "trial"}.intersection(traffic.caps_met))


def check_traffic(traffic: Traffic | None) -> None:
    """Refuses, before anything is graded, an attempt that says nothing about its arm.

    Raises:
        IntegrityError: its replay left its recording.
        BudgetExhausted: a cap of the condition or of the whole run was met.
    """
    shared = {"condition", "run"}.intersection(traffic.caps_met) if traffic is not None else None
    if shared:
        raise BudgetExhausted(
            "budget-exhausted",
            f"expected room for the trial's calls, found the cap per {min(shared)} used up",
            hint="make a plan with a higher cap",
        )
    left = traffic.divergence if traffic is not None else None
    if left is not None:
        raise IntegrityError(
            "replay-diverged",
            f"call {left.ordinal} of {left.api} ({left.role}) left its recording at {left.pointer or '/'}: expected {left.recorded!r}, found {left.found!r}",
            hint="the container did something else than in the recorded run: compare the two",
        )
