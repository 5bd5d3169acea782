"""Proof that third-party memory products run offline, each in its own pinned image, and meet the contract.

    .venv/bin/python -m bench.products [CONDITION ...] [--workers N] [--each N]

Makes the images, runs the contract kit over each arm with a product (tests/docker/test_memory_products.py), and one
task with every such arm and the follower agent, end to end. Writes a dated JSON below results/proofs, again after each
part. Exit 1 if an arm fails a test or a trial does not come to its end. Times are of this machine and bear no claim.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from orchestrator.cli.live import Progress
from orchestrator.core.clock import run_stamp
from orchestrator.core.errors import MemtrialError, UsageError
from orchestrator.core.places import fixtures_root, images_root, results_root
from orchestrator.model.condition import Condition
from orchestrator.pipeline.imaging import layer_of_product
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.setup import make_plan, start_run
from orchestrator.report.build import build_report
from orchestrator.report.terminal import render_report
from orchestrator.sandbox.products import product_recipe_sha256, read_product_recipe
from orchestrator.sources.loader import load_conditions
from orchestrator.testing.memory import MemoryContract

TESTS = "tests/docker/test_memory_products.py"
TASK = "cachetools-account-key"
FEWEST_TESTS = sum(name.startswith("test_") for name in vars(MemoryContract))
"""The promises of the contract kit; an arm of which fewer were tried has proven nothing."""


def made(condition: Condition, say: Any) -> dict[str, Any]:
    """Makes the layer of a product; returns what it is made of."""
    product = condition.product or ""
    recipe, layer = read_product_recipe(images_root(), product), layer_of_product(product, say)
    return {
        "product": recipe.package,
        "version": recipe.version,
        "licence": recipe.licence,
        "packages": len(recipe.wheels) + len(recipe.packages),
        "recipe_sha256": product_recipe_sha256(images_root(), product),
        "layer": layer.diff_id,
        "layer_bytes": layer.size_bytes,
    }


def kit(condition: str, each: int) -> dict[str, Any]:
    """Runs the contract kit and the product's own promises over one arm."""
    name = "".join(word.capitalize() for word in condition.removesuffix("_e2e").split("_"))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "junit.xml"
        words = f"Test{name.replace('Langmem', 'LangMem')} or {condition}"
        if condition.startswith("mem0"):
            words += f" or (known_to_one_scope and {condition.split('_')[1]})"
        command = [sys.executable, "-m", "pytest", "-q", f"-n{each}", TESTS, "-k", words]
        subprocess.run([*command, f"--junitxml={out}"], check=False)
        cases = list(ElementTree.parse(out).iter("testcase"))
    failed = {
        case.get("name", ""): bad.get("message", "")[:600]
        for case in cases
        for bad in (*case.findall("failure"), *case.findall("error"), *case.findall("skipped"))
    }
    return {"tests": len(cases), "failed": failed, "seconds": round(time.monotonic() - began)}


def end_to_end(arms: list[str], progress: Progress) -> dict[str, Any]:
    """Runs one task with each arm and the follower; returns what every trial came to."""
    conditions = ("no_memory", "oracle_evidence", *arms)
    request = PlanRequest(agents=("follower",), tasks=(TASK,), conditions=conditions)
    plan = make_plan(request, progress.say)
    with progress:
        folder = start_run(plan, watch=progress, workers=1)
    report = build_report(folder)
    print(render_report(report))
    return {
        row.condition_id: {
            "outcome": row.status,
            "memory": row.memory_status,
            "memory_tokens": row.memory_tokens,
        }
        for row in report.trials
    }


def chosen(registry: tuple[Condition, ...], names: list[str]) -> list[Condition]:
    """Returns the arms with a product that are asked for; all of them where none is named.

    Raises:
        UsageError: a name is of no such arm.
    """
    arms = [condition for condition in registry if condition.product]
    known = [arm.id for arm in arms]
    unknown = [name for name in names if name not in known]
    if unknown or not arms:
        raise UsageError(
            "unknown-condition",
            f"expected arms with a product ({', '.join(known)}), found {', '.join(unknown) or 'none'}",
            hint="memtrial list conditions",
        )
    return [arm for arm in arms if not names or arm.id in names]


def verdict_on(proof: dict[str, Any]) -> list[str]:
    """Returns what is wrong: a failed test, an arm that was not tried, a trial whose memory was not verified."""
    wrong = []
    for name, arm in proof["arms"].items():
        wrong += [f"{name}: {test}: {why}" for test, why in arm["kit"]["failed"].items()]
        if arm["kit"]["tests"] < FEWEST_TESTS:
            wrong.append(
                f"{name}: expected {FEWEST_TESTS} tests of the contract or more, found {arm['kit']['tests']}"
            )
        if name not in proof["trials"]:
            wrong.append(f"{name}: expected a trial, found none")
    return wrong + [
        f"{name}: memory {trial['memory']}"
        for name, trial in proof["trials"].items()
        if name != "no_memory" and trial["memory"] != "verified"
    ]


def main() -> int:
    """Makes, tries, runs, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("conditions", nargs="*")
    parser.add_argument("--workers", type=int, default=2, help="how many arms are tried at a time")
    parser.add_argument("--each", type=int, default=0, help="how many tests of an arm at a time")
    options = parser.parse_args()
    try:
        arms = chosen(load_conditions(fixtures_root()).conditions, options.conditions)
    except MemtrialError as error:
        parser.error(error.message)
    stamp, progress = run_stamp(), Progress()
    out = results_root() / "proofs" / f"products-{stamp}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    proof: dict[str, Any] = {"made_at": stamp, "arms": {}}

    def write() -> None:
        out.write_text(json.dumps(proof, indent=1) + "\n", encoding="utf-8")

    for arm in arms:
        proof["arms"][arm.id] = made(arm, progress.say)
    with ThreadPoolExecutor(max_workers=options.workers) as pool:
        tried = {pool.submit(kit, arm.id, options.each): arm.id for arm in arms}
        proof["task"], proof["trials"] = TASK, end_to_end([arm.id for arm in arms], progress)
        write()
        for done in as_completed(tried):
            proof["arms"][tried[done]]["kit"] = done.result()
            write()
    proof["wrong"] = wrong = verdict_on(proof)
    write()
    print(f"products: {'; '.join(wrong) or 'every arm meets the contract'}; {out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
