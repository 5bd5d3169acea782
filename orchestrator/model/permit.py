"""The permit: proof, within one process, that live model calls were approved. Never a file, never a message.

The constructor refuses; `trust/gate/issue.py` alone makes one, after every check has passed, and only the
gate's own modules may import that. Tests make theirs past the constructor.
"""

from __future__ import annotations

from typing import Self, final

from orchestrator.core.errors import ApprovalRefused
from orchestrator.model.usage import Quota


@final
class Permit:
    """What was approved: a plan, a sum, a time, which models may be asked, and where calls may go.

    `max_usd_micros` bounds the spending of the whole run, `quota` its calls and tokens where people signed
    bounds of these; `not_after` is an RFC 3339 time in UTC;
    `models` are the ids that calls may ask for; `upstreams` are pairs of provider and origin (`https://host[:port]`).
    """

    __slots__ = ("max_usd_micros", "models", "not_after", "plan_sha256", "quota", "upstreams")

    plan_sha256: str
    max_usd_micros: int
    models: tuple[str, ...]
    not_after: str
    quota: Quota | None
    upstreams: tuple[tuple[str, str], ...]

    def __new__(cls) -> Self:
        """Refuses.

        Raises:
            ApprovalRefused: always.
        """
        raise ApprovalRefused(
            "permit-not-issued",
            "live model calls: expected a permit that the approval gate issued, found an attempt to make one",
            hint="approve the plan: `memtrial approve local PLAN --max-usd N`",
        )
