"""Promise: a bundle's approval is judged by what the run recorded: plan, ledger, calls, money and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.attest import layout
from orchestrator.audit.approval import check_approval
from orchestrator.audit.recheck import Found
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import utc_seconds, utc_text_of
from orchestrator.core.errors import Negative
from orchestrator.core.keys import SigningKey
from orchestrator.gateway.accounts import Accounts, read_accounts
from orchestrator.model.approval import APPROVAL_TYPE, Upstream, Window
from orchestrator.model.exchange import UpstreamTry
from orchestrator.model.record import LedgerEntry, RunApproved, RunResumed
from orchestrator.pipeline.dossier import Dossier, read_dossier
from orchestrator.pipeline.seal import Signer
from tests.played_live import LiveRun, record_live_run
from tests.recorded import files_of, seal

OTHER = (Upstream(provider="openai", origin="https://other.example"),)


@pytest.fixture(scope="module")
def live(tmp_path_factory) -> LiveRun:
    return record_live_run(tmp_path_factory.mktemp("live"))


class Told:
    """What a bundle says of its run; a test changes one thing in it."""

    def __init__(self, live: LiveRun) -> None:
        self.live = live
        self.files = files_of(live.folder)
        self.dossier: Dossier = read_dossier(self.files[layout.PLAN], self.files[layout.LEDGER])
        accounts = read_accounts(self.files.get)
        assert accounts is not None
        self.accounts: Accounts | None = accounts

    def approve(self, **changes: Any) -> None:
        """Puts another approval in, well signed, and lets the ledger name it."""
        self.put(self.live.case.envelope(**changes))
        approval = self.live.case.approval.model_copy(update=changes)
        self.enter(
            approval_id=approval.approval_id,
            expires_s=approval.window.expires_s,
            max_usd_micros=min(approval.max_usd_micros, 5_000_000),
        )

    def put(self, envelope: bytes) -> None:
        self.files[layout.APPROVAL] = envelope
        self.enter(approval_sha256=sha256_hex(envelope))

    def enter(self, **changes: Any) -> None:
        """Changes what the ledger says of the approval."""
        entry = self.dossier.run.approved
        assert entry is not None
        self.dossier.run.approved = entry.model_copy(update=changes)

    def exchanges(self, change: Callable[[Any], Any]) -> None:
        """Changes every exchange of the traffic record."""
        assert self.accounts is not None
        self.accounts = replace(
            self.accounts, traffic=tuple((d, change(body)) for d, body in self.accounts.traffic)
        )

    def record(self, change: Callable[[list[LedgerEntry]], None]) -> None:
        """Changes the ledger's entries."""
        entries = list(self.dossier.content.entries)
        change(entries)
        numbered = [e.model_copy(update={"seq": n}) for n, e in enumerate(entries)]
        self.dossier = replace(
            self.dossier, content=replace(self.dossier.content, entries=numbered)
        )

    def judge(self, *approvers: str) -> Found:
        opened: Any = SimpleNamespace(files=SimpleNamespace(optional=self.files.get))
        return check_approval(opened, self.dossier, self.accounts, frozenset(approvers))


@pytest.fixture
def told(live) -> Told:
    return Told(live)


def refused(told: Told, *approvers: str) -> str:
    with pytest.raises(Negative) as error:
        told.judge(*approvers)
    return error.value.message


def test_a_run_that_kept_to_its_approval_is_so_judged_in_its_sealed_bundle(live):
    key = SigningKey.generate()
    seal(live.folder, Signer(key, "operator"))
    trust = Trust(now="2099-01-01T00:00:00Z", keyid=key.public.keyid)
    found = verify_bundle(FolderView(live.folder), trust, name="live")
    assert found.failed == ()
    (check,) = [c for c in found.checks if c.name == "approval"]
    assert (check.status, check.count) == ("partly", 1)
    assert "directional: local-" in check.detail
    assert "calls within it; no --approver given" in check.detail
    known = replace(trust, approvers=frozenset({live.case.home.key().public.keyid}))
    found = verify_bundle(FolderView(live.folder), known, name="live")
    assert [c.status for c in found.checks if c.name == "approval"] == ["ok"]


def test_only_approvers_whom_the_reader_knows_count(told, live):
    operator = live.case.home.key().public.keyid
    assert told.judge(operator, "0" * 64).whole
    assert not told.judge().whole
    assert "1 signatures by keys given with --approver, found 0" in refused(told, "0" * 64)


@pytest.mark.parametrize("place", [0, 2, -1])
def test_an_approval_that_the_ledger_names_elsewhere_than_at_its_beginning_is_refused(told, place):
    def move(entries: list[LedgerEntry]) -> None:
        entry = entries.pop(1)
        entries.insert(len(entries) if place == -1 else place, entry)

    told.record(move)
    assert "the second of the ledger" in refused(told)


def test_a_second_approval_is_refused(told):
    told.record(lambda entries: entries.append(entries[1]))
    assert "the second of the ledger" in refused(told)


def test_a_ledger_that_names_an_approval_which_is_not_there_is_refused(told):
    del told.files[layout.APPROVAL]
    plan = told.dossier.plan.model_copy(update={"gateway": None})
    told.dossier = replace(told.dossier, plan=plan)
    assert "names no approval where there is none" in refused(told)


def test_a_run_that_was_taken_up_again_outside_the_window_is_refused(told, live):
    window = live.case.approval.window

    def resume(at_s: int) -> Callable[[list[LedgerEntry]], None]:
        body = RunResumed(torn_tail_bytes=0)
        return lambda entries: entries.append(
            entries[-1].model_copy(update={"at": utc_text_of(at_s), "body": body})
        )

    for at_s in (window.not_before_s - 1, window.expires_s):
        told = Told(live)
        told.record(resume(at_s))
        assert "a run that was taken up again in the window" in refused(told)
    told = Told(live)
    told.record(resume(window.expires_s - 1))
    told.judge()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_usd_micros": 4_999_999}, "a cap of at most 4999999"),
        ({"upstreams": OTHER}, "upstreams openai https://other.example"),
        ({"plan_sha256": "0" * 64}, "plan 0000"),
        ({"root_sha256": "0" * 64}, "the roles that the approval names"),
    ],
    ids=["cap", "upstream", "plan", "roles"],
)
def test_an_approval_of_something_else_is_refused(told, change, said):
    told.approve(**change)
    assert said in refused(told)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"approval_id": "another"}, "id local-"),
        ({"signers": ("0" * 64,)}, "signers"),
        ({"standing": "official"}, "standing directional"),
        ({"expires_s": 10**10}, "end"),
        ({"max_usd_micros": 10**9}, "cap in the ledger 5000000"),
        ({"approval_sha256": "0" * 64}, "the approval that the ledger names"),
    ],
    ids=["id", "signers", "standing", "end", "cap", "digest"],
)
def test_a_ledger_that_says_something_else_of_the_approval_is_refused(told, change, said):
    told.enter(**change)
    assert said in refused(told)


def test_a_ledger_that_names_no_approval_is_refused(told):
    told.dossier.run.approved = None
    assert "the approval that the ledger names" in refused(told)


def began_s(told: Told) -> int:
    (at,) = [e.at for e in told.dossier.content.entries if isinstance(e.body, RunApproved)]
    return int(utc_seconds(at))


def test_a_run_that_began_outside_the_window_is_refused(told):
    now_s = began_s(told)
    for window in (
        Window(not_before_s=now_s + 2, expires_s=now_s + 100),
        Window(not_before_s=now_s - 100, expires_s=now_s),
    ):
        told.approve(window=window)
        assert "a run that began in the window" in refused(told)


def test_a_call_outside_the_window_is_refused(told, live):
    window = live.case.approval.window
    for at in ("2020-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"):
        told = Told(live)
        told.exchanges(lambda body, at=at: body.model_copy(update={"at": at}))
        assert "calls in the window" in refused(told)
    told = Told(live)
    late = UpstreamTry(status=429, error=None, waited_ms=1000 * (window.expires_s - began_s(told)))
    told.exchanges(lambda body: body.model_copy(update={"tries": (late, *body.tries)}))
    assert "calls in the window" in refused(told)


def test_more_money_than_was_signed_is_refused(told):
    assert told.accounts is not None
    charges = tuple(
        replace(c, settled=c.settled.model_copy(update={"usd_micros": 4_000_000}))
        for c in told.accounts.charges
        if c.settled
    )
    assert len(charges) > 1
    told.accounts = replace(told.accounts, charges=charges)
    assert "at most 5000000 micro-USD spent" in refused(told)


def test_a_call_of_another_model_than_was_signed_is_refused(told):
    told.exchanges(lambda body: body.model_copy(update={"model": "embed-1"}))
    assert "calls of model-1 at openai alone, found one of embed-1 at openai" in refused(told)


def test_a_call_to_another_provider_than_was_signed_is_refused(told):
    told.exchanges(lambda body: body.model_copy(update={"api": "messages"}))
    assert "calls of model-1 at openai alone, found one of model-1 at anthropic" in refused(told)


def test_money_set_aside_for_another_model_than_was_signed_is_refused(told):
    assert told.accounts is not None
    charges = tuple(
        replace(c, reserved=c.reserved.model_copy(update={"model": "embed-1"}))
        for c in told.accounts.charges
    )
    told.accounts = replace(told.accounts, charges=charges)
    assert "found money set aside for embed-1" in refused(told)


def test_a_bundle_without_roles_or_with_a_bad_envelope_is_refused(told, live):
    del told.files[layout.ROLES]
    assert "beside the approval" in refused(told)
    for envelope, said in (
        (live.case.envelope().replace(b'"sig":"', b'"sig":"AAAA', 1), "expected a signature"),
        (live.case.sign(live.case.approval.canonical(), APPROVAL_TYPE), "payload type"),
        (live.case.sign(b'{"a":1}'), "expected a valid LocalApproval"),
    ):
        told = Told(live)
        told.put(envelope)
        assert said in refused(told)
