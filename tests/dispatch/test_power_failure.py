"""Promise: a run that lost no more than a settlement to a power failure goes on, and the call counts in full."""

from __future__ import annotations

from pathlib import Path

from orchestrator.gateway.accounts import Accounts, read_accounts
from tests.dispatch.supervised import Site
from tests.dispatch.test_dispatch import BODY, place, spent
from tests.unit.gateway.support import post

SETTLEMENT_LINES = 2


def accounts_of(here: Site, book: Path) -> Accounts:
    (record,) = (here.world.state / "runs").iterdir()
    names = {"gateway/spend.jsonl": book, "gateway/traffic.jsonl": record / "traffic.jsonl"}
    found = read_accounts(lambda name: names[name].read_bytes())
    assert found is not None
    return found


def test_a_run_whose_last_settlement_was_lost_goes_on_and_counts_it_in_full(here):
    book = spent(here, 2)
    whole = book.read_bytes().splitlines(keepends=True)
    book.write_bytes(b"".join(whole[:-SETTLEMENT_LINES]))
    for calls in (3, 4):
        way = here.way()
        way.approve("run-1")
        opened = way.open_trial(place(here, attempt=calls))
        assert post(opened, "/v1/chat/completions", BODY)[0] == 200
        way.close_trial(here.plan.trials[0].key)
        way.end()
        assert len(here.provider.seen) == calls
    charges = accounts_of(here, book).charges
    assert [charge.settled is None for charge in charges] == [False, True, False, False]
    assert charges[1].cost.usd_micros == charges[1].reserved.usd_micros > 0
