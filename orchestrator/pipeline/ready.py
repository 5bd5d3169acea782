"""Before anything starts: disk, memory and runtime against what the work needs. Refuses with both sides.

Composes the sandbox's preflight with the folders of this installation; writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from orchestrator.core.places import cache_root, results_root
from orchestrator.model.plan import Plan, Trial
from orchestrator.sandbox.adapter import EngineClient
from orchestrator.sandbox.engine import images_present
from orchestrator.sandbox.preflight import (
    available_memory_bytes,
    check_disk,
    crowded_line,
    fitting_workers,
    image_needs,
    results_need,
    workers_line,
)
from orchestrator.sandbox.runtimes import require_runtime

Say = Callable[[str], None]


def ready_for_images(client: EngineClient) -> None:
    """Refuses a machine on which the images would not fit.

    Raises:
        EnvironmentMissing: expected and found are in the text.
    """
    present = images_present(client) > 0
    check_disk(image_needs(cache_root(), client.info(), present=present))


def ready_to_run(
    client: EngineClient, plan: Plan, trials: Sequence[Trial], say: Say, *, workers: int
) -> int:
    """Refuses a machine that cannot hold or run the trials; returns how many may run at a time.

    Args:
        client: the engine.
        plan: of the run.
        trials: those that may still have to run.
        say: where to say that memory allows fewer workers than asked for.
        workers: asked for; 0 means one per core.

    Raises:
        EnvironmentMissing: expected and found are in the text.
    """
    info = client.info()
    require_runtime(info, plan.runtime)
    asked = workers or os.cpu_count() or 1
    limits = [plan.task(trial.task_id).limits for trial in trials]
    check_disk([results_need(results_root(), limits)])
    available = available_memory_bytes(info)
    fitting = fitting_workers(asked, limits, available)
    if fitting < asked:
        say(workers_line(asked, fitting, limits, available))
    crowded = crowded_line(fitting, limits, int(info.get("NCPU") or 0))
    if crowded:
        say(crowded)
    return fitting
