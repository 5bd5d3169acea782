"""Adds up the traffic of each attempt while it runs: usage and cost by role, findings, a digest of the lines.

Kept in memory until the trial is closed; what it says can be recomputed from the traffic record.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from orchestrator.model.exchange import Cap, Cost, Exchange, Match, Role
from orchestrator.model.gateway import Divergence, RoleTraffic, ServedChange, Traffic
from orchestrator.model.usage import Usage

ROLES: tuple[Role, ...] = ("agent", "memory", "judge")
NO_COST = Cost(usd_micros=0, uncached_usd_micros=0)
MAX_FINDINGS = 1000


@dataclass(slots=True)
class _RoleSum:
    calls: int = 0
    refused: int = 0
    usage: Usage = field(default_factory=Usage)
    usd_micros: int = 0
    uncached_usd_micros: int = 0


@dataclass(slots=True)
class AttemptTally:
    """The sums of one attempt."""

    trial: str
    condition: str
    attempt: int
    roles: dict[Role, _RoleSum] = field(default_factory=dict)
    matches: Counter[Match] = field(default_factory=Counter)
    changes: list[ServedChange] = field(default_factory=list)
    lookups: list[str] = field(default_factory=list)
    caps_met: set[Cap] = field(default_factory=set)
    ordinals: Counter[tuple[Role, str]] = field(default_factory=Counter)
    lines: hashlib._Hash = field(default_factory=hashlib.sha256)
    refusals: int = 0
    refused_bytes: int = 0

    def take(self, exchange: Exchange, line_sha256: str) -> None:
        """Adds one exchange."""
        self.lines.update(bytes.fromhex(line_sha256))
        if exchange.role is None:
            return
        sums = self.roles.setdefault(exchange.role, _RoleSum())
        if exchange.match is not None:
            self.matches[exchange.match] += 1
        if exchange.cap is not None:
            self.caps_met.add(exchange.cap)
        if exchange.ordinal is None:
            sums.refused += 1
            return
        sums.calls += 1
        sums.usage = sums.usage.plus(exchange.usage or Usage())
        sums.usd_micros += exchange.cost.usd_micros
        sums.uncached_usd_micros += exchange.cost.uncached_usd_micros

    def may_refuse(self, bound: int, cap: Cap | None) -> bool:
        """Counts one more refused request; tells whether it still is to be answered and written down.

        A refusal by a cap that was not met before always is: requests that cost nothing hide none.
        """
        self.refusals += 1
        return self.refusals <= bound or (cap is not None and cap not in self.caps_met)

    def look_up(self, name: str) -> bool:
        """Notes a look-up; returns whether there was room for it."""
        room = len(self.lookups) < MAX_FINDINGS
        if room:
            self.lookups.append(name)
        return room

    def traffic(self, *, divergence: Divergence | None, unsettled: int) -> Traffic:
        """Returns the sums as a document."""
        return Traffic(
            trial=self.trial,
            attempt=self.attempt,
            roles=tuple(
                RoleTraffic(
                    role=role,
                    calls=sums.calls,
                    refused=sums.refused,
                    usage=sums.usage,
                    cost=Cost(
                        usd_micros=sums.usd_micros, uncached_usd_micros=sums.uncached_usd_micros
                    ),
                )
                for role in ROLES
                if (sums := self.roles.get(role)) is not None
            ),
            matches=tuple(sorted(self.matches.items())),
            divergence=divergence,
            served_changes=tuple(self.changes),
            lookups=tuple(self.lookups),
            caps_met=tuple(sorted(self.caps_met)),
            unsettled=unsettled,
            exchanges_sha256=self.lines.hexdigest(),
        )


class ServedModels:
    """Remembers which model and fingerprint each arm was served, to notice a change in the middle of a run."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], str] = {}

    def change(self, condition: str, exchange: Exchange) -> ServedChange | None:
        """Returns the change that an exchange shows, or None."""
        if exchange.served_model is None or exchange.api is None or exchange.model is None:
            return None
        now = exchange.served_model + (f"/{exchange.fingerprint}" if exchange.fingerprint else "")
        key = (condition, exchange.api, exchange.model)
        before = self._seen.get(key)
        self._seen[key] = now
        if before is None or before == now:
            return None
        return ServedChange(
            arm=condition, api=exchange.api, asked=exchange.model, before=before, after=now
        )
