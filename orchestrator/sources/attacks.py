"""Reads the attack suite: `fixtures/attacks/<id>/attack.json` with its `program.py`. Runs none of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.errors import DocumentError, UsageError
from orchestrator.model.attack import AttackCard


@dataclass(frozen=True, slots=True)
class LoadedAttack:
    """An attack with the program that runs in the agent's container."""

    card: AttackCard
    program: str


def load_attack(fixtures: Path, attack_id: str) -> LoadedAttack:
    """Reads one attack.

    Raises:
        UsageError: there is none of that id.
        DocumentError: its card is invalid, or its program is missing.
    """
    folder = fixtures / "attacks" / attack_id
    if attack_id not in list_attacks(fixtures):
        raise UsageError(
            "attack-unknown",
            f"expected the id of an attack, found {attack_id!r}",
            hint="list them with `memtrial attack --list`",
        )
    card = AttackCard.parse((folder / "attack.json").read_bytes(), where=f"{attack_id}/attack.json")
    program = folder / "program.py"
    if card.id != attack_id or not program.is_file():
        raise DocumentError(
            "attack-incomplete",
            f"attacks/{attack_id}: expected a card of that id and program.py, found id {card.id}",
            hint="restore the folder",
        )
    return LoadedAttack(card, program.read_text(encoding="utf-8"))


def list_attacks(fixtures: Path) -> list[str]:
    """Returns the ids of all attacks, sorted."""
    return sorted(path.parent.name for path in (fixtures / "attacks").glob("*/attack.json"))
