"""Adds up the spend book and the traffic record of a run again, from their bytes. Pure.

The spend book says what every call cost; the traffic record says what went through. A recorded exchange
must have its lines in the book, but that a settlement may be missing: what is not settled counts in full. A line
of the book without its exchange is a call whose process died.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from orchestrator.core.errors import IntegrityError
from orchestrator.gateway.log import parse_lines
from orchestrator.model.exchange import (
    Cost,
    Exchange,
    Lookup,
    Reserved,
    Role,
    Settled,
    SpendLine,
    TokensReserved,
    TrafficLine,
    UsageSource,
)
from orchestrator.model.spending import CapCount, RoleSpending, ServedModel, Spending
from orchestrator.model.usage import Usage

SPEND_FILE = "gateway/spend.jsonl"
TRAFFIC_FILE = "gateway/traffic.jsonl"
BODIES_FILE = "gateway/bodies.pack"
ROLES: tuple[Role, ...] = ("agent", "memory", "judge")
# Lost settlements of one trial that are covered: a crash of the machine loses those of the calls under way (some
# hundreds at most, model.gateway.Bounds). More is no accident, and would make a comparison long.
MAX_LOST = 1024
Known = tuple[str | None, Role | None, str | None, int, Cost, UsageSource]


@dataclass(frozen=True, slots=True)
class Charge:
    """One call of the spend book. Without a settlement its reservation counts in full.

    `limited` says that the book bounds tokens too, and `tokens` how many are set aside.
    """

    reserved: Reserved
    settled: Settled | None
    tokens: TokensReserved | None = None
    limited: bool = False

    @property
    def cost(self) -> Cost:
        """What the call counts for."""
        if self.settled is None:
            spent = self.reserved.usd_micros
            return Cost(usd_micros=spent, uncached_usd_micros=spent)
        return Cost(
            usd_micros=self.settled.usd_micros,
            uncached_usd_micros=self.settled.uncached_usd_micros,
        )

    @property
    def source(self) -> UsageSource:
        """Where the cost comes from."""
        return self.settled.source if self.settled else "reservation"

    def known(self) -> Known:
        """What an exchange must agree with."""
        said = self.reserved
        return said.trial, said.role, said.model, said.usd_micros, self.cost, self.source

    def covers(self, exchange: Exchange) -> bool:
        """Whether it counts for the call, and for no less than the call used, though its settlement was lost.

        A settlement is not on disk before the exchange is; after a power failure either may be there alone.
        """
        said, used = self.reserved, exchange.usage or Usage()
        asked = (exchange.trial, exchange.role, exchange.model, exchange.reserved_usd_micros)
        if asked != (said.trial, said.role, said.model, said.usd_micros):
            return False
        if self.settled is not None or exchange.cost.usd_micros > said.usd_micros:
            return False
        if self.tokens is None:
            return not self.limited
        return (
            used.all_input <= self.tokens.input_tokens and used.output <= self.tokens.output_tokens
        )


@dataclass(frozen=True)
class Accounts:
    """Both records, read. `book` is the spend book line by line, in its own order; `traffic` holds each line's
    digest; torn bytes stand behind the last line.
    """

    charges: tuple[Charge, ...]
    book: tuple[Reserved | Settled, ...]
    traffic: tuple[tuple[str, Exchange | Lookup], ...]
    torn_bytes: int

    def exchanges(self) -> list[Exchange]:
        """Returns every exchange in order."""
        return [body for _, body in self.traffic if isinstance(body, Exchange)]

    @cached_property
    def by_attempt(self) -> dict[tuple[str | None, int], list[tuple[str, Exchange | Lookup]]]:
        """The lines of each attempt, with their digests, in order."""
        found: dict[tuple[str | None, int], list[tuple[str, Exchange | Lookup]]] = {}
        for digest, body in self.traffic:
            found.setdefault((body.trial, body.attempt), []).append((digest, body))
        return found

    @cached_property
    def spending(self) -> dict[str, Spending]:
        """What each trial spent.

        Raises:
            IntegrityError: an exchange stands in the traffic record, and no charge in the book that counts as much.
        """
        charges: dict[str, list[Charge]] = {}
        exchanges: dict[str, list[Exchange]] = {}
        for charge in self.charges:
            charges.setdefault(charge.reserved.trial, []).append(charge)
        for exchange in self.exchanges():
            if exchange.trial is not None:
                exchanges.setdefault(exchange.trial, []).append(exchange)
        return {
            trial: _spending(trial, charges.get(trial, []), exchanges.get(trial, []))
            for trial in sorted({*charges, *exchanges})
        }


def read_accounts(read: Callable[[str], bytes | None]) -> Accounts | None:
    """Reads both records; None where there is neither, because no gateway ran.

    Args:
        read: returns a file of the run's folder by its name, or None.

    Raises:
        IntegrityError: one is missing, broken, or no gateway can have written it.
        DocumentError: a line is malformed.
    """
    spend, traffic = read(SPEND_FILE), read(TRAFFIC_FILE)
    if spend is None and traffic is None:
        return None
    if spend is None or traffic is None:
        raise _broken(f"both {SPEND_FILE} and {TRAFFIC_FILE}", "one of them")
    book = parse_lines(spend, SpendLine, where=SPEND_FILE)
    record = parse_lines(traffic, TrafficLine, where=TRAFFIC_FILE)
    # A line's digest stands in the line behind it; the last one's is the head.
    digests = [line.prev_sha256 for line in record.lines[1:]] + [record.head_sha256]
    return Accounts(
        charges=_charges(book.lines),
        book=tuple(line.body for line in book.lines if isinstance(line.body, Reserved | Settled)),
        traffic=tuple(
            (digest, line.body) for digest, line in zip(digests, record.lines, strict=False)
        ),
        torn_bytes=book.torn_bytes + record.torn_bytes,
    )


def _charges(lines: Iterable[SpendLine]) -> tuple[Charge, ...]:
    found: list[Charge] = []
    bodies = [line.body for line in lines]
    limited = not all(isinstance(body, Reserved | Settled) for body in bodies)
    for body in bodies:
        if isinstance(body, Reserved):
            if body.call != len(found):
                raise _broken(f"call {len(found)} in {SPEND_FILE}", f"call {body.call}")
            found.append(Charge(body, None, limited=limited))
        elif isinstance(body, TokensReserved) and body.call == len(found) - 1:
            found[-1] = replace(found[-1], tokens=body)
        elif not isinstance(body, Settled):
            # Counts of calls and tokens; the traffic record and the ledger say the same.
            continue
        elif body.call >= len(found) or found[body.call].settled is not None:
            raise _broken(
                f"one settlement for each call in {SPEND_FILE}", f"another of {body.call}"
            )
        else:
            found[body.call] = replace(found[body.call], settled=body)
    return tuple(found)


def _spending(trial: str, charges: list[Charge], exchanges: list[Exchange]) -> Spending:
    admitted = [e for e in exchanges if e.ordinal is not None]
    unrecorded = _without_exchange(trial, charges, admitted)
    caps = Counter(e.cap for e in exchanges if e.cap is not None)
    served = Counter(
        (e.api, e.model, e.served_model + (f"/{e.fingerprint}" if e.fingerprint else ""))
        for e in admitted
        if e.served_model and e.api and e.model
    )
    return Spending(
        calls=len(charges),
        refused=len(exchanges) - len(admitted),
        unrecorded=unrecorded,
        usage=_usage(admitted),
        cost=add_costs(charge.cost for charge in charges),
        roles=tuple(
            _role(role, mine, [e for e in admitted if e.role == role])
            for role in ROLES
            if (mine := [c for c in charges if c.reserved.role == role])
        ),
        caps_met=tuple(CapCount(cap=cap, calls=count) for cap, count in sorted(caps.items())),
        served=tuple(
            ServedModel(api=api, asked=asked, served=told, calls=count)
            for (api, asked, told), count in sorted(served.items())
        ),
    )


def _without_exchange(trial: str, charges: list[Charge], admitted: list[Exchange]) -> int:
    """Returns how many charges have no exchange.

    Raises:
        IntegrityError: an exchange has no charge.
    """
    settled = Counter(charge.known() for charge in charges if charge.settled is not None)
    unsettled = [charge for charge in charges if charge.settled is None]
    lost = 0
    for exchange in admitted:
        known = _known(exchange)
        if settled[known]:
            settled[known] -= 1
            continue
        lost += 1
        covering = next((charge for charge in unsettled if charge.covers(exchange)), None)
        if covering is None or lost > MAX_LOST:
            raise _broken(
                f"a charge in {SPEND_FILE} for each exchange of {trial}", "another or none"
            )
        unsettled.remove(covering)
    return settled.total() + len(unsettled)


def _role(role: Role, charges: list[Charge], exchanges: list[Exchange]) -> RoleSpending:
    return RoleSpending(
        role=role,
        calls=len(charges),
        bounded=sum(charge.source == "reservation" for charge in charges),
        usage=_usage(exchanges),
        cost=add_costs(charge.cost for charge in charges),
    )


def _known(exchange: Exchange) -> Known:
    return (
        exchange.trial,
        exchange.role,
        exchange.model,
        exchange.reserved_usd_micros,
        exchange.cost,
        exchange.usage_source,
    )


def _usage(exchanges: Iterable[Exchange]) -> Usage:
    return add_usages(e.usage for e in exchanges if e.usage is not None)


def add_usages(usages: Iterable[Usage]) -> Usage:
    """Returns the sum, class by class."""
    total = Usage()
    for usage in usages:
        total = total.plus(usage)
    return total


def add_costs(costs: Iterable[Cost]) -> Cost:
    """Returns the sum."""
    paid = uncached = 0
    for cost in costs:
        paid += cost.usd_micros
        uncached += cost.uncached_usd_micros
    return Cost(usd_micros=paid, uncached_usd_micros=uncached)


def add_spendings(parts: Iterable[Spending]) -> Spending:
    """Returns the sum of several trials' spending."""
    whole = list(parts)
    roles = [role for part in whole for role in part.roles]
    caps: Counter[str] = Counter()
    served: Counter[tuple[str, str, str]] = Counter()
    for part in whole:
        caps.update({count.cap: count.calls for count in part.caps_met})
        served.update({(s.api, s.asked, s.served): s.calls for s in part.served})
    return Spending.model_validate(
        {
            "calls": sum(part.calls for part in whole),
            "refused": sum(part.refused for part in whole),
            "unrecorded": sum(part.unrecorded for part in whole),
            "usage": add_usages(part.usage for part in whole),
            "cost": add_costs(part.cost for part in whole),
            "roles": tuple(
                RoleSpending(
                    role=role,
                    calls=sum(r.calls for r in mine),
                    bounded=sum(r.bounded for r in mine),
                    usage=add_usages(r.usage for r in mine),
                    cost=add_costs(r.cost for r in mine),
                )
                for role in ROLES
                if (mine := [r for r in roles if r.role == role])
            ),
            "caps_met": tuple({"cap": cap, "calls": n} for cap, n in sorted(caps.items())),
            "served": tuple(
                {"api": api, "asked": asked, "served": told, "calls": n}
                for (api, asked, told), n in sorted(served.items())
            ),
        }
    )


def _broken(expected: str, found: str) -> IntegrityError:
    return IntegrityError(
        "accounts-broken",
        f"expected {expected}, found {found}",
        hint="the record was changed after the fact: restore it from a copy",
    )
