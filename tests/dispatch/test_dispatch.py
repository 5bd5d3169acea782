"""Promise: the supervisor dispatches what was approved, once, for its run; the operator gets tokens and no key."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.attest import layout
from orchestrator.core.errors import (
    ApprovalRefused,
    BudgetExhausted,
    EnvironmentMissing,
    MemtrialError,
    UsageError,
)
from orchestrator.gateway.keys import ProviderKeys
from orchestrator.ledger.chain import Ledger, read_entries
from orchestrator.model.record import RunApproved, RunStarted
from orchestrator.pipeline.dispatched import Supervised, supervised_again
from orchestrator.pipeline.live import append_approval, unwritten_of
from orchestrator.protocols import TrialPlace
from orchestrator.supervisor import dispatching
from orchestrator.trust.gate.machine import NONCES
from orchestrator.trust.nonces import NonceBook
from tests.dispatch.conftest import smoke
from tests.dispatch.supervised import KEY, Site, run_played, site
from tests.gate.attacks_more import withdrawn
from tests.unit.gateway.support import chat, post
from tests.unit.trust.support import APPROVERS, LEDGER, SUPERVISOR, key

BODY = {**chat(), "model": "model-1"}


class Shadow:
    """A module, but for some of its names."""

    def __init__(self, module: Any, **names: Any) -> None:
        self.__dict__.update(vars(module) | names)


def place(here: Site, *, number: int = 0, attempt: int = 1, **changes: Any) -> TrialPlace:
    trial = here.plan.trials[number]
    facts: dict[str, Any] = {
        "trial": trial.key,
        "task_id": trial.task_id,
        "condition": trial.condition_id,
        "attempt": attempt,
        "roles": ("agent",),
    }
    return TrialPlace(**{**facts, **changes})


def uses(here: Site) -> list[str]:
    """Which runs used approvals, besides the old ones of the world."""
    return [line.run_id for line in NonceBook(here.world.state / NONCES).state().lines][3:]


def refused(work: Any, kind: type[MemtrialError] = ApprovalRefused) -> str:
    with pytest.raises(kind) as error:
        work()
    return error.value.reference


def test_an_approved_run_reaches_its_provider_with_a_key_that_the_operator_never_sees(
    here, tmp_path
):
    way = here.way()
    approved = way.approve("run-1")
    assert uses(here) == ["run-1"]
    assert approved.entry.approval_id == "smoke-one"
    assert approved.entry.standing == "directional"
    assert {name for name, _ in approved.files} == {layout.APPROVAL, layout.ROLES}
    way.record_into(tmp_path / "gateway")
    opened = way.open_trial(place(here))
    status, _ = post(opened, "/v1/chat/completions", BODY)
    assert status == 200
    traffic = way.close_trial(here.plan.trials[0].key)
    way.end()
    assert traffic.roles[0].calls == 1
    (seen,) = here.provider.seen
    assert dict(seen.headers)["authorization"] == f"Bearer {KEY}"
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()
    (own,) = (here.world.state / "runs").iterdir()
    assert own.name == here.world.ingredients.approval["nonce"]
    for name in ("traffic.jsonl", "bodies.pack"):
        assert (tmp_path / "gateway" / name).read_bytes() == (own / name).read_bytes() != b""
    (book,) = (here.world.state / "spend").iterdir()
    assert (tmp_path / "gateway/spend.jsonl").read_bytes() == book.read_bytes()
    assert not list((here.socket.parent).glob("r*"))


def test_a_priced_model_that_nobody_signed_is_not_asked(here):
    way = here.way()
    way.approve("run-1")
    opened = way.open_trial(place(here))
    status, answer = post(opened, "/v1/embeddings", {"model": "embed-1", "input": "x"})
    way.end()
    assert (status, b"the model that was signed, model-1" in answer) == (400, True)
    assert here.provider.seen == []


def test_the_approval_serves_no_second_run_and_the_first_goes_on(here):
    with closing(here.way()) as first:
        first.approve("run-1")
        with pytest.raises(ApprovalRefused) as error:
            here.way().approve("run-2")
    assert (error.value.reference, error.value.check) == ("nonce-used", 15)
    assert uses(here) == ["run-1"]


@pytest.mark.parametrize("sealer", [APPROVERS[0], SUPERVISOR, key("nobody")])
def test_a_run_that_another_key_than_the_ledgers_would_seal_uses_nothing_up(here, sealer):
    assert refused(lambda: here.way(key=sealer).approve("run-1")) == "seal-not-by-ledger"
    assert uses(here) == []
    assert not list(here.socket.parent.glob("r*"))
    with closing(here.way()) as way:
        way.approve("run-1")


def test_the_log_tells_what_was_refused_from_what_was_served(here, capfd):
    assert refused(lambda: here.way(key=key("nobody")).approve("run-1")) == "seal-not-by-ledger"
    way = here.way()
    way.approve("run-1")
    way.end()
    told, deadline_s = "", time.monotonic() + 20
    while "done with run run-1" not in told and time.monotonic() < deadline_s:
        time.sleep(0.05)
        told += capfd.readouterr().err
    assert "refused seal-not-by-ledger: run run-1 under approval smoke-one" in told
    assert told.count("done with run run-1") == 1


def test_two_at_once_of_one_run_share_nothing(here):
    first = here.way()
    first.approve("run-1")
    assert refused(lambda: here.way().approve("run-1"), UsageError) == "gateway-active"
    first.end()
    second = here.way()
    second.approve("run-1")
    second.end()


def test_a_resumed_run_goes_on_with_what_is_left_and_not_with_more(clean_folder):
    with site(clean_folder, smoke, max_provider_calls=6) as here:
        for expected in ([200] * 5, [200, 400]):
            way = here.way()
            way.approve("run-1")
            opened = way.open_trial(place(here))
            assert [post(opened, "/v1/chat/completions", BODY)[0] for _ in expected] == expected
            way.close_trial(here.plan.trials[0].key)
            way.close()
        assert len(here.provider.seen) == 6


def test_an_operator_who_dies_leaves_no_gateway_behind(here):
    way = here.way()
    way.approve("run-1")
    opened = way.open_trial(place(here))
    way.close()
    again = here.way()
    for _ in range(200):
        try:
            again.approve("run-1")
            break
        except UsageError:
            continue
    else:
        pytest.fail("the gateway of a dead operator went on")
    assert not (opened.folder / "gateway.sock").exists()
    again.end()


def test_only_attempts_of_the_plans_trials_are_opened_for_the_roles_that_were_signed(here):
    way = here.way()
    way.approve("run-1")
    for changes in ({"trial": "another/one/chat/e1"}, {"attempt": 0}, {"attempt": True}):
        assert refused(lambda c=changes: way.open_trial(place(here, **c))) == "trial-not-of-plan"
    roles = ("judge", "agent", "agent")
    opened = way.open_trial(place(here, condition="another", task_id="another", roles=roles))
    assert {role for role, _ in opened.tokens} == {"agent"}
    assert post(opened, "/v1/chat/completions", BODY)[0] == 200
    way.end()
    (book,) = (here.world.state / "spend").iterdir()
    reserved = json.loads(book.read_bytes().splitlines()[1])["body"]
    assert reserved["condition"] == here.plan.trials[0].condition_id


def test_a_withdrawal_reaches_a_run_at_its_next_attempt(here):
    way = here.way()
    way.approve("run-1")
    opened = way.open_trial(place(here))
    withdrawn(here.world)
    # What was opened before ends by itself.
    assert post(opened, "/v1/chat/completions", BODY)[0] == 200
    way.close_trial(here.plan.trials[0].key)
    with pytest.raises(ApprovalRefused) as error:
        way.open_trial(place(here, attempt=2))
    assert (error.value.reference, error.value.check) == ("approval-withdrawn", 7)
    way.end()
    (book,) = (here.world.state / "spend").iterdir()
    assert book.read_bytes().count(b'"agent_called"') == 1


def test_attempts_of_agents_are_counted_over_the_whole_run(here):
    allowed = here.world.ingredients.approval["caps"]["max_agent_calls"]
    way = here.way()
    way.approve("run-1")
    for attempt in range(1, allowed + 1):
        way.open_trial(place(here, attempt=attempt))
        way.close_trial(here.plan.trials[0].key)
    assert (
        refused(lambda: way.open_trial(place(here, attempt=99)), BudgetExhausted)
        == "agent-calls-used-up"
    )
    way.end()


def test_a_refused_dispatch_leaves_everything_as_it_was(here):
    here.world.changes["now_s"] = here.world.ingredients.now_s + 10**6
    before = {p: p.read_bytes() for p in here.world.state.rglob("*") if p.is_file()}
    with pytest.raises(ApprovalRefused) as error:
        here.way().approve("run-1")
    assert error.value.check is not None
    assert {p: p.read_bytes() for p in here.world.state.rglob("*") if p.is_file()} == before
    assert here.provider.seen == []


def test_a_dispatch_without_the_providers_key_uses_nothing_up(clean_folder):
    with site(clean_folder, smoke, keys=ProviderKeys({"anthropic": KEY})) as here:
        with pytest.raises(EnvironmentMissing):
            here.way().approve("run-1")
        assert uses(here) == []


def test_a_dispatch_whose_record_cannot_be_written_uses_nothing_up(here):
    (here.world.state / "runs").write_bytes(b"")
    assert refused(lambda: here.way().approve("run-1"), EnvironmentMissing) == "folder-not-writable"
    assert uses(here) == []


def spent(here: Site, calls: int) -> Path:
    """Makes calls in a run of its own connection, and returns the spend book that it leaves."""
    way = here.way()
    way.approve("run-1")
    opened = way.open_trial(place(here))
    for _ in range(calls):
        assert post(opened, "/v1/chat/completions", BODY)[0] == 200
    way.close_trial(here.plan.trials[0].key)
    way.end()
    (book,) = (here.world.state / "spend").iterdir()
    return book


def test_a_run_whose_spend_book_was_lost_goes_no_further(here):
    spent(here, 2).unlink()
    assert refused(lambda: here.way().approve("run-1")) == "spend-book-behind"
    assert len(here.provider.seen) == 2


def test_a_run_whose_spend_book_was_lost_before_its_first_call_goes_no_further(here):
    spent(here, 0).unlink()
    assert refused(lambda: here.way().approve("run-1")) == "spend-book-behind"


# An attempt, and four lines for each of two calls; the sixth and seventh set money and tokens aside for the second.
@pytest.mark.parametrize("lines", [0, 1, 5, 6])
def test_a_run_whose_spend_book_was_cut_goes_no_further(here, lines):
    book = spent(here, 2)
    whole = book.read_bytes().splitlines(keepends=True)
    assert len(whole) == 9
    book.write_bytes(b"".join(whole[:lines]))
    assert refused(lambda: here.way().approve("run-1")) == "spend-book-behind"
    assert len(here.provider.seen) == 2


def test_a_spend_book_that_knows_less_than_its_copy_uses_nothing_up(here):
    record = here.world.state / "runs" / here.world.ingredients.approval["nonce"]
    record.mkdir(parents=True)
    (record / "spend.jsonl").write_bytes(b"more than the book has\n")
    assert refused(lambda: here.way().approve("run-1")) == "spend-book-behind"
    assert uses(here) == []


def test_a_run_whose_sockets_nobody_else_can_be_kept_from_does_not_begin(here, monkeypatch):
    def refuse(*_: object) -> None:
        raise EnvironmentMissing("no-access-lists", "x", hint="x")

    monkeypatch.setattr(dispatching, "close_to_others", refuse)
    assert refused(lambda: here.way().approve("run-1"), EnvironmentMissing) == "no-access-lists"
    assert not list(here.socket.parent.glob("r*"))


def test_a_fault_of_the_system_at_the_beginning_is_told(here, monkeypatch):
    def fault(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(dispatching, "close_to_others", fault)
    with pytest.raises(EnvironmentMissing, match="No space left on device"):
        here.way().approve("run-1")


def fault(*_: object, **__: object) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


class Threadless:
    """A thread of a system that has room for no other."""

    def __init__(self, **_: object) -> None:
        return

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


BEGINNING = {
    "folder": ("tempfile", "mkdtemp", fault),
    "loop": ("asyncio", "new_event_loop", fault),
    "thread": ("threading", "Thread", Threadless),
    "access": ("close_to_others", None, fault),
}


@pytest.mark.parametrize("part", BEGINNING)
def test_a_beginning_that_fails_leaves_nothing_running_or_lying_about(here, monkeypatch, part):
    loops, new_loop = [], asyncio.new_event_loop

    def noted() -> asyncio.AbstractEventLoop:
        loops.append(new_loop())
        return loops[-1]

    monkeypatch.setattr(dispatching, "asyncio", Shadow(asyncio, new_event_loop=noted))
    module, name, failing = BEGINNING[part]
    changed = Shadow(getattr(dispatching, module), **{name: failing}) if name else failing
    monkeypatch.setattr(dispatching, module, changed)
    assert refused(lambda: here.way().approve("run-1"), EnvironmentMissing) == "gateway-not-begun"
    assert all(loop.is_closed() for loop in loops)
    assert not list(here.socket.parent.glob("r*"))


@pytest.mark.parametrize(
    "data",
    [
        b'{"kind":"dispatch"}\n',
        b'{"approval_id":"a","kind":"dispatch","plan_bytes":-1,"plan_sha256":"","run_id":"r"}\n',
        b'{"kind":"dispatch","run_id":"../x"}\n',
    ],
)
def test_a_malformed_order_gets_nothing_and_the_next_is_served(here, data):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(here.socket))
        connection.sendall(data)
        assert connection.recv(100) == b""
    with closing(here.way()) as way:
        way.approve("run-1")


def test_orders_that_are_none_end_nothing_else(here):
    way = here.way()
    way.approve("run-1")
    with pytest.raises(EnvironmentMissing, match="open, close or end"):
        way._ask(b'{"open":1}\n')
    with pytest.raises(EnvironmentMissing):
        way._ask(b"nonsense\n")
    assert refused(lambda: way.close_trial("none"), UsageError) == "trial-not-open"
    way.open_trial(place(here))
    way.end()


def test_a_plan_that_is_not_the_announced_one_is_refused(here):
    way = here.way()
    way._plan_data = way._plan_data.replace(b'"epochs":1', b'"epochs":2')
    assert refused(lambda: way.approve("run-1")) == "plan-not-the-approved-one"


def test_a_way_that_was_not_dispatched_opens_nothing(here):
    with pytest.raises(EnvironmentMissing, match="no dispatch"):
        here.way().open_trial(place(here))


def began(folder: Path, here: Site) -> Ledger:
    folder.mkdir(parents=True)
    ledger = Ledger.create(folder / layout.LEDGER)
    ledger.append(
        RunStarted(
            run_id=folder.name, plan_sha256=here.plan.digest_sha256(), engine="played", workers=1
        )
    )
    return ledger


def test_a_run_goes_on_under_the_approval_in_its_folder_and_ledger(here, tmp_path):
    way = here.way()
    approved = way.approve("run-1")
    way.end()
    folder = tmp_path / "run-1"
    began(folder, here).close()
    with pytest.raises(ApprovalRefused, match="approval that this run began under"):
        supervised_again(here.plan, folder, here.socket, LEDGER.public.keyid)
    approved.write(folder)
    assert refused(lambda: supervised_again(here.plan, folder, here.socket, None)) == (
        "seal-not-by-ledger"
    )
    again = supervised_again(here.plan, folder, here.socket, LEDGER.public.keyid)
    assert isinstance(again, Supervised)
    entry = again.approve("run-1").entry
    append_approval(folder, unwritten_of(folder, entry))
    bodies = [e.body for e in read_entries(folder / layout.LEDGER)[0]]
    assert [b for b in bodies if isinstance(b, RunApproved)] == [approved.entry]
    assert unwritten_of(folder, entry) is None
    other = entry.model_copy(update={"approval_sha256": "0" * 64})
    assert refused(lambda: unwritten_of(folder, other)) == "approval-of-another-run"
    again.end()


def test_a_whole_run_is_worked_off_through_the_supervisor(here, tmp_path):
    folder = run_played(tmp_path, here)
    report = json.loads((folder / "report.json").read_bytes())
    assert all(t["verdict_sha256"] for t in report["trials"])
    assert uses(here) == [folder.name]
    text = " ".join((folder / "report.txt").read_text("utf-8").split())
    assert "Directional evidence: the run is not of phase official" in text
