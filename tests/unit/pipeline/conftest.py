"""A real plan over the shipped fixtures, with image ids that no engine has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.memory.none import NoMemoryAdapter
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.plan import ImagePin, Plan, Retry, setting_of
from orchestrator.pipeline.bench import Bench
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.plan import build_plan
from orchestrator.pipeline.run import Run
from orchestrator.sources.loader import load_task
from tests.fakes.sandbox import FakeSandbox, guard_over

IMAGE = ImagePin(id="sha256:" + "1" * 64, diff_ids=("sha256:" + "2" * 64,))
AT_ONCE = Retry(max_attempts=3, wait_initial_ms=0, wait_max_ms=0, wait_jitter_ms=0)
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def make_plan(fixtures: Path) -> Callable[..., Plan]:
    def make(**choice: Any) -> Plan:
        asked: dict[str, Any] = {"agents": ("noop",), "conditions": ("no_memory",), **choice}
        plan = build_plan(
            PlanRequest(**asked),
            fixtures=fixtures,
            images=ROOT / "images",
            image_pins=lambda _: (IMAGE, IMAGE),
        )
        return plan.model_copy(
            update={
                "retry": AT_ONCE,
                "arms": tuple(
                    setting_of(
                        plan.task(arm.task_id),
                        arm.condition_id,
                        plan.agents,
                        AT_ONCE,
                        plan.profile_sha256,
                    )
                    for arm in plan.arms
                ),
            }
        )

    return make


@pytest.fixture
def run_with(tmp_path: Path, fixtures: Path) -> Iterator[Callable[..., Run]]:
    """Runs a plan over a fake sandbox to the end of its policy; gives the run back, still open."""
    opened: list[Run] = []

    def start(plan: Plan, sandbox: FakeSandbox, *, run: Run | None = None) -> Run:
        run = run or Run.create(tmp_path, plan, engine="fake", workers=2)
        opened.append(run)
        counter = TokenCounter()
        guard = guard_over()
        run.execute(
            lambda trial: Bench(
                plan=plan,
                plan_sha256=plan.digest_sha256(),
                trial=trial,
                task=load_task(fixtures, trial.task_id),
                adapter=lambda: NoMemoryAdapter(counter),
                sandbox=sandbox,
                counter=counter,
                guard=guard,
            ),
            workers=2,
            progress=lambda _: None,
        )
        return run

    yield start
    for run in opened:
        run.close()
