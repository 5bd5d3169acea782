"""Writes tests/cases/gate from the catalogue: a directory for each hostile input, with a README that says why."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from orchestrator.trust.gate.official import STEPS
from tests.gate.catalogue import Attack, catalogue

CASES = Path(__file__).resolve().parents[1] / "cases" / "gate"
REFUSALS = Path(__file__).resolve().parents[2] / "docs" / "security" / "refusals.md"


def files_of(name: str, attack: Attack) -> dict[str, str]:
    """Returns the files of one case."""
    step = STEPS[attack.check][0]
    title = attack.name.replace("-", " ")
    readme = (
        f"# {title}\nMust be refused by check {attack.check} ({step}) with code `{attack.code}`: "
        f"{attack.why}.\nThe input is made by the attack `{attack.name}` in `tests/gate`.\n"
    )
    card = {"attack": attack.name, "check": attack.check, "code": attack.code, "exit": 5}
    return {"README.md": readme, "case.json": json.dumps(card, indent=2, sort_keys=True) + "\n"}


def wanted() -> dict[str, str]:
    """Returns every file below the cases by its path."""
    return {
        f"{name}/{file}": text
        for name, attack in catalogue().items()
        for file, text in files_of(name, attack).items()
    }


def refusals() -> str:
    """Returns docs/security/refusals.md: every code of the gate by its step, with a reason for it."""
    seen: dict[tuple[int, str], str] = {}
    for attack in catalogue().values():
        seen.setdefault((attack.check, attack.code), attack.why)
    rows = "".join(
        f"| {check} {STEPS[check][0]} | `{code}` | {why} |\n"
        for (check, code), why in sorted(seen.items())
    )
    return (
        "# Refusals of the gate\nWritten from the cases in `tests/cases/gate`, which show each of them; "
        "the reason is of one case.\n\n| step | code | why |\n|---|---|---|\n" + rows
    )


def main() -> None:
    """Writes the directories anew."""
    files = wanted()
    shutil.rmtree(CASES, ignore_errors=True)
    for name, text in files.items():
        path = CASES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    REFUSALS.write_text(refusals(), encoding="utf-8")


if __name__ == "__main__":
    main()
