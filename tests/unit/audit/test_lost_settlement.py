"""Promise: a settlement that a power failure took costs its bound and nothing else; what costs less is refused."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.core.errors import ApprovalRefused, IntegrityError
from orchestrator.core.keys import SigningKey
from orchestrator.gateway import accounts
from orchestrator.gateway.accounts import Accounts, Charge, read_accounts
from orchestrator.gateway.budget import Account, Budget
from orchestrator.gateway.log import ChainedLog
from orchestrator.model.exchange import (
    Cost,
    Exchange,
    Reserved,
    Settled,
    SpendLine,
    TokensReserved,
)
from orchestrator.model.usage import Usage
from orchestrator.pipeline.livebook import check_book
from orchestrator.pipeline.seal import Signer
from tests.played_live import LiveRun, record_live_run
from tests.recorded import files_of, seal, write_reports
from tests.unit.gateway.support import WIDE


@pytest.fixture(scope="module")
def live(tmp_path_factory) -> LiveRun:
    return record_live_run(tmp_path_factory.mktemp("live"))


@dataclass(frozen=True)
class Cut:
    """The record of a live run, without its copy of the book, and the book without its last lines."""

    folder: Path

    @property
    def book(self) -> Path:
        return self.folder / "book.jsonl"

    def cut(self, lines: int) -> None:
        whole = self.book.read_bytes().splitlines(keepends=True)
        self.book.write_bytes(b"".join(whole[:-lines]))

    def check(self) -> None:
        check_book(self.book, self.folder)

    def accounts(self) -> Accounts:
        names = {"gateway/spend.jsonl": self.book, "gateway/traffic.jsonl": self.traffic}
        found = read_accounts(lambda name: names[name].read_bytes())
        assert found is not None
        return found

    @property
    def traffic(self) -> Path:
        return self.folder / "traffic.jsonl"


@pytest.fixture
def record(live, tmp_path) -> Cut:
    shutil.copy(live.folder / "gateway/traffic.jsonl", tmp_path / "traffic.jsonl")
    shutil.copy(live.folder / "gateway/spend.jsonl", tmp_path / "book.jsonl")
    made = Cut(tmp_path)
    last = made.accounts().book[-1]
    assert isinstance(last, Settled)
    assert last.source == "reported"
    return made


def test_a_book_that_lost_its_last_settlement_allows_further_calls(record):
    record.cut(1)
    record.check()


def test_a_book_that_lost_a_reservation_too_allows_none(record):
    record.cut(2)
    with pytest.raises(ApprovalRefused) as refused:
        record.check()
    assert refused.value.reference == "spend-book-behind"


def test_the_call_whose_settlement_was_lost_counts_in_full(record):
    before = record.accounts()
    record.cut(1)
    after = record.accounts()
    lost = after.charges[-1]
    assert (lost.settled, lost.cost.usd_micros) == (None, lost.reserved.usd_micros)
    assert lost.cost.usd_micros > before.charges[-1].cost.usd_micros
    spent = after.spending[lost.reserved.trial]
    assert (spent.unrecorded, spent.calls) == (0, before.spending[lost.reserved.trial].calls)


def test_the_next_gateway_makes_up_no_settlement_that_the_exchange_contradicts(record):
    record.cut(1)
    told = record.book.read_bytes()
    in_full = sum(charge.cost.usd_micros for charge in record.accounts().charges)
    budget = Budget(WIDE, record.book)
    assert (budget.committed_usd_micros(), budget.unsettled) == (in_full, 0)
    budget.reserve(Account("another", "none", "agent"), "model-1", 1)
    budget.close()
    assert record.book.read_bytes().startswith(told)
    record.check()


def test_a_run_whose_record_lost_a_settlement_verifies_when_it_is_sealed(live, tmp_path):
    folder = tmp_path / live.folder.name
    shutil.copytree(live.folder, folder)
    book = folder / "gateway/spend.jsonl"
    book.write_bytes(b"".join(book.read_bytes().splitlines(keepends=True)[:-1]))
    write_reports(folder)
    key = SigningKey.generate()
    seal(folder, Signer(key, "operator"))
    trust = Trust(now="2099-01-01T00:00:00Z", keyid=key.public.keyid)
    found = verify_bundle(FolderView(folder), trust, name="live")
    assert found.failed == ()
    assert "book.jsonl" not in files_of(folder)


@dataclass(frozen=True)
class Call:
    """An exchange of a call, and its charge without a settlement."""

    charge: Charge
    exchange: Exchange


@pytest.fixture
def call(record) -> Call:
    found = record.accounts()
    charge = dataclasses.replace(found.charges[-1], settled=None)
    return Call(charge, found.exchanges()[-1])


def test_a_reservation_covers_its_exchange(call):
    assert call.charge.covers(call.exchange)


@pytest.mark.parametrize("field", ["trial", "role", "model", "reserved_usd_micros"])
def test_a_reservation_covers_no_other_call(call, field):
    other = {"trial": "t", "role": "judge", "model": "m", "reserved_usd_micros": 10**9}[field]
    assert not call.charge.covers(call.exchange.model_copy(update={field: other}))


@pytest.mark.parametrize(("more", "covered"), [(0, True), (1, False)])
def test_a_reservation_covers_what_it_set_aside_and_no_micro_usd_more(call, more, covered):
    spent = call.charge.reserved.usd_micros + more
    cost = Cost(usd_micros=spent, uncached_usd_micros=spent)
    assert call.charge.covers(call.exchange.model_copy(update={"cost": cost})) is covered


def test_what_was_settled_otherwise_covers_nothing(call):
    settled = Settled(call=0, usd_micros=0, uncached_usd_micros=0, source="none")
    charge = dataclasses.replace(call.charge, settled=settled)
    assert not charge.covers(call.exchange)


@pytest.mark.parametrize(
    ("used", "covered"),
    [
        (Usage(input=5, cache_read=5, output=7), True),
        (Usage(input=6, cache_read=5, output=7), False),
        (Usage(input=5, cache_read=5, output=8), False),
        (None, True),
    ],
)
def test_tokens_that_were_signed_are_covered_as_money_is(call, used, covered):
    tokens = TokensReserved(call=0, input_tokens=10, output_tokens=7)
    charge = dataclasses.replace(call.charge, tokens=tokens, limited=True)
    assert charge.covers(call.exchange.model_copy(update={"usage": used})) is covered


def test_a_call_that_set_no_tokens_aside_where_they_are_bounded_covers_nothing(call):
    assert not dataclasses.replace(call.charge, limited=True).covers(call.exchange)


@pytest.mark.parametrize(("names", "found"), [(0, 100), (1, None)])
def test_tokens_are_set_aside_for_the_call_that_they_follow(record, names, found):
    record.book.unlink()
    record.traffic.write_bytes(b"")
    log = ChainedLog(record.book, SpendLine)
    log.append(Reserved(call=0, trial="t", condition="c", role="agent", model="m", usd_micros=1))
    log.append(TokensReserved(call=names, input_tokens=100, output_tokens=1))
    log.close()
    (charge,) = record.accounts().charges
    assert charge.limited
    assert (charge.tokens and charge.tokens.input_tokens) == found


def test_one_reservation_covers_one_exchange(record):
    record.cut(1)
    found = record.accounts()
    doubled = dataclasses.replace(found, traffic=(*found.traffic, found.traffic[-1]))
    with pytest.raises(IntegrityError, match="another or none"):
        _ = doubled.spending


@pytest.mark.parametrize(("most", "held"), [(1, True), (0, False)])
def test_more_lost_settlements_than_an_accident_takes_are_none(record, monkeypatch, most, held):
    record.cut(1)
    monkeypatch.setattr(accounts, "MAX_LOST", most)
    if held:
        record.check()
        return
    with pytest.raises(ApprovalRefused, match="another or none"):
        record.check()
