"""Promise: a ceremony ends in a trust root that verifies, or leaves everything as it was."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import ApprovalRefused, DocumentError, UsageError
from orchestrator.core.keys import SigningKey
from orchestrator.model.approval import WITHDRAWAL_TYPE, Withdrawal
from orchestrator.model.roles import RoleName, RoleRule
from orchestrator.trust.ceremony import (
    Place,
    current,
    files_below,
    load_public,
    provision,
    roles_of,
    rule_of,
)
from orchestrator.trust.changes import publish_approval, withdraw_approval
from orchestrator.trust.envelope import open_signed
from orchestrator.trust.proposals import sign_proposal, write_proposal
from orchestrator.trust.roles import check_people, load_roles, role_of
from tests.unit.trust.support import (
    APPROVERS,
    CURATORS,
    LEDGER,
    SUPERVISOR,
    as_bytes,
    key,
    roles,
)
from tests.unit.trust.test_proposals import ID, OWNERS, TRUSTED, approval, init

NOW_S = int(time.time())


@pytest.fixture
def approvals(tmp_path: Path) -> Path:
    init(tmp_path)
    return tmp_path


def publish_one(approvals: Path) -> None:
    write_proposal(approvals, approval())
    for approver in APPROVERS[:2]:
        sign_proposal(approvals, approval(), approver, TRUSTED)
    publish_approval(approvals, approval(), CURATORS[0], now_s=NOW_S)


def test_what_is_published_holds_until_the_approvals_end_and_may_be_withdrawn(approvals):
    publish_one(approvals)
    root = current(approvals, now_s=NOW_S)
    assert set(root.approvals) == {f"approvals/{ID}.dsse.json"}
    assert root.expires_s >= approval().window.expires_s
    after = withdraw_approval(approvals, ID, CURATORS[1], reason="a mistake", now_s=NOW_S)
    assert after.approvals == {}
    assert after.state.approvals_version == root.state.approvals_version + 1
    (note,) = after.notes.values()
    role = role_of(TRUSTED, "curator", where="roles")
    found = open_signed(note, role, payload_type=WITHDRAWAL_TYPE, where="note")
    said = Withdrawal.parse_canonical(found.payload, where="note")
    envelope = root.approvals[f"approvals/{ID}.dsse.json"]
    assert (said.approval_sha256, said.reason) == (sha256_hex(envelope), "a mistake")


def test_what_is_not_published_is_not_withdrawn(approvals):
    before = files_below(approvals)
    with pytest.raises(UsageError, match="none"):
        withdraw_approval(approvals, ID, CURATORS[0], reason="x", now_s=NOW_S)
    assert files_below(approvals) == before


def test_a_curator_of_nobody_publishes_nothing(approvals):
    write_proposal(approvals, approval())
    for approver in APPROVERS[:2]:
        sign_proposal(approvals, approval(), approver, TRUSTED)
    before = files_below(approvals)
    with pytest.raises(ApprovalRefused):
        publish_approval(approvals, approval(), key("stranger"), now_s=NOW_S)
    assert files_below(approvals) == before
    with pytest.raises(UsageError, match="new name"):
        write_proposal(approvals, approval())


def test_an_unsigned_proposal_is_not_published_and_a_stranger_signs_none(approvals):
    write_proposal(approvals, approval())
    with pytest.raises(ApprovalRefused):
        publish_approval(approvals, approval(), CURATORS[0], now_s=NOW_S)
    with pytest.raises(ApprovalRefused, match="key of an approver"):
        sign_proposal(approvals, approval(), CURATORS[0], TRUSTED)


def test_there_is_one_trust_root_and_none_is_told_apart(approvals, tmp_path_factory):
    with pytest.raises(UsageError, match="found one"):
        init(approvals)
    with pytest.raises(UsageError, match="found none"):
        current(tmp_path_factory.mktemp("none"), now_s=NOW_S)


def test_people_of_the_roles_are_those_of_the_root():
    owners = frozenset(owner.public.raw for owner in OWNERS)
    curators = frozenset(curator.public.raw for curator in CURATORS)
    check_people(TRUSTED, owners=owners, curators=curators)
    with pytest.raises(ApprovalRefused, match="curators"):
        check_people(TRUSTED, owners=owners, curators=curators - {CURATORS[0].public.raw})
    with pytest.raises(ApprovalRefused, match="no other role"):
        check_people(TRUSTED, owners=owners | {LEDGER.public.raw}, curators=curators)


def test_a_role_that_a_root_has_not_is_named():
    local = as_bytes(
        {
            "schema_version": 1,
            "name": "operator",
            "kind": "local",
            "roles": {"operator": roles()["roles"]["supervisor"]},
        }
    )
    with pytest.raises(ApprovalRefused, match="role approver"):
        role_of(load_roles(local, where="roles"), "approver", where="roles")


def test_roles_are_made_from_keys():
    rules: dict[RoleName, RoleRule] = {
        "approver": rule_of(2, tuple(a.public for a in APPROVERS)),
        "curator": rule_of(1, tuple(c.public for c in CURATORS)),
        "supervisor": rule_of(1, (SUPERVISOR.public,)),
        "ledger": rule_of(1, (LEDGER.public,)),
    }
    made = roles_of("example", rules, kind="organisation")
    assert made.canonical() == as_bytes(roles())


def test_a_key_file_gives_its_public_half_and_anything_else_is_told(tmp_path):
    made = SigningKey.create(tmp_path / "key.pem")
    assert load_public(tmp_path / "key.pem") == made.public
    (tmp_path / "pub.pem").write_bytes(made.public.pem())
    assert load_public(tmp_path / "pub.pem") == made.public
    (tmp_path / "key.pem").chmod(0o644)
    with pytest.raises(UsageError, match="only its owner"):
        load_public(tmp_path / "key.pem")
    with pytest.raises(UsageError, match="key file"):
        load_public(tmp_path / "none")
    (tmp_path / "none").write_bytes(b"x")
    with pytest.raises(DocumentError):
        load_public(tmp_path / "none")


def places(folder: Path) -> tuple[Place, Place]:
    return (
        Place(folder / "system", {"root.json": b"1"}),
        Place(folder / "below" / "state", {"seen": b"2"}, os.geteuid()),
    )


def test_a_machine_is_provisioned_for_all_to_read_and_its_state_for_one_user(tmp_path):
    first = init(tmp_path / "a", machine=lambda first: (Place(tmp_path / "s", {"f": first}),))
    assert (tmp_path / "s" / "f").read_bytes() == first
    system, state = places(tmp_path)
    for place in (system, state):
        provision(place)
    assert stat.S_IMODE(system.folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((system.folder / "root.json").stat().st_mode) == 0o644
    assert stat.S_IMODE(state.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((state.folder / "seen").stat().st_mode) == 0o600


@pytest.mark.parametrize("there", ["system", "system/root.json", "below/state/seen"])
def test_a_machine_that_was_provisioned_keeps_what_it_has_and_no_root_is_made(tmp_path, there):
    taken = tmp_path / there
    taken.parent.mkdir(parents=True, exist_ok=True)
    taken.write_bytes(b"3")
    with pytest.raises(UsageError) as refused:
        init(tmp_path / "a", machine=lambda _: places(tmp_path))
    assert refused.value.reference == "system-folder-not-new"
    assert files_below(tmp_path) == {there: b"3"}


def test_what_all_may_read_and_what_one_user_has_alone_lie_apart(tmp_path):
    system, state = places(tmp_path)
    (tmp_path / "link").symlink_to("system")
    both = (system, Place(tmp_path / "link", state.files, state.owner_uid))
    with pytest.raises(UsageError, match="one for both"):
        init(tmp_path / "a", machine=lambda _: both)
    assert files_below(tmp_path) == {}


def test_a_link_that_leads_nowhere_is_something_too(tmp_path):
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "root.json").symlink_to("nowhere")
    with pytest.raises(UsageError, match="found one"):
        init(tmp_path / "a", machine=lambda _: places(tmp_path))


@pytest.mark.parametrize("blocked", ["below", "a/tuf"])
def test_a_root_whose_files_cannot_all_be_written_leaves_none_and_may_be_made_again(
    tmp_path, blocked
):
    (tmp_path / blocked).parent.mkdir(exist_ok=True)
    (tmp_path / blocked).write_bytes(b"")
    with pytest.raises(OSError, match=r"exists|Not a directory"):
        init(tmp_path / "a", machine=lambda _: places(tmp_path))
    assert files_below(tmp_path) == {blocked: b""}
    (tmp_path / blocked).unlink()
    init(tmp_path / "a", machine=lambda _: places(tmp_path))


@pytest.mark.parametrize(("caller", "given"), [(0, True), (1000, False)])
def test_only_root_gives_what_it_provisions_to_another_user(tmp_path, monkeypatch, caller, given):
    chowned: list[tuple[str, int, int]] = []
    monkeypatch.setattr("os.geteuid", lambda: caller)
    monkeypatch.setattr("os.chown", lambda path, uid, gid: chowned.append((path.name, uid, gid)))
    provision(Place(tmp_path / "below" / "state", {"seen": b"2"}, 4321))
    assert chowned == ([("seen", 4321, -1), ("state", 4321, -1)] if given else [])


def test_a_system_folder_stays_its_makers(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.chown", lambda *_: pytest.fail("given away"))
    provision(Place(tmp_path / "system", {"root.json": b"1"}))


def test_a_public_key_that_is_not_there_is_asked_of_its_owner_and_none_is_made(tmp_path):
    with pytest.raises(UsageError) as refused:
        load_public(tmp_path / "none.pub.pem")
    assert refused.value.reference == "key-file-missing"
    assert ("check the path" in refused.value.hint, "genpkey" in refused.value.hint) == (
        True,
        False,
    )


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_the_folders_of_a_root_are_its_owners_to_write_whatever_the_umask(tmp_path, umask):
    place = tmp_path / "repo" / "approvals"
    before = os.umask(umask)
    try:
        init(place)
    finally:
        os.umask(before)
    made = [place, *(path for path in place.rglob("*") if path.is_dir())]
    assert len(made) > 3
    assert {path.stat().st_mode & 0o777 for path in (place.parent, *made)} == {0o755}


def test_a_folder_that_is_there_keeps_its_mode(tmp_path):
    (tmp_path / "approvals").mkdir(mode=0o700)
    init(tmp_path / "approvals")
    assert (tmp_path / "approvals").stat().st_mode & 0o777 == 0o700
