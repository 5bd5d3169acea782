"""What every agent that asks a model needs before it can be started. Pure."""

from __future__ import annotations

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.protocols import GatewayAccess


def needs_gateway(agent: str, access: GatewayAccess | None) -> GatewayAccess:
    """Returns the way to the gateway.

    Raises:
        EnvironmentMissing: there is none.
    """
    if access is None:
        raise EnvironmentMissing(
            "gateway-missing",
            f"expected a gateway for agent {agent}, found none",
            hint=f"make a new plan with `memtrial plan --agent {agent}`",
        )
    return access
