"""Live plans and local approvals over fixtures, for tests; nothing here calls anybody."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.model.approval import LOCAL_TYPE, LocalApproval
from orchestrator.model.plan import Plan
from orchestrator.pipeline.options import LiveRequest, PlanRequest
from orchestrator.trust.approvals import draft_local, window_of
from orchestrator.trust.envelope import sign_new
from orchestrator.trust.gate.local import Asked
from orchestrator.trust.home import Home, make_home
from tests.recorded import make_plan
from tests.unit.gateway.support import PRICES

NOW_S = 1_800_000_000
USD = 1_000_000
ORIGIN = "http://127.0.0.1:9"
LIVE = PlanRequest(
    agents=("chat",),
    tasks=("depotfeed-returns",),
    conditions=("no_memory", "curated_file_budgeted"),
    model="model-1",
    live=LiveRequest(provider="openai", origin=ORIGIN, prices=PRICES, max_usd_micros=5 * USD),
)


def live_plan(origin: str = ORIGIN, *, max_usd_micros: int = 5 * USD, **changes: Any) -> Plan:
    assert LIVE.live is not None
    live = replace(LIVE.live, origin=origin, max_usd_micros=max_usd_micros)
    return make_plan(replace(LIVE, live=live, **changes))


@dataclass(frozen=True, slots=True)
class Case:
    """A plan, its approver's corner, and an approval that the gate accepts."""

    plan: Plan
    home: Home
    approval: LocalApproval

    def envelope(self, **changes: Any) -> bytes:
        """Signs the approval, with some fields replaced."""
        return self.sign(self.approval.model_copy(update=changes).canonical())

    def sign(self, payload: bytes, payload_type: str = LOCAL_TYPE) -> bytes:
        return sign_new(payload, (self.home.key(),), payload_type=payload_type)

    def asked(self, **changes: Any) -> Asked:
        facts: dict[str, Any] = {
            "plan_data": self.plan.canonical(),
            "envelope_data": self.envelope(),
            "home": self.home,
            "run_id": "run-1",
            "now_s": NOW_S + 60,
        }
        return Asked(**{**facts, **changes})


def local_case(folder: Path, plan: Plan | None = None, *, now_s: int = NOW_S) -> Case:
    plan = plan or live_plan()
    home = make_home(folder / "local")
    approval = draft_local(
        plan,
        root_sha256=home.roles.sha256,
        max_usd_micros=5 * USD,
        window=window_of(now_s, 24),
    )
    return Case(plan, home, approval)
