"""The gateway as a run needs it: its part of the plan, the script of a task set, the process behind a run.

Reads prices and, for scripted models, rehearsals: the script holds the answer and never enters a container.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from orchestrator.agents.chat import CHAT_AGENT
from orchestrator.agents.registry import speech_of, speeches_of
from orchestrator.agents.speech import Speech
from orchestrator.attest import layout
from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.core.files import read_confined
from orchestrator.core.places import local_home
from orchestrator.gateway.process import GatewayProcess
from orchestrator.memory.tools.server import ARGUMENT_OF, SERVER, TOOLS
from orchestrator.model.gateway import (
    AnyGatewayPin,
    CassetteUse,
    GatewayPin,
    GatewaySetup,
    LivePin,
    LiveSetup,
)
from orchestrator.model.plan import Plan
from orchestrator.model.script import Scenario, Script, ScriptedCall, ScriptedTurn, Wanted
from orchestrator.model.usage import Caps, PriceTable
from orchestrator.pipeline.dispatched import Supervised
from orchestrator.pipeline.livebook import GATEWAY, keep_book
from orchestrator.pipeline.options import LEVELS, CapLevel
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


def script_of(
    tasks: tuple[LoadedTask, ...], speeches: Mapping[str, Speech] | None = None
) -> Script:
    """Returns the scripted model of a task set: it acts on the facts if they stand in what it was sent.

    Args:
        tasks: the tasks; their rehearsals hold the answers.
        speeches: how each agent that asks is spoken to, by name; by default the chat agent alone.
    """
    chat = speech_of(CHAT_AGENT)
    speeches = ({CHAT_AGENT: chat} if chat else {}) if speeches is None else speeches
    # The chat agent takes any model id, so its scenarios come last.
    order = sorted(speeches, key=lambda agent: (agent == CHAT_AGENT, agent))
    return Script(
        scenarios=tuple(
            scenario
            for agent in order
            for task in tasks
            for scenario in _scenarios(task, agent, speeches[agent])
        )
    )


def _scenarios(task: LoadedTask, agent: str, speech: Speech) -> tuple[Scenario, ...]:
    """Returns what is said to an agent about a task: told, or not, and where tools are there they are asked first."""
    rehearsal = task.rehearsal
    wanted = tuple(Wanted(any_of=fact.any_of) for fact in rehearsal.facts)
    chat = agent == CHAT_AGENT
    search = _search(speech, task.brief.prompt)
    looks: list[tuple[str, str | None, ScriptedCall]] = [("", None, _command(speech, "ls"))]
    if search is not None:
        looks.insert(0, ("-by-tool", search[0], search[1]))
    return tuple(
        Scenario(
            name=f"{task.card.id}-{name}{by}{'' if chat else f'-{agent}'}"[-80:].lstrip("-._"),
            role="agent",
            model=None if chat else speech.model,
            task_id=task.card.id,
            offers=offers,
            wanted=needs,
            turns=_turns(speech, patch, look),
        )
        for by, offers, look in looks
        for name, patch, needs in (
            ("told", rehearsal.reference_patch, wanted),
            ("not-told", rehearsal.natural_patch, ()),
        )
    )


def _search(speech: Speech, prompt: str) -> tuple[str, ScriptedCall] | None:
    """Returns the name under which a request offers the memory's search, and the call of it."""
    if speech.server is None:
        return None
    before, apart = speech.server[0].format(server=SERVER), speech.server[1]
    name = str(TOOLS[0]["name"])
    arguments = json.dumps({ARGUMENT_OF[name]: prompt})
    space = before.rstrip("._") if apart else None
    return before + name, ScriptedCall(
        name=name if apart else before + name, namespace=space, arguments=arguments
    )


def _turns(speech: Speech, patch: str, look: ScriptedCall) -> tuple[ScriptedTurn, ...]:
    body = patch if patch.endswith("\n") else patch + "\n"
    change = f"git apply --whitespace=nowarn - <<'{MARK}'\n{body}{MARK}\n"
    said = [("Looking around.", look), ("Making the change.", _command(speech, change))]
    if speech.farewell is not None:
        said.append(("Done.", _command(speech, speech.farewell)))
    return tuple(ScriptedTurn(text=text, calls=(call,)) for text, call in said)


def _command(speech: Speech, command: str) -> ScriptedCall:
    return ScriptedCall(name=speech.tool, arguments=json.dumps({speech.argument: command}))


def scripted_prices(table: PriceTable, speeches: Iterable[Speech]) -> PriceTable:
    """Returns the price table with the scripted model's price under every id that it goes by."""
    price = table.find(SCRIPTED_MODEL)
    named = {speech.model: speech for speech in speeches}
    missing = sorted(name for name in named if table.find(name) is None)
    if price is None or not missing:
        return table
    more = tuple(price.model_copy(update={"model": name}) for name in missing)
    return table.model_copy(update={"models": (*table.models, *more)})


def gateway_pin(
    fixtures: Path, tasks: tuple[LoadedTask, ...], speeches: Mapping[str, Speech]
) -> GatewayPin | None:
    """Returns the gateway's part of a plan with a scripted model; None if no agent asks one."""
    if not speeches:
        return None
    return GatewayPin(
        mode="scripted",
        model=SCRIPTED_MODEL,
        script_sha256=script_of(tasks, speeches).digest_sha256(),
        prices=scripted_prices(load_prices(fixtures), speeches.values()),
        caps=SCRIPTED_CAPS,
    )


def with_caps(pin: AnyPin, caps: tuple[tuple[CapLevel, int], ...]) -> AnyPin:
    """Returns the gateway's part of a plan with other caps where some are asked for.

    Raises:
        UsageError: a cap that lets nothing through, or one that promises more than a cap around it.
    """
    named = {f"per_{level}_usd_micros": usd_micros for level, usd_micros in caps}
    found = pin.caps.model_copy(update=named)
    for level, usd_micros in caps:
        around = LEVELS[LEVELS.index(level) + 1 :]
        outer = next((n for n in around if cap_of(found, n) < usd_micros), None)
        if usd_micros < 1 or outer is not None:
            room = (
                f"at most {cap_of(found, outer)}, the cap per {outer}" if outer else "more than 0"
            )
            raise UsageError(
                "cap-does-not-nest",
                f"expected a cap per {level} of {room}, found {usd_micros} micro-USD",
                hint="lower it, or raise the caps around it: call, trial, condition, run",
            )
    return pin.model_copy(update={"caps": found})


def cap_of(caps: Caps, level: CapLevel) -> int:
    """Returns the cap of a level, in micro-USD."""
    found: int = getattr(caps, f"per_{level}_usd_micros")
    return found


def caps_of(pin: AnyGatewayPin, by_itself: Caps) -> tuple[tuple[CapLevel, int], ...]:
    """Returns the caps that a plan was asked for: those that its gateway would not have by itself."""
    return tuple(
        (level, cap_of(pin.caps, level))
        for level in LEVELS
        if cap_of(pin.caps, level) != cap_of(by_itself, level)
    )


@contextmanager
def gateway_of(
    plan: Plan,
    folder: Path,
    tasks: tuple[LoadedTask, ...],
    cassette: CassetteUse | None = None,
    supervised: Supervised | None = None,
) -> Iterator[GatewayProcess | Supervised | None]:
    """Runs the gateway that a plan needs, beside the block; None if it needs none.

    Args:
        plan: the plan; its prices and caps are used.
        folder: the run's folder; the record goes to `gateway/` below it.
        tasks: the tasks of the plan, in its order.
        cassette: a recording to play instead of the plan's script.
        supervised: the run's gateway in a supervisor's process, for phases smoke and official.

    Raises:
        IntegrityError: the tasks give another script than the one the plan pins.
    """
    if plan.gateway is None:
        yield None
        return
    if supervised is not None:
        supervised.record_into(folder / GATEWAY)
        with ExitStack() as ends:
            ends.callback(supervised.end)
            yield supervised
        return
    # A socket's path is short by the kernel's rule, so sockets do not live in the results folder.
    with tempfile.TemporaryDirectory(prefix="memtrial-") as sockets:
        setup = _setup(plan, folder, f"{sockets}/s", tasks, cassette)
        process = GatewayProcess(setup)
        with ExitStack() as ends:
            if isinstance(setup, LiveSetup):
                ends.callback(keep_book, folder, local_home())
            # Entered last, so it has ended before its book is copied.
            yield ends.enter_context(process)


def _setup(
    plan: Plan,
    folder: Path,
    sockets: str,
    tasks: tuple[LoadedTask, ...],
    cassette: CassetteUse | None,
) -> GatewaySetup | LiveSetup:
    pin, record = plan.gateway, str(folder / "gateway")
    if pin is None:
        raise IntegrityError("plan-without-gateway", "expected a gateway, found none", hint="run")
    if isinstance(pin, LivePin) and cassette is None:
        return LiveSetup(
            folder=record,
            sockets=sockets,
            plan=str(folder / layout.PLAN),
            approval=str(folder / layout.APPROVAL),
            home=str(local_home()),
            run_id=folder.name,
        )
    script = script_of(tasks, speeches_of(plan.agents)) if isinstance(pin, GatewayPin) else None
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
