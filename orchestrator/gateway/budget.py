"""Caps on money, calls and tokens: every call is reserved before it is forwarded and settled when it has ended.

Writes the spend book, the authority on money and, under an approval that bounds them, on calls and tokens. A
reservation that nobody settled (a process died) counts in full, for ever. Reserving is one step of one event loop, so concurrent calls cannot pass a cap
together.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from orchestrator.gateway.log import ChainedLog
from orchestrator.gateway.quota import Counts, OverCap
from orchestrator.model.exchange import (
    AgentCalled,
    Cap,
    Cost,
    Reserved,
    Role,
    Settled,
    SpendLine,
    TokensReserved,
    TokensSettled,
    UsageSource,
)
from orchestrator.model.usage import Caps, Quota, Usage

NO_TOKENS = Usage()


@dataclass(frozen=True, slots=True)
class Account:
    """Who a call is charged to."""

    trial: str
    condition: str
    role: Role


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money set aside for one call."""

    call: int
    account: Account
    usd_micros: int
    bound: Usage = NO_TOKENS


class Budget:
    """The caps of a run over its spend book."""

    def __init__(
        self, caps: Caps, book: Path, *, real_money: bool = True, quota: Quota | None = None
    ) -> None:
        """Opens the book and counts what it says was spent.

        Args:
            caps: the caps of the run.
            book: the spend book.
            real_money: a reservation must be on disk before its call is forwarded.
            quota: what the run may use besides money.

        Raises:
            UsageError: another process holds the book.
            IntegrityError: the book was changed.
        """
        self._caps = caps
        self._counts = Counts(quota)
        self._real_money = real_money
        self._book = ChainedLog(book, SpendLine)
        self._committed: dict[tuple[str, str], int] = defaultdict(int)
        self._open: dict[int, Reservation] = {}
        self._bounds: dict[int, Usage] = {}
        self._next = 0
        self._replay()

    def _replay(self) -> None:
        for line in self._book.lines:
            body = line.body
            if isinstance(body, Reserved):
                account = Account(body.trial, body.condition, body.role)
                self._open[body.call] = Reservation(body.call, account, body.usd_micros)
                self._add(account, body.usd_micros)
                self._counts.provider_calls += 1
                self._next = body.call + 1
            elif isinstance(body, Settled):
                reservation = self._open.pop(body.call)
                self._add(reservation.account, body.usd_micros - reservation.usd_micros)
            else:
                self._replay_counts(body)
        # What a dead process left open counts in full and stays open in the book: its settlement may be lost and
        # its exchange not, and a settlement made up here would contradict that.
        self._open.clear()
        self._book.lines.clear()
        self._bounds.clear()

    def _replay_counts(self, body: TokensReserved | TokensSettled | AgentCalled) -> None:
        if isinstance(body, AgentCalled):
            self._counts.agent_calls += 1
            return
        tokens = Usage(input=body.input_tokens, output=body.output_tokens)
        before = self._bounds.pop(body.call, NO_TOKENS)
        self._counts.add(tokens.input - before.input, tokens.output - before.output)
        if isinstance(body, TokensReserved):
            self._bounds[body.call] = tokens

    def open_attempt(self, trial: str, attempt: int) -> None:
        """Counts an attempt of an agent. Await `durable` before it begins.

        Raises:
            OverCap: the approval allows no more of them.
        """
        self._counts.open_attempt()
        if self._counts.quota is not None:
            self._book.append(AgentCalled(trial=trial, attempt=attempt))

    def committed_usd_micros(self, scope: str = "run", name: str = "") -> int:
        """Returns what is spent or set aside in a scope: `run`, `condition` or `trial`."""
        return self._committed[scope, name]

    @property
    def unsettled(self) -> int:
        """How many reservations are open."""
        return len(self._open)

    def unsettled_of(self, trial: str) -> int:
        """How many reservations of a trial are open."""
        return sum(r.account.trial == trial for r in self._open.values())

    def reserve(
        self, account: Account, model: str, usd_micros: int, bound: Usage = NO_TOKENS
    ) -> Reservation:
        """Sets money and tokens aside, or refuses. Await `durable` before the call is forwarded.

        Args:
            account: who is charged.
            model: its id.
            usd_micros: the most that the call can cost.
            bound: the most tokens that it can use.

        Raises:
            OverCap: a cap has no room for it.
        """
        if usd_micros > self._caps.per_call_usd_micros:
            raise OverCap("call", usd_micros, self._caps.per_call_usd_micros)
        for scope, name, cap in self._scopes(account):
            left = cap - self._committed[scope, name]
            if usd_micros > left:
                raise OverCap(scope, usd_micros, max(left, 0))
        self._counts.check(bound)
        reservation = Reservation(self._next, account, usd_micros, bound)
        self._counts.provider_calls += 1
        self._counts.add(bound.all_input, bound.output)
        self._next += 1
        self._open[reservation.call] = reservation
        self._add(account, usd_micros)
        self._book.append(
            Reserved(
                call=reservation.call,
                trial=account.trial,
                condition=account.condition,
                role=account.role,
                model=model,
                usd_micros=usd_micros,
            )
        )
        if self._counts.quota is not None:
            self._book.append(
                TokensReserved(
                    call=reservation.call,
                    input_tokens=bound.all_input,
                    output_tokens=bound.output,
                )
            )
        return reservation

    async def durable(self) -> None:
        """Returns when the book is safe: from a crash of the machine if the money is real."""
        if self._real_money:
            await self._book.sync()
        else:
            self._book.flush()

    def settle(
        self, reservation: Reservation, cost: Cost, source: UsageSource, usage: Usage | None = None
    ) -> None:
        """Replaces a reservation by what the call cost; a second settlement of one call is ignored.

        Args:
            reservation: what was set aside.
            cost: what the call cost.
            source: whether the provider reported it; what it did not report counts in full.
            usage: the tokens that it reported.
        """
        if self._open.pop(reservation.call, None) is None:
            return
        self._add(reservation.account, cost.usd_micros - reservation.usd_micros)
        self._book.append(
            Settled(
                call=reservation.call,
                usd_micros=cost.usd_micros,
                uncached_usd_micros=cost.uncached_usd_micros,
                source=source,
            )
        )
        bound = reservation.bound
        used = NO_TOKENS if source == "none" else bound if usage is None else usage
        self._counts.add(used.all_input - bound.all_input, used.output - bound.output)
        if self._counts.quota is not None:
            self._book.append(
                TokensSettled(
                    call=reservation.call, input_tokens=used.all_input, output_tokens=used.output
                )
            )
        # The traffic record is written next, and must not outlive a killed process further than the book does.
        # A disk that has no room is told by the next `durable`.
        with contextlib.suppress(OSError):
            self._book.flush()

    def _scopes(self, account: Account) -> tuple[tuple[Cap, str, int], ...]:
        return (
            ("trial", account.trial, self._caps.per_trial_usd_micros),
            ("condition", account.condition, self._caps.per_condition_usd_micros),
            ("run", "", self._caps.per_run_usd_micros),
        )

    def _add(self, account: Account, usd_micros: int) -> None:
        for scope, name, _ in self._scopes(account):
            self._committed[scope, name] += usd_micros

    def close(self) -> None:
        """Closes the book."""
        self._book.close()
