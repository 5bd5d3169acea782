"""Proof of the gate: every hostile input, the race for nonces, and the time of a validation and of its parts.

Runs the cases and twins of tests/gate, times validations of the whole pack's official plan, and races 400
reservations of 10 nonces. A validation's steps are timed with inputs measured elsewhere; beside them stands
what step 10 takes for the whole pack: hashing the inputs, and building the plan again. Writes results/proofs/trust-DATE.json; exit 1 when something is not as promised.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from orchestrator.core.clock import run_stamp
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import SigningKey
from orchestrator.model.plan import Plan
from orchestrator.pipeline.gating import observe, rebuild
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import make_plan
from orchestrator.trust.gate.official import STEPS, validate
from tests.gate.catalogue import catalogue
from tests.gate.test_cases import hostile_world
from tests.gate.world import ingredients, make_world, official_plan
from tests.unit.trust.test_nonces import race

ROOT = Path(__file__).resolve().parents[1]
ROUNDS, FEW_ROUNDS = 15, 5
PACK = PlanRequest(agents=("follower",), task_set="full", epochs=3)
BOUND_S = 1.0
# The user nobody: neither root nor the supervisor.
OPERATOR_UID = 65534


def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix=".memtrial-proof-", dir=Path.home()))


def refused() -> tuple[int, list[str]]:
    """Returns how many hostile inputs there are, and those that were not refused as they should be."""
    wrong = []
    named = catalogue()
    for name, attack in named.items():
        place = folder()
        refusal = validate(hostile_world(place, attack).asked()).refusal
        if refusal is None or (refusal.check, refusal.reference) != (attack.check, attack.code):
            wrong.append(name)
        shutil.rmtree(place)
    return len(named), wrong


def validation_s() -> list[float]:
    """Returns the times of validations of the official plan of the whole pack, inputs measured elsewhere."""
    place = folder()
    world = make_world(place, ingredients(official_plan()))
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        found = validate(world.asked())
        times.append(time.perf_counter() - began)
        if found.refusal is not None:
            raise SystemExit(f"the sound world was refused: {found.refusal.message}")
    shutil.rmtree(place)
    return times


def measuring_s() -> dict[str, float]:
    """Returns the medians of what step 10 asks of the machine for the whole pack: hashing, and building again."""
    plan = make_plan(PACK, _silent, offline=True)
    parts: dict[str, Callable[[Plan], object]] = {"hash_inputs": observe, "build_again": rebuild}
    return {name: round(statistics.median(_times(part, plan)), 4) for name, part in parts.items()}


def _times(part: Callable[[Plan], object], plan: Plan) -> list[float]:
    times = []
    for _ in range(FEW_ROUNDS):
        began = time.perf_counter()
        part(plan)
        times.append(time.perf_counter() - began)
    return times


def _silent(_: str) -> None:
    return


def operator_reach() -> dict[str, str]:
    """Returns what a user who is neither root nor the supervisor gets of each thing that is not theirs.

    Needs root, to become another user; the place is one that everybody may enter.
    """
    with tempfile.TemporaryDirectory(prefix="memtrial-proof-", dir="/opt") as name:
        place = Path(name)
        place.chmod(0o755)
        world = make_world(place, ingredients())
        key = world.state / "supervisor.key.pem"
        SigningKey.create(key)
        for path in (world.state, world.state / "nonces"):
            path.chmod(0o700)
        targets = {
            "supervisor's key": f"open({str(key)!r}, 'rb').read()",
            "nonce book": f"open({str(world.state / 'nonces' / 'nonces.jsonl')!r}, 'rb').read()",
            "what was seen": f"open({str(world.state / 'root-seen.json')!r}, 'rb').read()",
            "write into the book": f"open({str(world.state / 'nonces' / 'nonces.jsonl')!r}, 'ab')",
            "write the configuration": f"open({str(world.system / 'gate.json')!r}, 'ab')",
            "write the first root": f"open({str(world.system / 'root.json')!r}, 'ab')",
            "write the supervisor's program": f"open({str(world.prefix / 'interpreter')!r}, 'ab')",
        }
        return {what: _as_other(code) for what, code in targets.items()}


def _as_other(code: str) -> str:
    program = f"try:\n    {code}\n    print('reached')\nexcept OSError as e: print(e.strerror)"
    finished = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", program],
        user=OPERATOR_UID,
        group=OPERATOR_UID,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout.strip()


def main() -> int:
    reach = operator_reach()
    count, wrong = refused()
    times = validation_s()
    with tempfile.TemporaryDirectory() as place:
        winners = race(Path(place))
    told = {
        "hostile_inputs": count,
        "not_refused_as_promised": wrong,
        "steps": len(STEPS),
        "official_tasks": len(official_plan().tasks),
        "official_trials": len(official_plan().trials),
        "validation_median_s": round(statistics.median(times), 4),
        "validation_slowest_s": round(max(times), 4),
        "validation_bound_s": BOUND_S,
        "step_10_median_s": measuring_s(),
        "operator_uid": OPERATOR_UID,
        "operator_reach": reach,
        "race": {"reservations": 400, "nonces": 10, "processes": 8, "winners": winners},
    }
    path = ROOT / "results" / "proofs" / f"trust-{run_stamp()}.json"
    write_atomic(path, (json.dumps(told, indent=2) + "\n").encode())
    print(json.dumps(told, indent=2))
    reached = "reached" in reach.values()
    return int(
        reached or bool(wrong) or statistics.median(times) > BOUND_S or winners != list(range(10))
    )


if __name__ == "__main__":
    raise SystemExit(main())
