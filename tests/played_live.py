"""A live run without containers: the real gate, gateway process and record, before a provider on loopback."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from orchestrator.pipeline.live import approval_for
from orchestrator.pipeline.run import Run
from orchestrator.pipeline.traffic import gateway_of
from tests.live import Case, live_plan, local_case
from tests.played_chat import ChattingSandbox
from tests.recorded import benches, write_reports
from tests.unit.gateway.upstream import fake_provider

KEY = "planted-openai-key-7c1b/+=z"


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A recorded run, unsealed, with the case that allowed it."""

    folder: Path
    case: Case


def record_live_run(folder: Path) -> LiveRun:
    """Approves a local plan of two trials, runs it under its approval, and writes its reports."""
    environment = {"MEMTRIAL_CONFIG": str(folder / "config"), "OPENAI_API_KEY": KEY}
    with fake_provider() as provider, mock.patch.dict(os.environ, environment):
        plan = live_plan(provider.origin)
        case = local_case(folder / "config", plan, now_s=int(time.time()) - 5)
        approve = approval_for(plan, case.envelope())
        run = Run.create(
            folder / "results", plan, engine="played", workers=1, approve=approve, replayed=True
        )
        with gateway_of(plan, run.folder, ()) as gateway:
            made = benches(plan, ChattingSandbox(), gateway, record=run.folder / "gateway")
            run.execute(made, workers=1, progress=lambda _: None)
        run.close()
        write_reports(run.folder)
    return LiveRun(run.folder, case)
