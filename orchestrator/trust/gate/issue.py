"""Makes permits. Imported by the gate's own modules alone (import contract), and the only code that does it.

Python cannot stop code of this process from doing the same; the contract and a test make it visible.
"""

from __future__ import annotations

from orchestrator.core.clock import utc_text_of
from orchestrator.model.approval import Upstream
from orchestrator.model.permit import Permit
from orchestrator.model.usage import Quota


def issue_permit(
    *,
    plan_sha256: str,
    max_usd_micros: int,
    expires_s: int,
    models: tuple[str, ...],
    upstreams: tuple[Upstream, ...],
    quota: Quota | None = None,
) -> Permit:
    """Returns the permit for one plan. Call it after every check of the gate has passed."""
    permit = object.__new__(Permit)
    permit.plan_sha256 = plan_sha256
    permit.max_usd_micros = max_usd_micros
    permit.not_after = utc_text_of(expires_s)
    permit.models = models
    permit.upstreams = tuple((u.provider, u.origin) for u in upstreams)
    permit.quota = quota
    return permit
