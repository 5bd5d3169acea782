"""Promise: each hostile input is refused by its own check and code, before anything is opened, started or spent."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from orchestrator.trust.gate.machine import NONCES
from orchestrator.trust.gate.official import validate
from tests.gate.build_cases import CASES, REFUSALS, refusals, wanted
from tests.gate.catalogue import Attack, catalogue
from tests.gate.world import World, ingredients, make_world

NAMED = catalogue()
INPUTS_OPENED_FROM = 10
HEARD: list[str] = []
STATE = {"listening": False}


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    """Notes sockets, and programs other than git, while a case runs."""
    if not STATE["listening"]:
        return
    if event.startswith("socket."):
        HEARD.append(event)
    if event == "subprocess.Popen" and arguments[0] != "/usr/bin/git":
        HEARD.append(f"{event} {arguments[0]}")


sys.addaudithook(_listen)


@contextmanager
def listening() -> Iterator[None]:
    HEARD.clear()
    STATE["listening"] = True
    try:
        yield
    finally:
        STATE["listening"] = False


def hostile_world(folder: Any, attack: Attack) -> World:
    made = ingredients()
    if attack.before:
        attack.before(made)
    world = make_world(folder, made)
    if attack.after:
        attack.after(world)
    return world


def book_of(world: World) -> dict[str, bytes]:
    folder = world.state / NONCES
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def test_the_directories_are_what_the_builder_writes():
    present = {
        path.relative_to(CASES).as_posix(): path.read_text(encoding="utf-8")
        for path in CASES.rglob("*")
        if path.is_file()
    }
    assert present == wanted()
    assert len(NAMED) >= 100
    assert REFUSALS.read_text(encoding="utf-8") == refusals()


@pytest.mark.parametrize("name", sorted(p.name for p in CASES.iterdir()))
def test_a_hostile_input_is_refused(name, clean_folder):
    card = json.loads((CASES / name / "case.json").read_bytes())
    world = hostile_world(clean_folder, NAMED[name])
    asked, before = world.asked(), book_of(world)
    with listening():
        found = validate(asked)
    assert found.refusal is not None, "accepted"
    refusal = found.refusal
    assert (refusal.check, refusal.reference, refusal.exit_code) == (
        card["check"],
        card["code"],
        card["exit"],
    ), refusal.message
    assert HEARD == []
    assert book_of(world) == before
    if card["check"] < INPUTS_OPENED_FROM:
        assert world.opened == []
    statuses = [step.status for step in found.report.steps]
    assert statuses == ["ok"] * card["check"] + ["refused"] + ["not_run"] * (16 - card["check"])
    assert found.report.dispatch_authorized is False
