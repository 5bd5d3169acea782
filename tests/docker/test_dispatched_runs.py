"""Promise: a run that a supervisor dispatched goes through real containers, stops, goes on, and is attested."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from orchestrator.attest import layout
from orchestrator.cli.live import Progress
from orchestrator.core.errors import ApprovalRefused
from orchestrator.pipeline.options import LiveRequest, PlanRequest
from orchestrator.pipeline.setup import make_plan, resume_run, start_run
from tests.dispatch.supervised import Site, site
from tests.docker.test_live_runs import Looking
from tests.unit.gateway.support import PRICES
from tests.unit.trust.support import LEDGER

pytestmark = pytest.mark.docker


def smoke(origin: str) -> Any:
    request = PlanRequest(
        agents=("chat",),
        tasks=("depotfeed-returns",),
        conditions=("no_memory",),
        phase="smoke",
        namespace="smoke-one",
        model="model-1",
        live=LiveRequest(provider="openai", origin=origin, prices=PRICES, max_usd_micros=5_000_000),
    )
    # A clone that is being worked on is no clone that a plan of this phase could be run from.
    return make_plan(request, lambda _: None).model_copy(update={"source_dirty": False})


@pytest.fixture
def here(tmp_path) -> Iterator[Site]:
    place = Path(tempfile.mkdtemp(prefix=".memtrial-test-", dir=Path.home()))
    try:
        with (
            mock.patch.dict(os.environ, {"MEMTRIAL_RESULTS": str(tmp_path)}),
            mock.patch("orchestrator.pipeline.fits._check_revision"),
            site(place, smoke) as made,
        ):
            made.provider.RequestHandlerClass = Looking
            yield made
    finally:
        shutil.rmtree(place)


def test_a_dispatched_run_goes_through_containers_and_goes_on_under_its_approval(here):
    with Progress() as watch:
        folder = start_run(here.plan, watch=watch, workers=1, supervised=here.way())
        resume_run(
            folder,
            watch=watch,
            workers=1,
            supervisor=here.socket,
            sealing_keyid=LEDGER.public.keyid,
        )
        with pytest.raises(ApprovalRefused, match="used by run"):
            start_run(here.plan, watch=watch, workers=1, supervised=here.way())
    assert len(here.provider.seen) == 2
    assert (folder / layout.APPROVAL).is_file()
    own = here.world.state / "runs" / here.world.ingredients.approval["nonce"]
    for name in ("traffic.jsonl", "bodies.pack"):
        assert (folder / "gateway" / name).read_bytes() == (own / name).read_bytes()
    kinds = [
        json.loads(line)["body"]["kind"]
        for line in (folder / layout.LEDGER).read_bytes().splitlines()
    ]
    assert kinds[:2] == ["run_started", "run_approved"]
    assert kinds.count("run_approved") == 1
    assert "run_resumed" in kinds
