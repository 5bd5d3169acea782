"""Recomputes what models cost: caps, costs from tokens and prices, tokens from the stored answers, sums.

Reads spend book, traffic record and bodies of an opened bundle; changes nothing. What cannot be had again
because a body or blob was withheld is counted and said.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.agents.own_usage import own_usage
from orchestrator.audit.opening import Opened
from orchestrator.audit.recheck import Found
from orchestrator.core.errors import IntegrityError, MemtrialError, Negative
from orchestrator.core.words import counted
from orchestrator.gateway.accounts import BODIES_FILE, Accounts, read_accounts
from orchestrator.gateway.bodies import PackReader
from orchestrator.gateway.meter import bound_usd_micros, cost_of
from orchestrator.gateway.reading import AnswerReader
from orchestrator.gateway.tally import NO_COST, AttemptTally
from orchestrator.gateway.wire import RequestRefused, plain_body, read_request
from orchestrator.ledger.blobs import BlobWithheld
from orchestrator.ledger.history import AttemptRecord
from orchestrator.model.exchange import Body, Cost, Exchange, Header, Lookup, Reserved, Settled
from orchestrator.model.gateway import Bounds, Divergence, Traffic
from orchestrator.model.plan import Trial
from orchestrator.model.record import Stage
from orchestrator.model.usage import Caps, PriceTable
from orchestrator.model.verdict import Acted
from orchestrator.pipeline.dossier import Dossier, stage_document

PIECE_BYTES = 64 * 1024
BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class Spent:
    """The accounts of a run; None where no gateway ran."""

    accounts: Accounts | None


def check_spending(opened: Opened, dossier: Dossier) -> tuple[Spent, Found]:
    """Recomputes the spend book, the traffic record and what attempts and agents say of them.

    Raises:
        Negative: a cost, a usage, a sum or a cap is not what the evidence gives.
        IntegrityError: records are missing, broken, or not of this plan.
    """
    accounts = read_accounts(opened.files.optional)
    pin, kept = dossier.plan.gateway, list(attempts_of(dossier))
    if pin is None:
        if any(name.startswith("gateway/") for name in opened.files.names()):
            raise _mixed_up("no gateway's record in a run whose plan has none")
        return Spent(None), Found(0, "the plan asks no model")
    if accounts is None:
        if kept:
            raise _mixed_up("the gateway's record of the attempts that ran under it")
        return Spent(None), Found(0, "no gateway has run")
    _check_plan(accounts, dossier)
    _check_caps(accounts.book, pin.caps)
    withheld = _check_exchanges(opened, accounts, pin.prices)
    lost = sum(spent.unrecorded for spent in accounts.spending.values())
    loose = _loose_pieces(opened, accounts)
    if loose and not lost and not _interrupted(dossier):
        raise _mixed_up(f"bodies of recorded calls alone in {BODIES_FILE}")
    for trial, attempt in kept:
        withheld += _check_attempt(opened, accounts, trial, attempt)
    said = [f"{len(accounts.traffic)} lines of traffic"]
    said += [f"{counted(lost, 'call')} in the book alone"] if lost else []
    said += [f"{counted(accounts.torn_bytes, 'torn byte')}"] if accounts.torn_bytes else []
    said += [f"{counted(loose, 'piece')} of bodies of no recorded call"] if loose else []
    said += [f"{withheld} bodies or blobs withheld"] if withheld else []
    return Spent(accounts), Found(
        len(accounts.charges), "; ".join(said), not withheld and not loose
    )


def _loose_pieces(opened: Opened, accounts: Accounts) -> int:
    """Returns how many stored pieces no recorded call names, a torn end counted as one.

    Raises:
        IntegrityError: a piece is stored twice; the second one hides the first.
    """
    pack = PackReader(io.BytesIO(opened.files.optional(BODIES_FILE) or b""), BODIES_FILE)
    if pack.doubled:
        raise _mixed_up(f"each piece once in {BODIES_FILE}")
    bodies = (body for e in accounts.exchanges() for body in (e.request, e.response))
    named = {piece for body in bodies for piece in body.pieces}
    return len(pack.names - named) + bool(pack.torn_bytes)


def _interrupted(dossier: Dossier) -> bool:
    """Whether a process may have died between a body and its line: a clean run has nothing of this."""
    attempts = (a for t in dossier.run.trials.values() for a in t.attempts)
    return dossier.run.resumed > 0 or any(
        attempt.ended is None or attempt.ended.verdict_sha256 is None for attempt in attempts
    )


def attempts_of(dossier: Dossier) -> Iterator[tuple[Trial, AttemptRecord]]:
    """Yields every attempt that recorded how its agent ended."""
    for trial in dossier.plan.trials:
        for attempt in dossier.run.trial(trial.key).attempts:
            if Stage.ACT in attempt.stages:
                yield trial, attempt


def _check_plan(accounts: Accounts, dossier: Dossier) -> None:
    """Every call is one of the plan's trials, charged to its own condition."""
    conditions = {trial.key: trial.condition_id for trial in dossier.plan.trials}
    for charge in accounts.charges:
        said = charge.reserved
        if conditions.get(said.trial) != said.condition:
            raise _mixed_up(f"call {said.call} charged to a trial of the plan and its condition")


def _check_caps(book: tuple[Reserved | Settled, ...], caps: Caps) -> None:
    """Replays the book line by line, as the gateway wrote it: no reservation may have passed a cap when it was made.

    Until a call is settled its whole reservation counts, so calls that were open together are added up.
    """
    committed: dict[tuple[str, str], int] = defaultdict(int)
    reserved: dict[int, Reserved] = {}
    for line in book:
        if isinstance(line, Settled):
            was = reserved.pop(line.call)
            for scope, name, _ in _scopes(was, caps):
                committed[scope, name] += line.usd_micros - was.usd_micros
            continue
        said = reserved[line.call] = line
        over = said.usd_micros > caps.per_call_usd_micros
        for scope, name, cap in _scopes(said, caps):
            committed[scope, name] += said.usd_micros
            over = over or committed[scope, name] > cap
        if over:
            raise Negative(
                "cap-passed",
                f"call {said.call} of {said.trial}: expected room under the plan's caps, found a reservation of {said.usd_micros} micro-USD above one",
                hint="the run spent more than its plan allows: do not rely on it",
            )


def _scopes(said: Reserved, caps: Caps) -> tuple[tuple[str, str, int], ...]:
    return (
        ("trial", said.trial, caps.per_trial_usd_micros),
        ("condition", said.condition, caps.per_condition_usd_micros),
        ("run", "", caps.per_run_usd_micros),
    )


def _check_exchanges(opened: Opened, accounts: Accounts, prices: PriceTable) -> int:
    """Recomputes reservation, usage and cost of every admitted call; returns how many bodies are withheld."""
    pack_data = opened.files.optional(BODIES_FILE)
    pack = PackReader(io.BytesIO(pack_data or b""), BODIES_FILE)
    withheld = 0
    for exchange in accounts.exchanges():
        bodies = [body_of(pack, exchange.request), body_of(pack, exchange.response)]
        withheld += bodies.count(None)
        if exchange.ordinal is not None:
            _check_call(exchange, bodies[0], bodies[1], prices)
        elif (exchange.cost, exchange.reserved_usd_micros, exchange.usage) != (NO_COST, 0, None):
            raise _differs(exchange, "no cost of a refused call")
    return withheld


def body_of(pack: PackReader, body: Body) -> bytes | None:
    """Returns recorded bytes; None where they were withheld."""
    return None if body.bytes and not body.pieces else pack.get(body)


def _check_call(
    exchange: Exchange, request: bytes | None, answer: bytes | None, prices: PriceTable
) -> None:
    price = prices.find(exchange.model or "")
    if price is None or exchange.api not in price.apis or exchange.api is None:
        raise _differs(exchange, "a model with a price in the plan")
    if request is not None:
        coding = _header(exchange.request_headers, "content-encoding")
        limit = BOUNDS.body_bytes
        try:
            plain = plain_body(request, coding, max_bytes=limit)
            asked = read_request(exchange.api, plain, max_bytes=limit)
        except RequestRefused as error:
            raise _differs(exchange, "a request that can be admitted") from error
        if (asked.model, bound_usd_micros(asked, price)) != (
            exchange.model,
            exchange.reserved_usd_micros,
        ):
            raise _differs(exchange, "the bound that its request gives")
    if answer is not None:
        kind = _header(exchange.response_headers, "content-type").strip().lower()
        reader = AnswerReader(
            exchange.api,
            events=kind.startswith("text/event-stream"),
            max_bytes=BOUNDS.answer_bytes,
        )
        for begin in range(0, len(answer), PIECE_BYTES):
            reader.feed(answer[begin : begin + PIECE_BYTES])
        found = reader.reading()
        said = (exchange.usage, exchange.served_model, exchange.fingerprint)
        if said != (found.usage, found.model, found.fingerprint):
            raise _differs(exchange, "the usage and model that its answer reports")
    reserved = exchange.reserved_usd_micros
    expected = {
        "reported": cost_of(exchange.usage, price) if exchange.usage else None,
        "reservation": Cost(usd_micros=reserved, uncached_usd_micros=reserved),
        "none": NO_COST,
    }[exchange.usage_source]
    if exchange.cost != expected or (exchange.usage is None) == (
        exchange.usage_source == "reported"
    ):
        raise _differs(exchange, "the cost that its tokens and the plan's prices give")
    if exchange.usage_source == "none" and exchange.status < 300:
        raise _differs(exchange, "a charge for an answer without a usage")


def _header(headers: tuple[Header, ...], name: str) -> str:
    return next((header.value for header in headers if header.name == name), "")


def _check_attempt(opened: Opened, accounts: Accounts, trial: Trial, attempt: AttemptRecord) -> int:
    """Adds an attempt's traffic up again, and reads its agent's own figures again; returns what is withheld."""
    withheld = 0
    names = {item.name: item.sha256 for item in attempt.stages[Stage.ACT].artifacts}
    try:
        data = opened.files.get(names.get("traffic", ""))
        said = Traffic.parse_canonical(data, where=f"traffic of {trial.key}")
        if said != _traffic_again(accounts, trial, attempt.number, said):
            raise Negative(
                "traffic-differs",
                f"{trial.key}: expected the traffic that the gateway's record gives, found another",
                hint="the sums were not made from this record: do not rely on this run",
            )
    except BlobWithheld:
        withheld += 1
    try:
        acted = stage_document(opened.files, attempt, Stage.ACT, Acted)
        if acted.own_usage != own_usage(opened.files.get(acted.output_sha256)):
            raise Negative(
                "own-usage-differs",
                f"{trial.key}: expected the figures that the agent's output gives, found others",
                hint="the agent's own figures were not read from this output",
            )
    except BlobWithheld:
        withheld += 1
    return withheld


def _traffic_again(accounts: Accounts, trial: Trial, number: int, said: Traffic) -> Traffic:
    """Tallies the attempt's lines; what only the process knew (served before, open calls) is as said."""
    tally = AttemptTally(trial.key, trial.condition_id, number)
    for digest, body in accounts.by_attempt.get((trial.key, number), ()):
        if isinstance(body, Lookup):
            tally.look_up(body.name)
        else:
            tally.take(body, digest)
    tally.changes.extend(said.served_changes)
    divergence: Divergence | None = said.divergence
    return tally.traffic(divergence=divergence, unsettled=said.unsettled)


def _differs(exchange: Exchange, expected: str) -> MemtrialError:
    return Negative(
        "cost-differs",
        f"call {exchange.ordinal} of {exchange.trial} ({exchange.api}): expected {expected}, found something else",
        hint="the record does not follow from its own bodies and the plan's prices: do not rely on this run",
    )


def _mixed_up(expected: str) -> IntegrityError:
    return IntegrityError(
        "spending-mixed-up",
        f"expected {expected}, found something else",
        hint="no memtrial writes such a record: get the bundle again from its source",
    )
