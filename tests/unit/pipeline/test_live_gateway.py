"""Promise: the process that holds provider keys passes the gate itself, and no call leaves without it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from orchestrator.attest import layout
from orchestrator.core.errors import ApprovalRefused, EnvironmentMissing, IntegrityError
from orchestrator.gateway.process import GatewayFault
from orchestrator.ledger.chain import Ledger, read_entries
from orchestrator.model.approval import Window
from orchestrator.model.record import RunApproved, RunStarted
from orchestrator.pipeline.live import append_approval, approval_for, check_resumable
from orchestrator.pipeline.traffic import gateway_of
from orchestrator.protocols import TrialPlace
from tests.live import USD, Case, live_plan, local_case
from tests.unit.gateway.support import chat, post
from tests.unit.gateway.upstream import fake_provider

KEY = "planted-openai-key-7c1b/+=z"
PLACE = TrialPlace("t/none/chat/e1", "t", "no_memory", 1, ("agent",))


@pytest.fixture
def provider():
    with fake_provider() as server:
        yield server


@pytest.fixture
def case(tmp_path, provider, monkeypatch) -> Case:
    monkeypatch.setenv("MEMTRIAL_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    plan = live_plan(provider.origin)
    return local_case(tmp_path / "config", plan, now_s=int(time.time()) - 5)


def folder_of(
    case: Case, tmp_path: Path, *, name: str = "run-1", envelope: bytes | None = None
) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / layout.PLAN).write_bytes(case.plan.canonical())
    (folder / layout.APPROVAL).write_bytes(envelope or case.envelope())
    return folder


def test_an_approved_run_calls_its_provider_with_the_key_that_no_one_else_sees(
    case, tmp_path, provider
):
    folder = folder_of(case, tmp_path)
    with gateway_of(case.plan, folder, ()) as gateway:
        assert gateway is not None
        opened = gateway.open_trial(PLACE)
        status, answer = post(opened, "/v1/chat/completions", chat())
        assert status == 200
        assert KEY.encode() not in answer
        traffic = gateway.close_trial(PLACE.trial)
    (seen,) = provider.seen
    assert dict(seen.headers)["authorization"] == f"Bearer {KEY}"
    assert traffic.roles[0].calls == 1
    assert traffic.roles[0].cost.usd_micros > 0
    for path in folder.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


def test_the_cap_of_the_approval_holds_in_the_gateway(case, tmp_path, provider):
    """One trial's share is 20 dollars / 2 arms x 4 at most: a call that could cost more is refused unsent."""
    folder = folder_of(case, tmp_path)
    with gateway_of(case.plan, folder, ()) as gateway:
        assert gateway is not None
        opened = gateway.open_trial(PLACE)
        body = chat("x" * 4_000_000)
        status, answer = post(opened, "/v1/chat/completions", body)
    assert status in {400, 402, 429}
    assert b"cap per" in answer
    assert provider.seen == []


def test_a_priced_model_that_the_plan_does_not_name_is_not_asked(case, tmp_path, provider):
    assert case.plan.gateway is not None
    assert case.plan.gateway.prices.find("embed-1") is not None
    folder = folder_of(case, tmp_path)
    with gateway_of(case.plan, folder, ()) as gateway:
        assert gateway is not None
        opened = gateway.open_trial(PLACE)
        body = {"model": "embed-1", "input": "x"}
        status, answer = post(opened, "/v1/embeddings", body)
    assert (status, b"the model that was signed, model-1" in answer) == (400, True)
    assert provider.seen == []


def refused(case: Case, folder: Path) -> str:
    with pytest.raises(ApprovalRefused) as error, gateway_of(case.plan, folder, ()):
        pass
    assert error.value.exit_code == 5
    return error.value.reference


def test_the_gateways_process_refuses_what_the_gate_refuses(case, tmp_path, provider):
    now_s = int(time.time())
    late = case.envelope(window=Window(not_before_s=now_s - 100, expires_s=now_s - 1))
    data = case.envelope()
    forged = data.replace(b'"sig":"', b'"sig":"AAAA', 1)
    changed = folder_of(case, tmp_path, name="changed")
    (changed / layout.PLAN).write_bytes(case.plan.canonical().replace(b'"epochs":1', b'"epochs":2'))
    unsigned = folder_of(case, tmp_path, name="unsigned")
    (unsigned / layout.APPROVAL).unlink()
    assert (
        refused(case, folder_of(case, tmp_path, name="late", envelope=late)) == "approval-expired"
    )
    assert (
        refused(case, folder_of(case, tmp_path, name="forged", envelope=forged))
        == "signature-invalid"
    )
    assert refused(case, changed) == "plan-invalid"
    assert refused(case, unsigned) == "live-needs-approval"
    assert provider.seen == []


def test_a_second_run_under_one_approval_is_refused_and_the_first_goes_on(case, tmp_path):
    envelope = case.envelope()
    first = folder_of(case, tmp_path, envelope=envelope)
    with gateway_of(case.plan, first, ()):
        pass
    with gateway_of(case.plan, first, ()):
        pass
    assert refused(case, folder_of(case, tmp_path, name="run-2", envelope=envelope)) == "nonce-used"
    began(case, first)
    check_resumable(case.plan, first)


def test_a_live_plan_begins_only_with_its_approval_and_a_key(case, monkeypatch):
    with pytest.raises(ApprovalRefused, match="signed approval"):
        approval_for(case.plan, None)
    assert approval_for(case.plan, case.envelope()) is not None
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(EnvironmentMissing, match="key of openai"):
        approval_for(case.plan, case.envelope())


def test_an_approval_is_used_up_when_the_run_gets_its_id_and_not_before(case):
    envelope = case.envelope()
    approve = approval_for(case.plan, envelope)
    approval_for(case.plan, envelope)
    assert case.home.book.state().lines == ()
    assert approve is not None
    approved = approve("run-1")
    assert approved.entry.standing == "directional"
    assert approved.entry.max_usd_micros == 5 * USD
    (line,) = case.home.book.state().lines
    assert line.run_id == "run-1"
    with pytest.raises(ApprovalRefused, match="used by run run-1"):
        approve("run-2")


def began(case: Case, folder: Path, *entries: RunApproved) -> None:
    """Gives a run's folder the ledger of a run that began, with what it says of its approval."""
    ledger = Ledger.create(folder / layout.LEDGER)
    ledger.append(
        RunStarted(
            run_id=folder.name, plan_sha256=case.plan.digest_sha256(), engine="played", workers=1
        )
    )
    for entry in entries:
        ledger.append(entry)
    ledger.close()


def approved_in(folder: Path) -> list[RunApproved]:
    entries = read_entries(folder / layout.LEDGER)[0]
    return [e.body for e in entries if isinstance(e.body, RunApproved)]


def not_resumable(case: Case, folder: Path) -> str:
    with pytest.raises(ApprovalRefused) as error:
        check_resumable(case.plan, folder)
    return error.value.reference


def test_a_run_goes_on_under_the_approval_that_its_ledger_names_and_no_other(case, tmp_path):
    envelope = case.envelope()
    approve = approval_for(case.plan, envelope)
    assert approve is not None
    folder = folder_of(case, tmp_path, envelope=envelope)
    began(case, folder, approve("run-1").entry)
    assert check_resumable(case.plan, folder) is None
    other = case.envelope(nonce="ab" * 32)
    (folder / layout.APPROVAL).write_bytes(other)
    assert not_resumable(case, folder) == "run-has-another-approval"
    assert len(case.home.book.state().lines) == 1


def test_a_run_whose_ledger_names_another_approval_does_not_go_on(case, tmp_path):
    envelope = case.envelope()
    approve = approval_for(case.plan, envelope)
    assert approve is not None
    folder = folder_of(case, tmp_path, envelope=envelope)
    entry = approve("run-1").entry
    began(case, folder, entry.model_copy(update={"approval_sha256": "0" * 64}))
    assert not_resumable(case, folder) == "approval-of-another-run"


def test_a_run_that_ended_before_its_approval_was_written_down_gets_it_written(case, tmp_path):
    envelope = case.envelope()
    approve = approval_for(case.plan, envelope)
    assert approve is not None
    entry = approve("run-1").entry
    folder = folder_of(case, tmp_path, envelope=envelope)
    began(case, folder)
    append_approval(folder, check_resumable(case.plan, folder))
    assert approved_in(folder) == [entry]
    append_approval(folder, check_resumable(case.plan, folder))
    assert approved_in(folder) == [entry]


def test_an_approval_that_no_run_began_under_resumes_nothing(case, tmp_path):
    folder = folder_of(case, tmp_path)
    with pytest.raises(IntegrityError, match="first entry"):
        check_resumable(case.plan, folder)
    began(case, folder)
    assert not_resumable(case, folder) == "approval-of-another-run"


def reserved_usd_micros(folder: Path) -> int:
    (line,) = [
        x for x in (folder / "gateway/spend.jsonl").read_bytes().splitlines() if b"reserved" in x
    ]
    return int(json.loads(line)["body"]["usd_micros"])


@pytest.fixture
def tight(case, tmp_path, provider) -> Case:
    """A case whose arms have room for one call of `calls` each, and after what that costs for no second one."""
    folder = folder_of(case, tmp_path, name="first-look")
    assert calls(case, folder) == [200]
    provider.seen.clear()
    plan = live_plan(provider.origin, max_usd_micros=2 * reserved_usd_micros(folder))
    return local_case(tmp_path / "config", plan, now_s=int(time.time()) - 5)


def calls(case: Case, folder: Path, *, times: int = 1) -> list[int]:
    """Returns the answers to some calls of a run that goes on."""
    with gateway_of(case.plan, folder, ()) as gateway:
        assert gateway is not None
        opened = gateway.open_trial(PLACE)
        found = [post(opened, "/v1/chat/completions", chat())[0] for _ in range(times)]
        gateway.close_trial(PLACE.trial)
    return found


def test_a_copied_folder_has_no_cap_of_its_own(tight, tmp_path, provider):
    first = folder_of(tight, tmp_path)
    copied = tmp_path / "elsewhere" / first.name
    shutil.copytree(first, copied)
    assert calls(tight, first, times=2) == [200, 400]
    assert calls(tight, copied) == [400]
    assert len(provider.seen) == 1


def test_a_removed_record_gives_no_money_back(tight, tmp_path, provider):
    folder = folder_of(tight, tmp_path)
    assert calls(tight, folder) == [200]
    kept = (folder / "gateway/spend.jsonl").read_bytes()
    shutil.rmtree(folder / "gateway")
    assert calls(tight, folder) == [400]
    assert (folder / "gateway/spend.jsonl").read_bytes() == kept
    assert len(provider.seen) == 1


def test_two_gateways_at_once_share_no_approval(tight, tmp_path, provider):
    first = folder_of(tight, tmp_path)
    copied = tmp_path / "elsewhere" / first.name
    shutil.copytree(first, copied)
    with gateway_of(tight.plan, first, ()):
        with pytest.raises(GatewayFault, match="held by another process"):
            calls(tight, copied)
        assert not (copied / "gateway/spend.jsonl").exists()


def test_a_spend_book_that_fell_behind_the_record_allows_no_call(tight, tmp_path, provider):
    folder = folder_of(tight, tmp_path)
    assert calls(tight, folder) == [200]
    for book in (tight.home.folder / "spend").iterdir():
        book.unlink()
    assert refused(tight, folder) == "spend-book-behind"
    assert len(provider.seen) == 1


def test_a_lost_spend_book_allows_no_call_when_its_copy_was_never_made(tight, tmp_path, provider):
    """As after a kill: the traffic record is there, and the copy is made at the end."""
    folder = folder_of(tight, tmp_path)
    assert calls(tight, folder) == [200]
    (folder / "gateway/spend.jsonl").unlink()
    for book in (tight.home.folder / "spend").iterdir():
        book.unlink()
    assert refused(tight, folder) == "spend-book-behind"
    assert len(provider.seen) == 1
