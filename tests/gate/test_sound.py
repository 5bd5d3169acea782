"""Promise: a sound world passes all seventeen steps, authorises nothing by validation, and dispatches once."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.clock import utc_text_of
from orchestrator.core.errors import ApprovalRefused, EnvironmentMissing
from orchestrator.model.gate import RootSeen
from orchestrator.trust import nonces
from orchestrator.trust.gate import official
from orchestrator.trust.gate.asked import GateAsked
from orchestrator.trust.gate.before import SEEN
from orchestrator.trust.gate.machine import NONCES
from orchestrator.trust.gate.official import LOOKS, STEPS, check_holds, dispatch, validate
from orchestrator.trust.nonces import NonceBook, Use
from tests.gate.attacks_more import withdrawn
from tests.gate.world import ingredients, make_world
from tests.unit.trust.hostile_git import git


@pytest.fixture
def world(clean_folder):
    return make_world(clean_folder, ingredients())


def test_a_sound_world_passes_every_step_and_authorises_nothing(world):
    before = {p: p.read_bytes() for p in world.folder.rglob("*") if p.is_file()}
    found = validate(world.asked())
    assert found.refusal is None
    report = found.report
    assert [s.status for s in report.steps] == ["ok"] * 17
    assert (report.gate_scope, report.dispatch_authorized, report.provider_or_agent_calls) == (
        "local_gate_only",
        False,
        0,
    )
    assert report.asserted == ("caller-cannot-read-keys",)
    assert {"approval", "plan", "supervisor/manifest", "system/root.json"} <= {
        d.name for d in report.inputs
    }
    assert {p: p.read_bytes() for p in world.folder.rglob("*") if p.is_file()} == before


def test_a_dispatch_gives_a_permit_once(world):
    given = dispatch(world.asked())
    assert given.permit.plan_sha256 == world.ingredients.approval["plan_sha256"]
    assert given.permit.max_usd_micros == 5_000_000
    world.changes["run_id"] = "run-2"
    with pytest.raises(ApprovalRefused) as refused:
        dispatch(world.asked())
    assert (refused.value.check, refused.value.reference) == (15, "nonce-used")
    assert len((world.state / NONCES / "nonces.jsonl").read_bytes().splitlines()) == 4


def test_an_answer_is_as_old_as_its_challenge_and_not_as_the_gate(world):
    world.measuring_s = 300
    assert validate(world.asked()).refusal is None


def test_an_answer_from_before_its_challenge_is_stale_however_young_the_gate(world):
    world.measuring_s = 30
    world.answer["answered_s"] = world.ingredients.now_s
    found = validate(world.asked()).refusal
    assert found is not None
    assert (found.check, found.reference) == (13, "answer-stale")


@pytest.mark.parametrize(("seconds", "held"), [(-1, True), (1, True), (-2, False), (2, False)])
def test_clocks_of_one_machine_agree_to_the_second(world, seconds, held):
    world.answer["answered_s"] = world.ingredients.now_s + seconds
    assert (validate(world.asked()).refusal is None) is held


def uses(world) -> int:
    return len((world.state / NONCES / "nonces.jsonl").read_bytes().splitlines())


def test_an_approval_that_ends_while_everything_is_measured_is_not_used_up(world):
    window = world.ingredients.approval["window"]
    world.measuring_s = window["expires_s"] - world.ingredients.now_s
    with pytest.raises(ApprovalRefused) as refused:
        dispatch(world.asked())
    assert (refused.value.check, refused.value.reference) == (11, "approval-expired")
    assert uses(world) == 3


def test_a_run_that_could_not_begin_uses_nothing_up_and_writes_nothing_down(world):
    before = {p: p.read_bytes() for p in world.state.rglob("*") if p.is_file()}

    def unready(approval, roles) -> None:
        assert approval.canonical() == canonical_bytes(world.ingredients.approval)
        assert roles.sha256 == sha256_hex(canonical_bytes(world.ingredients.roles))
        raise EnvironmentMissing("no-key", "x", hint="x")

    with pytest.raises(EnvironmentMissing):
        dispatch(world.asked(), unready)
    assert {p: p.read_bytes() for p in world.state.rglob("*") if p.is_file()} == before
    dispatch(world.asked())


def test_a_state_that_cannot_be_written_uses_nothing_up(world, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(official, "write_atomic", full)
    with pytest.raises(ApprovalRefused) as refused:
        dispatch(world.asked())
    assert refused.value.reference == "state-not-written"
    assert uses(world) == 3


def test_an_approval_that_was_used_up_is_dispatched_whatever_befalls_the_books_head(
    world, monkeypatch
):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(nonces, "write_atomic", full)
    assert dispatch(world.asked()).permit.max_usd_micros == 5_000_000
    assert uses(world) == 4


def test_a_dispatch_that_took_longer_than_another_is_no_clock_set_back(world):
    """While this one measures, another approval is used."""
    world.measuring_s = 20
    other = Use("e" * 64, "a" * 64, "b" * 64, "another-run")

    def ready(*_: object) -> None:
        NonceBook(world.state / NONCES).reserve(other, now_s=world.ingredients.now_s + 15)

    dispatch(world.asked(), ready)
    assert uses(world) == 5


def test_a_use_while_everything_is_measured_is_no_clock_set_back(world):
    world.measuring_s = 20
    other = Use("e" * 64, "a" * 64, "b" * 64, "another-run")

    def rebuild(_: object) -> None:
        NonceBook(world.state / NONCES).reserve(other, now_s=world.ingredients.now_s + 15)

    world.changes["rebuild"] = rebuild
    assert validate(world.asked()).refusal is None


VERSIONS = {n for n in RootSeen.model_fields if n.endswith("_version")} - {"schema_version"}


@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_what_a_faster_dispatch_saw_of_the_root_refuses_a_slower_one(world, name):
    """While this one measures, another sees a later root, in which this approval may be withdrawn."""
    later = RootSeen.model_validate({name: 9, "high_water_s": world.ingredients.now_s})

    def ready(*_: object) -> None:
        (world.state / SEEN).write_bytes(later.canonical())

    with pytest.raises(ApprovalRefused) as refused:
        dispatch(world.asked(), ready)
    assert (refused.value.check, refused.value.reference) == (5, "trust-root-rolled-back")
    assert uses(world) == 3
    assert (world.state / SEEN).read_bytes() == later.canonical()


def test_a_slow_dispatch_does_not_set_the_time_back_that_a_faster_one_saw(world):
    path, later_s = world.state / SEEN, world.ingredients.now_s + 60

    def ready(*_: object) -> None:
        path.write_bytes(RootSeen(high_water_s=later_s).canonical())

    dispatch(world.asked(), ready)
    seen = RootSeen.parse_canonical(path.read_bytes(), where=SEEN)
    assert (seen.timestamp_version, seen.high_water_s) == (2, later_s)


def test_what_was_seen_of_the_root_is_the_supervisors_alone_to_read(world):
    dispatch(world.asked())
    assert (world.state / SEEN).stat().st_mode & 0o777 == 0o600


@pytest.fixture
def looks(world, monkeypatch):
    """A dispatched world; how often it was looked at again, and what happens at a look."""
    monkeypatch.setattr(official, "AGAIN_S", 0)
    given = dispatch(world.asked())
    world.opened.clear()
    made: list[object] = []

    def look(at_each: Callable[[int], object] = lambda _: None) -> None:
        def ask() -> GateAsked:
            at_each(len(made))
            made.append(None)
            asked: GateAsked = world.asked()
            return asked

        check_holds(ask, given.envelope)

    return made, look


def test_an_approval_that_holds_is_looked_up_once_and_nothing_is_measured(world, looks):
    made, look = looks
    look()
    assert (len(made), world.opened, uses(world)) == (1, [], 4)


def test_a_withdrawn_approval_holds_no_more(world, looks):
    made, look = looks
    withdrawn(world)
    with pytest.raises(ApprovalRefused) as refused:
        look()
    assert (refused.value.check, refused.value.reference) == (7, "approval-withdrawn")
    assert len(made) == 1


def test_what_was_withdrawn_does_not_hold_again_under_an_older_root(world, looks):
    _, look = looks
    before = git(world.repo, "rev-parse", "HEAD")
    withdrawn(world)
    with pytest.raises(ApprovalRefused):
        look()
    git(world.repo, "reset", "-q", "--hard", before)
    git(world.repo, "update-ref", "refs/remotes/origin/main", before)
    with pytest.raises(ApprovalRefused) as refused:
        look()
    assert (refused.value.check, refused.value.reference) == (5, "trust-root-rolled-back")


def test_another_approval_of_its_name_is_not_the_one_that_was_used(world):
    with pytest.raises(ApprovalRefused) as refused:
        check_holds(world.asked, b"what was used")
    assert (refused.value.check, refused.value.reference) == (7, "approval-not-listed")


def test_whoever_updates_the_clone_meanwhile_is_waited_for(world, looks):
    made, look = looks
    remote = world.repo / ".git/refs/remotes/origin/main"
    head = remote.read_bytes()

    def update(number: int) -> None:
        remote.write_bytes(head if number == LOOKS - 1 else b"0" * 40 + b"\n")

    look(update)
    assert len(made) == LOOKS


def test_a_clone_that_stays_as_it_should_not_be_refuses_with_the_gates_own_code(world, looks):
    made, look = looks
    (world.repo / ".git/refs/remotes/origin/main").write_bytes(b"0" * 40 + b"\n")
    with pytest.raises(ApprovalRefused) as refused:
        look()
    assert (refused.value.check, refused.value.reference) == (2, "head-not-at-remote")
    assert len(made) == LOOKS


def test_a_look_that_cannot_be_written_down_refuses(looks, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(official, "write_atomic", full)
    with pytest.raises(ApprovalRefused) as refused:
        looks[1]()
    assert refused.value.reference == "state-not-written"


def test_after_a_dispatch_nothing_older_than_its_root_comes_again(world):
    before = RootSeen.parse_canonical((world.state / SEEN).read_bytes(), where=SEEN)
    dispatch(world.asked())
    seen = RootSeen.parse_canonical((world.state / SEEN).read_bytes(), where=SEEN)
    assert (before.timestamp_version, seen.timestamp_version, seen.approvals_version) == (1, 2, 2)
    assert seen.high_water_s == world.ingredients.now_s
    world.changes["now_s"] = world.ingredients.now_s - 600
    assert validate(world.asked()).refusal is not None


def test_the_steps_are_numbered_from_zero_to_sixteen():
    assert [name for name, _ in STEPS] == [
        *("host", "repository", "head", "blobs", "worktree", "trust-root", "roles", "signatures"),
        *("document", "ancestry", "plan", "time", "supervisor-files", "supervisor-answer", "caps"),
        *("single-use", "report"),
    ]


@pytest.mark.parametrize(
    ("window", "code", "told"),
    [
        ((-7200, -3600), "approval-expired", "the approval has expired"),
        ((3600, 7200), "approval-not-yet-valid", "the approval does not hold yet"),
    ],
)
def test_a_window_is_told_as_times_and_in_words(clean_folder, window, code, told):
    made = ingredients()
    begin, end = (made.now_s + seconds for seconds in window)
    made.approval["window"] = {"not_before_s": begin, "expires_s": end}
    refusal = validate(make_world(clean_folder, made).asked()).refusal
    assert refusal is not None
    bound = utc_text_of(end if code == "approval-expired" else begin)
    expected = f"{bound}" if code == "approval-expired" else f"{bound} on"
    assert (refusal.reference, refusal.message) == (
        code,
        f"expected a time {'before' if code == 'approval-expired' else 'from'} {expected}, found {utc_text_of(made.now_s)}: {told}",
    )
    assert "docs/security/refusals.md" not in refusal.hint


@pytest.mark.parametrize(
    ("last", "code"),
    [(253_402_300_799, "approval-not-yet-valid"), (253_402_300_800, "approval-invalid")],
)
def test_a_time_that_no_calendar_has_is_no_window(clean_folder, last, code):
    made = ingredients()
    made.approval["window"] = {"not_before_s": last - 3600, "expires_s": last}
    refusal = validate(make_world(clean_folder, made).asked()).refusal
    assert refusal is not None
    assert refusal.reference == code
