"""Promise: of a positive case every twin that differs in one field is refused, unsigned always, signed by what it binds."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.core.canonical import canonical_bytes
from orchestrator.trust.gate.official import validate
from tests.gate.world import Ingredients, ingredients, make_world, official_plan

Path = tuple[str | int, ...]
# What approvers are free to choose, within the schema: nothing else in the world says what it must be.
FREE = {
    ("nonce",),
    ("caps", "max_provider_calls"),
    ("caps", "max_input_tokens"),
    ("caps", "max_output_tokens"),
    ("window", "not_before_s"),
    ("window", "expires_s"),
}


def leaves(value: object, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, (*path, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from leaves(item, (*path, number))
    else:
        yield path


def flip(value: Any) -> Any:
    """Changes one bit of a value, so that it stays of its type."""
    if value is None:
        return "high"
    if isinstance(value, int):
        return value ^ 1
    other = chr(ord(value[-1]) ^ 1)
    hexadecimal = set(value) <= set("0123456789abcdef")
    if not other.isalnum() or (hexadecimal and other not in "0123456789abcdef"):
        other = "e" if value[-1] != "e" else "d"
    return str(value[:-1]) + other


def flipped(document: dict[str, Any], path: Path) -> None:
    place: Any = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = flip(place[path[-1]])


PATHS = sorted(leaves(ingredients().approval), key=str)


def judged(folder: Any, made: Ingredients) -> tuple[int | None, str] | None:
    refusal = validate(make_world(folder, made).asked()).refusal
    return (refusal.check, refusal.reference) if refusal else None


@pytest.mark.parametrize("path", PATHS, ids=lambda p: ".".join(map(str, p)))
def test_a_twin_that_nobody_signed_is_refused(path, clean_folder):
    made = ingredients()

    def tamper(data: bytes) -> bytes:
        envelope = json.loads(data)
        document = json.loads(base64.b64decode(envelope["payload"]))
        flipped(document, path)
        envelope["payload"] = base64.b64encode(canonical_bytes(document)).decode()
        return canonical_bytes(envelope)

    made.envelope = tamper
    assert judged(clean_folder, made) == (7, "signature-invalid")


@pytest.mark.parametrize("path", PATHS, ids=lambda p: ".".join(map(str, p)))
def test_a_twin_that_approvers_signed_is_refused_unless_the_field_is_theirs_to_choose(
    path, clean_folder
):
    made = ingredients()

    def change(data: bytes) -> bytes:
        document = json.loads(data)
        flipped(document, path)
        return canonical_bytes(document)

    made.payload = change
    found = judged(clean_folder, made)
    assert (found is None) is (path in FREE), found


def test_an_official_approval_of_the_whole_pack_passes(clean_folder):
    made = ingredients(official_plan())
    assert judged(clean_folder, made) is None
    assert len(made.plan.tasks) >= 16
    assert made.approval["caps"]["max_agent_calls"] == len(made.plan.trials) * 3
