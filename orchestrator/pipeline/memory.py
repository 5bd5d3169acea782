"""What a trial hands to its memory system: sessions, a query, an empty place, and a fresh adapter.

Sees the history, the prompt and the plan. The prompt is wrapped into the query here and is not handed over
before the store is frozen; the answer key is not known to this module.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.core.places import added_conditions_path, fixtures_root, images_root
from orchestrator.memory import shelf
from orchestrator.memory.command import CommandAdapter, program_sha256, read_program
from orchestrator.memory.late import LateAdapter
from orchestrator.memory.life import Assignment, Limits, sessions_sha256
from orchestrator.memory.sessions import HistoryClock, sessions_of
from orchestrator.memory.supplies import Supplies
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.condition import Condition
from orchestrator.model.lifecycle import GoldFacts, Query
from orchestrator.model.review import ReviewLog
from orchestrator.model.task import History
from orchestrator.pipeline.asking import asker_of
from orchestrator.plugins import MEMORY_GROUP, Plugin, find_plugin, load_plugin
from orchestrator.protocols import (
    GatewayAccess,
    MemoryAdapter,
    MemoryPlace,
    MemoryProgram,
    OpenBox,
)
from orchestrator.sandbox.products import product_recipe_sha256

SEED_DIGITS = 12
"""Hexadecimal digits of a seed: it stays an exact integer in JSON."""

MakeAdapter = Callable[[], MemoryAdapter]


def program_of(condition: Condition) -> MemoryProgram:
    """Reads the program of a command arm, beside the registry that names it."""
    added = added_conditions_path()
    root = fixtures_root()
    if added is not None and (added.parent / (condition.program or "")).is_dir():
        root = added.parent
    read = read_program(root / (condition.program or ""))
    return replace(read, product=condition.product, variant=condition.variant)


def adapter_of(
    condition: Condition,
    curated: str | None,
    counter: TokenCounter,
    start: OpenBox | None = None,
    *,
    review: ReviewLog | None = None,
) -> MakeAdapter:
    """Returns what makes a fresh adapter of an arm.

    Args:
        condition: the arm.
        curated: the curated file of the task, for an arm that serves it.
        counter: counts tokens.
        start: starts programs in containers; None where there is no engine.
        review: a person's answers on what the arm will hold back.

    Raises:
        DocumentError: the arm serves a curated file and the task has none.
        EnvironmentMissing: its code is not in this installation.
        IntegrityError: the code of a program or a package is not what the arm's pin is over, now that it is read.
    """
    if condition.adapter_kind == "entry_point":
        plugin = find_plugin(MEMORY_GROUP, condition.adapter)
        _require_pin(condition, plugin.sha256)
        return lambda: LateAdapter(partial(_foreign, plugin))
    if condition.adapter_kind == "command":
        if start is None:
            raise EnvironmentMissing(
                "engine-missing",
                f"condition {condition.id}: expected an engine for a memory system in its own container, found none",
                hint="run `memtrial engine`",
            )
        program = program_of(condition)
        _require_pin(condition, _program_pin(condition, program))
        return lambda: CommandAdapter(program, start, counter)
    over = shelf.shelved(condition.adapter).over
    below = Supplies(counter=counter, curated=curated)
    supplies = Supplies(
        counter=counter,
        curated=curated,
        variant=condition.variant,
        review=review,
        asks=asker_of,
        inner=None if over is None else lambda: shelf.make(over, below),
    )
    # What cannot be made at all is no failure of the arm: it is found before a trial begins.
    shelf.make(condition.adapter, supplies)
    return lambda: shelf.make(condition.adapter, supplies)


def _foreign(plugin: Plugin) -> MemoryAdapter:
    """Loads and makes a system of another package."""
    return cast("MakeAdapter", load_plugin(plugin))()


def pinned_now(condition: Condition) -> str:
    """Returns the digest of an arm's adapter as it is in this installation."""
    if condition.adapter_kind == "entry_point":
        return find_plugin(MEMORY_GROUP, condition.adapter).sha256
    if condition.adapter_kind == "command":
        return _program_pin(condition, program_of(condition))
    return shelf.adapter_sha256(condition.adapter)


def check_pins(conditions: tuple[Condition, ...]) -> None:
    """Refuses arms whose adapter is not the pinned one.

    Raises:
        IntegrityError: its code has other bytes here.
    """
    for condition in conditions:
        if condition.adapter_sha256 is None:
            raise _changed(condition, pinned_now(condition))
        _require_pin(condition, pinned_now(condition))


def _program_pin(condition: Condition, program: MemoryProgram) -> str:
    """Returns the digest of a program as it was read, with the recipe of the product that it drives."""
    product = condition.product
    recipe = product_recipe_sha256(images_root(), product) if product else None
    return program_sha256(program, recipe)


def _require_pin(condition: Condition, found: str) -> None:
    """Refuses code that is about to be used and is not the pinned one; an arm without a pin has no plan to break."""
    if condition.adapter_sha256 not in {None, found}:
        raise _changed(condition, found)


def _changed(condition: Condition, found: str) -> IntegrityError:
    return IntegrityError(
        "adapter-changed",
        f"condition {condition.id}: expected adapter {condition.adapter} with SHA-256 {condition.adapter_sha256 or 'pinned'}, found {found}",
        hint="restore it, or pin it anew with `memtrial list conditions --pin`",
    )


def check_available(conditions: tuple[Condition, ...]) -> None:
    """Refuses arms whose memory system cannot be made here, before a run has a folder.

    Raises:
        EnvironmentMissing: its code is not in this installation.
    """
    for condition in conditions:
        if condition.adapter_kind == "builtin" and not shelf.available(condition.adapter):
            raise EnvironmentMissing(
                "adapter-missing",
                f"condition {condition.id}: expected the memory system {condition.adapter} in this installation, found none",
                hint="choose other arms: `memtrial list conditions`",
            )


@contextmanager
def memory_assignment(
    condition: Condition,
    history: History,
    query: Query,
    *,
    order_seed: int = 0,
    epoch: int = 1,
    gold: GoldFacts | None = None,
    review: ReviewLog | None = None,
    gateway: GatewayAccess | None = None,
    socket: Path | None = None,
    limits: Limits | None = None,
    as_of: str | None = None,
) -> Iterator[Assignment]:
    """Gives what a memory system works with; its folders are gone afterwards."""
    sessions = sessions_of(history)
    clock = HistoryClock(sessions[0].started_at)
    with tempfile.TemporaryDirectory(prefix="memtrial-memory-") as folder:
        workdir, home = Path(folder) / "work", Path(folder) / "home"
        workdir.mkdir()
        home.mkdir()
        yield Assignment(
            condition=condition,
            sessions=sessions,
            query=query,
            place=MemoryPlace(
                workdir=workdir,
                home=home,
                gateway=gateway,
                clock=clock,
                budget=condition.budget,
                seed=seed_of(order_seed, sessions_sha256(sessions), epoch),
                socket=socket,
            ),
            clock=clock,
            gold=gold,
            review=review,
            ours=condition.adapter_kind != "entry_point",
            limits=limits or Limits(),
            as_of=as_of,
        )


def seed_of(order_seed: int, told_sha256: str, epoch: int) -> int:
    """Returns the seed of a trial's memory: equal in every arm of a task and epoch, another in each epoch.

    It is drawn from what the system is told and not from the task, whose name it would give away.
    """
    drawn = sha256_hex(f"memory|{order_seed}|{told_sha256}|{epoch}".encode())
    return int(drawn[:SEED_DIGITS], 16)
