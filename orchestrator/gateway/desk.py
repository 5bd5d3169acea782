"""One call from its bytes to its settlement: admit, reserve, answer, pass on, settle, record.

Knows no socket and no provider. Whatever happens to client or provider on the way, the reservation is
settled exactly once and the exchange is recorded exactly once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field

from orchestrator.core.clock import utc_now_text
from orchestrator.gateway.answers import error_body
from orchestrator.gateway.budget import Account, Budget, Reservation
from orchestrator.gateway.meter import bound_usage, bound_usd_micros, cost_of
from orchestrator.gateway.modes import (
    CONTENT_JSON,
    Answer,
    Call,
    CannotAnswer,
    Headers,
    Mode,
    UpstreamCut,
)
from orchestrator.gateway.passage import ClientGone, Passage, Reply
from orchestrator.gateway.quota import OverCap
from orchestrator.gateway.reading import AnswerReader
from orchestrator.gateway.record import Recorder
from orchestrator.gateway.secrets import Secrets
from orchestrator.gateway.tally import NO_COST, AttemptTally, ServedModels
from orchestrator.gateway.tokens import Grant, TokenRegistry, token_of
from orchestrator.gateway.wire import ROUTES, RequestRefused, plain_body, read_request
from orchestrator.model.exchange import (
    Body,
    Cap,
    Cost,
    Exchange,
    Lookup,
    Match,
    Outcome,
    UpstreamTry,
    UsageSource,
)
from orchestrator.model.gateway import Bounds
from orchestrator.model.usage import Api, ModelPrice, PriceTable, Usage

NO_RETRY: Headers = ((b"x-should-retry", b"false"),)
_STATUS_KINDS = {400: "invalid_request_error", 403: "permission_error", 404: "not_found_error"}


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as it came. `trial` is the one that its socket belongs to, if the socket has one."""

    method: str
    target: str
    headers: Headers
    body: bytes
    trial: str | None

    def header(self, name: bytes) -> str:
        """Returns the first value of a header, or the empty text."""
        return next((v.decode("latin-1") for n, v in self.headers if n.lower() == name), "")


@dataclass(slots=True)
class _Draft:
    """What becomes the record of one exchange."""

    incoming: Incoming
    began_ns: int = field(default_factory=time.monotonic_ns)
    at: str = field(default_factory=utc_now_text)
    grant: Grant | None = None
    api: Api | None = None
    model: str | None = None
    ordinal: int | None = None
    # Until an answer has passed whole, or something else is known to have happened.
    outcome: Outcome = "client_gone"
    detail: str | None = None
    cap: Cap | None = None
    status: int = 0
    headers: Headers = ()
    body: bytearray = field(default_factory=bytearray)
    tries: tuple[UpstreamTry, ...] = ()
    match: Match | None = None
    usage: Usage | None = None
    source: UsageSource = "none"
    cost: Cost = NO_COST
    reserved_usd_micros: int = 0
    served: tuple[str | None, str | None] = (None, None)
    first_byte_ms: int | None = None
    maybe_done: bool = False

    def elapsed_ms(self) -> int:
        return (time.monotonic_ns() - self.began_ns) // 1_000_000


class _Refused(Exception):
    """The call is not admitted."""

    def __init__(self, outcome: Outcome, status: int, message: str, cap: Cap | None = None) -> None:
        super().__init__(message)
        self.cap = cap
        self.outcome = outcome
        self.status = status


class Desk:
    """Serves calls with one mode, one budget and one record."""

    def __init__(
        self,
        *,
        mode: Mode,
        prices: PriceTable,
        budget: Budget,
        recorder: Recorder,
        secrets: Secrets,
        bounds: Bounds,
    ) -> None:
        self.tokens = TokenRegistry()
        self.mode = mode
        self.budget = budget
        self.recorder = recorder
        self.tallies: dict[str, AttemptTally] = {}
        self._prices = prices
        self._secrets = secrets
        self._bounds = bounds
        self._served = ServedModels()

    async def serve(self, incoming: Incoming, reply: Reply) -> None:
        """Serves one call to its end."""
        draft = _Draft(incoming)
        try:
            call, price, reservation = self._admit(draft)
        except _Refused as refused:
            await self._refuse(draft, reply, refused)
            return
        with self._settled(draft, price, reservation):
            try:
                await self.budget.durable()
            except OSError as error:
                # Nothing is forwarded, so nothing is charged.
                draft.outcome = "upstream_unreachable"
                draft.detail = f"the spend book could not be written: {error.strerror}"
                await self._tell(draft, reply, 503, draft.detail)
                return
            try:
                async with asyncio.timeout(self._bounds.upstream_total_s):
                    answer = await self.mode.answer(call)
                    await self._pass_on(draft, answer, reply)
            except CannotAnswer as none:
                draft.outcome, draft.detail = none.outcome, str(none)
                draft.tries, draft.match = none.tries, none.match
                draft.maybe_done = none.maybe_done
                await self._tell(draft, reply, none.status, str(none))
            except TimeoutError:
                draft.outcome, draft.detail = "upstream_cut", "the answer took too long"
                reply.abort()

    async def malformed(self, incoming: Incoming, reply: Reply, reason: str) -> None:
        """Refuses and records what is not a request, or is too large for one."""
        await self._refuse(_Draft(incoming), reply, _Refused("refused_request", 400, reason))

    async def _refuse(self, draft: _Draft, reply: Reply, refused: _Refused) -> None:
        tally = self._tally(draft)
        if tally is not None and not tally.may_refuse(self._bounds.trial_refusals, refused.cap):
            # Refusals cost a container nothing: beyond their bound they are neither told nor written down.
            reply.abort()
            return
        draft.outcome, draft.detail, draft.cap = refused.outcome, str(refused), refused.cap
        await self._tell(draft, reply, refused.status, str(refused))
        self._record(draft)

    def look_up(self, trial: str, name: str) -> None:
        """Records that something in a container asked for a name."""
        tally = self.tallies.get(trial)
        shown = name.encode("utf-8", "replace").decode()[:255]
        if tally is not None and tally.look_up(shown):
            self.recorder.write(
                Lookup(trial=trial, attempt=tally.attempt, name=shown, at=utc_now_text())
            )

    def _admit(self, draft: _Draft) -> tuple[Call, ModelPrice, Reservation]:
        incoming = draft.incoming
        token = token_of(incoming.headers)
        grant = self.tokens.find(token) if token else None
        if grant is None or incoming.trial not in {None, grant.trial}:
            raise _Refused("refused_token", 403, "expected the run token of this trial")
        draft.grant = grant
        path = incoming.target.partition("?")[0]
        draft.api = ROUTES.get(path)
        if draft.api is None or incoming.method != "POST":
            raise _Refused("refused_route", 404, f"expected POST to {', '.join(ROUTES)}")
        try:
            coding, limit = incoming.header(b"content-encoding"), self._bounds.body_bytes
            plain = plain_body(incoming.body, coding, max_bytes=limit)
            asked = read_request(draft.api, plain, max_bytes=limit)
        except RequestRefused as error:
            outcome: Outcome = "refused_policy" if error.policy else "refused_request"
            raise _Refused(outcome, 400, str(error)) from error
        draft.model = asked.model
        price = self._prices.find(asked.model)
        if price is None or asked.api not in price.apis:
            known = ", ".join(p.model for p in self._prices.models if asked.api in p.apis)
            raise _Refused(
                "refused_policy",
                400,
                f"expected a model with a price for {asked.api} ({known}), found {asked.model[:80]!r}",
            )
        unfit = self.mode.refuses(asked)
        if unfit is not None:
            raise _Refused("refused_policy", 400, unfit)
        reservation = self._reserve(
            draft, grant, bound_usd_micros(asked, price), bound_usage(asked, price)
        )
        draft.ordinal = self._next_ordinal(grant, draft.api)
        call = Call(
            trial=grant.trial,
            task_id=grant.task_id,
            attempt=grant.attempt,
            role=grant.role,
            ordinal=draft.ordinal,
            asked=asked,
            target=incoming.target,
            headers=incoming.headers,
            raw=incoming.body,
        )
        return call, price, reservation

    def _reserve(self, draft: _Draft, grant: Grant, usd_micros: int, bound: Usage) -> Reservation:
        account = Account(grant.trial, grant.condition, grant.role)
        try:
            reservation = self.budget.reserve(account, draft.model or "", usd_micros, bound)
        except OverCap as error:
            raise _Refused(
                "refused_budget", 400, f"budget exhausted: {error}", error.cap
            ) from error
        draft.reserved_usd_micros = usd_micros
        return reservation

    def _next_ordinal(self, grant: Grant, api: Api) -> int:
        tally = self.tallies[grant.trial]
        ordinal = tally.ordinals[grant.role, api]
        tally.ordinals[grant.role, api] += 1
        return ordinal

    @contextmanager
    def _settled(
        self, draft: _Draft, price: ModelPrice, reservation: Reservation
    ) -> Iterator[None]:
        """Settles and records when the block ends, however it ends."""
        try:
            yield
        finally:
            self._cost(draft, price)
            self.budget.settle(reservation, draft.cost, draft.source, draft.usage)
            self._record(draft)

    def _cost(self, draft: _Draft, price: ModelPrice) -> None:
        if draft.usage is not None:
            draft.source, draft.cost = "reported", cost_of(draft.usage, price)
        elif draft.status < 300 or draft.maybe_done:
            # Something may have been done and nobody said how much: the bound is charged.
            spent = draft.reserved_usd_micros
            draft.source = "reservation"
            draft.cost = Cost(usd_micros=spent, uncached_usd_micros=spent)

    async def _pass_on(self, draft: _Draft, answer: Answer, reply: Reply) -> None:
        """Sends an answer on, byte for byte, and reads it to its end even if the client is gone."""
        draft.tries, draft.match = tuple(answer.tries), answer.match
        draft.status, draft.headers = answer.status, self._clean(answer.headers)
        kind = _header(answer.headers, b"content-type")
        passage = Passage(self._secrets, reply)
        reader = AnswerReader(
            draft.api or "chat",
            events=kind.startswith(b"text/event-stream"),
            max_bytes=self._bounds.answer_bytes,
        )
        draft.first_byte_ms = draft.elapsed_ms()
        await passage.start(answer.status, draft.headers)
        try:
            async with aclosing(answer.chunks) as pieces:
                async for piece in pieces:
                    # First, so that nothing is counted that the record does not hold.
                    self._grow(draft, piece)
                    reader.feed(piece)
                    await passage.send(piece)
        except UpstreamCut:
            draft.outcome, draft.detail = "upstream_cut", "the answer was cut"
            passage.mute()
        finally:
            # Also when this call is cancelled: what was said until then counts.
            found = reader.reading()
            draft.usage, draft.served = found.usage, (found.model, found.fingerprint)
        await passage.finish()
        if draft.outcome != "upstream_cut":
            draft.outcome = passage.outcome(answer.status)

    def _grow(self, draft: _Draft, piece: bytes) -> None:
        if len(draft.body) + len(piece) > self._bounds.answer_bytes:
            raise UpstreamCut
        draft.body += piece

    def _clean(self, headers: Headers) -> Headers:
        return tuple((n, v) for n, v in headers if not self._secrets.has_key(v))

    async def _tell(self, draft: _Draft, reply: Reply, status: int, message: str) -> None:
        """Answers with an error of our own."""
        body = error_body(draft.api, _STATUS_KINDS.get(status, "api_error"), message)
        draft.status, draft.headers = status, (*CONTENT_JSON, *NO_RETRY)
        draft.body += body
        draft.first_byte_ms = draft.elapsed_ms()
        try:
            await reply.start(
                status, (*draft.headers, (b"content-length", str(len(body)).encode()))
            )
            await reply.send(body)
            await reply.finish()
        except ClientGone:
            reply.abort()

    def _tally(self, draft: _Draft) -> AttemptTally | None:
        trial = draft.grant.trial if draft.grant else draft.incoming.trial
        return self.tallies.get(trial or "")

    def _kept(self, draft: _Draft, tally: AttemptTally | None) -> Body:
        """Stores the request; of refused ones no more bytes than their bound, and digests beyond."""
        body = draft.incoming.body
        if draft.ordinal is None and tally is not None:
            tally.refused_bytes += len(body)
            if tally.refused_bytes > self._bounds.trial_refused_bytes:
                return self.recorder.digest_only(body)
        return self.recorder.keep(body)

    def _record(self, draft: _Draft) -> None:
        grant, keep = draft.grant, self.recorder
        trial = grant.trial if grant else draft.incoming.trial
        tally = self._tally(draft)
        exchange = Exchange(
            trial=trial,
            attempt=grant.attempt if grant else tally.attempt if tally else 0,
            role=grant.role if grant else None,
            api=draft.api,
            ordinal=draft.ordinal,
            mode=self.mode.name,
            method=draft.incoming.method,
            target=keep.text(draft.incoming.target),
            request_headers=keep.headers(draft.incoming.headers),
            request=self._kept(draft, tally),
            model=None if draft.model is None else keep.text(draft.model),
            outcome=draft.outcome,
            detail=None if draft.detail is None else keep.text(draft.detail),
            cap=draft.cap,
            status=draft.status,
            response_headers=keep.headers(draft.headers),
            response=keep.keep(bytes(draft.body)),
            tries=draft.tries,
            served_model=draft.served[0],
            fingerprint=draft.served[1],
            usage=draft.usage,
            usage_source=draft.source,
            reserved_usd_micros=draft.reserved_usd_micros,
            cost=draft.cost,
            match=draft.match,
            at=draft.at,
            first_byte_ms=draft.first_byte_ms,
            total_ms=draft.elapsed_ms(),
        )
        line = keep.write(exchange)
        if tally is None:
            return
        change = self._served.change(tally.condition, exchange)
        if change is not None:
            tally.changes.append(change)
        tally.take(exchange, line)


def _header(headers: Headers, name: bytes) -> bytes:
    return next((value.strip().lower() for key, value in headers if key.lower() == name), b"")
