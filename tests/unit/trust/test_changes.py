"""Promise: a change of the trust root is made by those who may, whole or not at all, and what was withdrawn stays so."""

from __future__ import annotations

import errno
import json
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.core.errors import ApprovalRefused, MemtrialError, UsageError
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import SigningKey
from orchestrator.model.approval import Withdrawal
from orchestrator.trust import ceremony
from orchestrator.trust.ceremony import current, files_below
from orchestrator.trust.changes import (
    change_roles,
    publish_approval,
    refresh_root,
    rotate_root,
    withdraw_approval,
)
from orchestrator.trust.proposals import (
    check_not_withdrawn,
    sign_proposal,
    standings,
    write_proposal,
)
from orchestrator.trust.roles import load_roles
from orchestrator.trust.root.make import NOTE, load, next_version, publish, put_target
from tests.unit.trust.rooted import make_root
from tests.unit.trust.support import APPROVERS, CURATORS, key
from tests.unit.trust.test_proposals import ID, OWNERS, TRUSTED, approval, init

NOW_S = int(time.time())
DAY_S = 86_400
NEW = tuple(key(f"new owner {i}") for i in range(3))


@pytest.fixture
def approvals(tmp_path: Path) -> Path:
    """A trust root with one proposal that two approvers signed."""
    init(tmp_path)
    write_proposal(tmp_path, approval())
    for approver in APPROVERS[:2]:
        sign_proposal(tmp_path, approval(), approver, TRUSTED)
    return tmp_path


@pytest.fixture
def published(approvals: Path) -> Path:
    publish_approval(approvals, approval(), CURATORS[0], now_s=NOW_S)
    return approvals


def withdraw(approvals: Path, curator: SigningKey = CURATORS[0], reason: str = "lost") -> Any:
    return withdraw_approval(approvals, ID, curator, reason=reason, now_s=NOW_S)


def rotate(approvals: Path, curator: SigningKey = CURATORS[0], **changes: Any) -> Any:
    given: dict[str, Any] = {
        "owners": tuple(owner.public for owner in NEW),
        "old": OWNERS[:2],
        "new": NEW[:2],
        **changes,
    }
    return rotate_root(approvals, curator=curator, now_s=NOW_S, **given)


def test_what_was_withdrawn_is_not_published_again(published):
    withdraw(published)
    before = files_below(published)
    with pytest.raises(ApprovalRefused) as refused:
        publish_approval(published, approval(), CURATORS[1], now_s=NOW_S)
    assert refused.value.reference == "approval-withdrawn"
    assert files_below(published) == before


def test_the_name_of_what_was_withdrawn_is_used_up_and_no_other(published):
    root = withdraw(published)
    check_not_withdrawn(root, "another")
    with pytest.raises(ApprovalRefused, match=f"{ID} was"):
        check_not_withdrawn(root, ID)


def test_a_withdrawal_is_shown_with_its_time_and_reason(published):
    withdraw(published, reason="Müller's key is lost")
    (one,) = standings(published, now_s=NOW_S)
    assert (one.approval_id, one.published, one.fault) == (ID, False, None)
    assert one.withdrawn
    assert (one.withdrawn.withdrawn_s, one.withdrawn.reason) == (NOW_S, "Müller's key is lost")


def test_a_withdrawal_is_shown_where_the_proposal_is_gone(published):
    withdraw(published)
    (published / "proposals" / f"{ID}.json").unlink()
    assert [one.approval_id for one in standings(published, now_s=NOW_S)] == [ID]


def test_a_note_that_cannot_be_read_withdraws_all_the_same(published):
    made = load(published / "tuf")
    put_target(made, f"approvals/{ID}{NOTE}", b"{}")
    changed = next_version(made, "approvals", now_s=NOW_S)
    publish(published / "tuf", made, owners=(), curator=CURATORS[0], changed=changed)
    (one,) = standings(published, now_s=NOW_S)
    assert (one.published, one.withdrawn) == (False, None)
    assert "note that cannot be read" in (one.fault or "")


def test_a_withdrawal_is_dropped_by_nobody(published):
    withdraw(published)
    made = load(published / "tuf")
    made.approvals.targets.clear()
    changed = next_version(made, "approvals", now_s=NOW_S)
    publish(published / "tuf", made, owners=(), curator=CURATORS[1], changed=changed)
    with pytest.raises(ApprovalRefused) as refused:
        current(published, now_s=NOW_S)
    assert refused.value.reference == "withdrawal-undone"


@pytest.mark.parametrize(
    "reason", ["", " ", "two\nlines", "a\x1b[2J", "e\u0301", "x" * 201, "\udc80"]
)
def test_a_reason_that_is_no_line_of_text_withdraws_nothing(published, reason):
    before = files_below(published)
    with pytest.raises(ValidationError):
        withdraw(published, reason=reason)
    assert files_below(published) == before


@pytest.mark.parametrize("reason", ["x", "x" * 200, "Müller's key is lost", "鍵をなくした"])
def test_a_reason_is_a_line_in_any_language(published, reason):
    withdraw(published, reason=reason)
    (one,) = standings(published, now_s=NOW_S)
    assert isinstance(one.withdrawn, Withdrawal)
    assert one.withdrawn.reason == reason


@pytest.mark.parametrize("stranger", [key("stranger"), APPROVERS[0], OWNERS[0]])
def test_a_key_that_is_no_curators_is_named_as_that_and_changes_nothing(published, stranger):
    before = files_below(published)
    for change in (
        lambda: publish_approval(published, approval(), stranger, now_s=NOW_S),
        lambda: withdraw(published, stranger),
        lambda: rotate(published, stranger),
        lambda: refresh_root(published, curator=stranger, now_s=NOW_S),
    ):
        with pytest.raises(ApprovalRefused, match="key of a curator") as refused:
            change()
        assert refused.value.reference == "signer-not-in-role"
        assert stranger.public.keyid[:16] in refused.value.message
    assert files_below(published) == before


def test_what_nobody_signed_yet_lacks_signatures(tmp_path):
    init(tmp_path)
    write_proposal(tmp_path, approval())
    with pytest.raises(ApprovalRefused, match="found 0") as refused:
        publish_approval(tmp_path, approval(), CURATORS[0], now_s=NOW_S)
    assert refused.value.reference == "threshold-not-met"


def test_who_signs_and_publishes_at_once_is_kept_with_the_others(approvals):
    root = publish_approval(approvals, approval(), CURATORS[0], now_s=NOW_S, approver=APPROVERS[2])
    (listed,) = root.approvals.values()
    (kept,) = files_below(approvals / "signed").values()
    assert listed == kept
    (one,) = standings(approvals, now_s=NOW_S)
    assert one.signers == tuple(approver.public.keyid for approver in APPROVERS)


def test_the_only_signature_is_neither_published_nor_kept(tmp_path):
    init(tmp_path)
    write_proposal(tmp_path, approval())
    before = files_below(tmp_path)
    with pytest.raises(ApprovalRefused, match="found 1"):
        publish_approval(tmp_path, approval(), CURATORS[0], now_s=NOW_S, approver=APPROVERS[0])
    assert files_below(tmp_path) == before


def test_what_was_withdrawn_is_not_withdrawn_again(published):
    withdraw(published)
    with pytest.raises(ApprovalRefused) as refused:
        withdraw(published)
    assert refused.value.reference == "approval-withdrawn"


@pytest.mark.parametrize("allowed", range(5))
def test_a_disk_that_fills_up_in_the_middle_leaves_the_root_as_it_was(
    published, monkeypatch, allowed
):
    before = files_below(published)
    written: list[Path] = []
    failed: list[Path] = []

    def failing(path: Path, data: bytes) -> None:
        if len(written) == allowed:
            failed.append(path)
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        write_atomic(path, data)

    monkeypatch.setattr(ceremony, "write_atomic", failing)
    if allowed < 4:
        with pytest.raises(OSError, match="No space"):
            withdraw(published)
        assert files_below(published) == before
        # Nothing was overwritten yet, so putting back takes no space.
        assert len(failed) == 1
    else:
        withdraw(published)
    # approvals, snapshot, the note, timestamp: the last makes the others hold.
    assert [path.name.split(".")[-2] for path in written] == [
        "approvals",
        "snapshot",
        "withdrawal",
        "timestamp",
    ][:allowed]


def test_a_timestamp_that_was_replaced_before_the_end_is_put_back(published, monkeypatch):
    before = files_below(published)

    def interrupted(path: Path, data: bytes) -> None:
        write_atomic(path, data)
        if path.name == "timestamp.json" and data != before["tuf/metadata/timestamp.json"]:
            raise KeyboardInterrupt

    monkeypatch.setattr(ceremony, "write_atomic", interrupted)
    with pytest.raises(KeyboardInterrupt):
        withdraw(published)
    assert files_below(published) == before


def expired(approvals: Path, days: int) -> Path:
    """A trust root of so many days ago, which was sound then."""
    make_root(approvals / "tuf", now_s=NOW_S - days * DAY_S)
    with pytest.raises(ApprovalRefused) as refused:
        current(approvals, now_s=NOW_S)
    assert refused.value.reference == "trust-root-expired"
    return approvals


@pytest.mark.parametrize("days", [4, 15])
def test_a_curator_alone_revives_a_root_whose_own_metadata_expired(tmp_path, days):
    before = current(expired(tmp_path, days), now_s=NOW_S, lapsed=True)
    root = refresh_root(tmp_path, curator=CURATORS[1], now_s=NOW_S)
    assert root == current(tmp_path, now_s=NOW_S)
    assert (root.root_sha256, root.approvals) == (before.root_sha256, before.approvals)
    assert (root.state.approvals_version, root.state.targets_version) == (2, 1)
    assert root.expires_s == NOW_S + 3 * DAY_S


@pytest.mark.parametrize(("days", "version"), [(100, 1), (300, 2), (400, 2)])
def test_two_owners_revive_the_rest_and_the_root_where_it_ends_soon(tmp_path, days, version):
    before = files_below(expired(tmp_path, days))
    with pytest.raises(ApprovalRefused, match=r"targets|root") as refused:
        refresh_root(tmp_path, curator=CURATORS[0], now_s=NOW_S)
    assert (refused.value.reference, "--owner FILE --owner" in refused.value.hint) == (
        "trust-root-expired",
        True,
    )
    assert files_below(tmp_path) == before
    root = refresh_root(tmp_path, curator=CURATORS[0], owners=OWNERS[1:], now_s=NOW_S)
    assert (root.root_version, root.state.targets_version) == (version, 2)


def test_what_was_changed_by_others_is_not_signed_anew_because_it_expired(tmp_path):
    made = load(expired(tmp_path, 4) / "tuf")
    made.approvals.targets.clear()
    changed = next_version(made, "approvals", now_s=NOW_S - 4 * DAY_S)
    publish(tmp_path / "tuf", made, owners=(), curator=key("stranger"), changed=changed)
    before = files_below(tmp_path)
    with pytest.raises(ApprovalRefused) as refused:
        refresh_root(tmp_path, curator=CURATORS[0], now_s=NOW_S)
    assert refused.value.reference == "trust-root-refused"
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    ("owners", "reference"),
    [
        (OWNERS[:1], "threshold-not-met"),
        ((OWNERS[0], OWNERS[0]), "threshold-not-met"),
        ((*OWNERS[:2], CURATORS[0]), "signer-not-in-role"),
    ],
)
def test_owners_are_counted_before_anything_is_made(published, owners, reference):
    before = files_below(published)
    with pytest.raises(ApprovalRefused) as refused:
        refresh_root(published, curator=CURATORS[0], owners=owners, now_s=NOW_S)
    assert refused.value.reference == reference
    assert files_below(published) == before


def test_owners_are_replaced_by_two_old_and_two_new(published):
    before = current(published, now_s=NOW_S)
    assert rotate(published) == 2
    after = current(published, now_s=NOW_S)
    assert after.owners == {owner.public.raw for owner in NEW}
    assert after.approvals == before.approvals
    # Both sign the root; targets are the present owners' alone.
    assert signers(published, "2.root") == {key.public.keyid for key in (*OWNERS[:2], *NEW[:2])}
    assert signers(published, "2.targets") == {key.public.keyid for key in NEW[:2]}


def signers(approvals: Path, name: str) -> set[str]:
    metadata = json.loads((approvals / "tuf" / "metadata" / f"{name}.json").read_bytes())
    return {signature["keyid"] for signature in metadata["signatures"]}


def test_an_owner_may_stay_and_sign_as_both_and_a_root_that_expired_is_rotated_too(tmp_path):
    expired(tmp_path, 400)
    staying = (OWNERS[0], NEW[0])
    rotate(tmp_path, owners=tuple(key.public for key in staying), new=staying)
    assert current(tmp_path, now_s=NOW_S).owners == {key.public.raw for key in staying}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"old": OWNERS[:1]}, "2 different old owners, found 1"),
        ({"old": ()}, "2 different old owners, found 0"),
        ({"old": (OWNERS[0], OWNERS[0])}, "2 different old owners, found 1"),
        ({"old": (*OWNERS[:2], key("x"))}, "keys of old owners"),
        ({"old": NEW[:2]}, "keys of old owners"),
        ({"new": NEW[:1]}, "2 different new owners, found 1"),
        ({"new": OWNERS[:2]}, "keys of new owners"),
    ],
)
def test_those_who_rotate_are_counted_before_anything_is_made(published, changes, told):
    before = files_below(published)
    with pytest.raises(ApprovalRefused, match=told):
        rotate(published, **changes)
    assert files_below(published) == before


def test_nobody_is_an_owner_twice(published, tmp_path_factory):
    twice = tuple(owner.public for owner in (*NEW, NEW[0]))
    with pytest.raises(UsageError) as refused:
        rotate(published, owners=twice)
    assert refused.value.reference == "owner-twice"
    with pytest.raises(UsageError, match="one key twice"):
        init(tmp_path_factory.mktemp("new"), owners=twice)


def change(approvals: Path, keys: Any, **changes: Any) -> Any:
    given: dict[str, Any] = {"owners": OWNERS[:2], "curator": CURATORS[0], **changes}
    public = {who: tuple(key.public for key in named) for who, named in keys.items()}
    return change_roles(approvals, public, now_s=NOW_S, **given)


def keyids(root: Any, role: Any) -> set[str]:
    return set(load_roles(root.roles_data, where="roles").roles[role].keys)


@pytest.mark.parametrize("role", ["approver", "supervisor", "ledger"])
def test_a_role_gets_other_keys_and_nothing_else_changes(published, role):
    before = current(published, now_s=NOW_S)
    new = NEW if role == "approver" else NEW[:1]
    root = change(published, {role: new})
    assert root == current(published, now_s=NOW_S)
    assert keyids(root, role) == {key.public.keyid for key in new}
    for other in {"approver", "supervisor", "ledger", "curator"} - {role}:
        assert keyids(root, other) == keyids(before, other)
    assert (root.root_sha256, root.approvals) == (before.root_sha256, before.approvals)


def test_what_an_approver_signed_who_left_is_not_to_be_relied_on(published):
    change(published, {"approver": APPROVERS[1:]})
    (one,) = standings(published, now_s=NOW_S)
    assert (one.fault or "").startswith("signer-not-in-role")


def test_curators_are_replaced_and_those_who_left_publish_nothing(published):
    root = change(published, {"curator": NEW[:2]}, curator=NEW[0])
    assert root.curators == {key.public.raw for key in NEW[:2]}
    assert keyids(root, "curator") == {key.public.keyid for key in NEW[:2]}
    assert root.root_version == 2
    with pytest.raises(ApprovalRefused, match="key of a curator"):
        withdraw(published, CURATORS[0])
    withdraw(published, NEW[1])


def test_a_curator_who_left_cannot_go_on_from_what_was_before(published):
    earlier = load(published / "tuf")
    change(published, {"curator": NEW[:2]}, curator=NEW[0])
    changed = next_version(earlier, "approvals", now_s=NOW_S)
    for part in (earlier.approvals, earlier.snapshot, earlier.timestamp):
        part.version += 1
    publish(published / "tuf", earlier, owners=(), curator=CURATORS[0], changed=changed)
    with pytest.raises(ApprovalRefused, match="signed by 0/1"):
        current(published, now_s=NOW_S)


def test_roles_of_a_root_that_expired_are_changed_too(tmp_path):
    change(expired(tmp_path, 4), {"curator": NEW[:2]}, curator=NEW[1])
    assert current(tmp_path, now_s=NOW_S).curators == {key.public.raw for key in NEW[:2]}


@pytest.mark.parametrize(
    ("keys", "changes", "reference"),
    [
        ({"ledger": NEW[:1]}, {"owners": OWNERS[:1]}, "threshold-not-met"),
        ({"ledger": NEW[:1]}, {"owners": (OWNERS[0], CURATORS[0])}, "signer-not-in-role"),
        ({"ledger": NEW[:1]}, {"curator": NEW[1]}, "signer-not-in-role"),
        ({"curator": NEW[:2]}, {"curator": CURATORS[0]}, "signer-not-in-role"),
        ({"ledger": APPROVERS[:1]}, {}, "key-in-two-places"),
        ({"ledger": OWNERS[2:]}, {}, "key-in-two-places"),
        ({"approver": NEW[:1]}, {}, "keys-not-counted"),
        ({"approver": (NEW[0], NEW[0])}, {}, "key-in-two-places"),
        ({"ledger": ()}, {}, "keys-not-counted"),
        ({"approver": tuple(key(f"many {i}") for i in range(17))}, {}, "keys-not-counted"),
    ],
)
def test_roles_that_are_unsound_or_signed_by_others_change_nothing(
    published, keys, changes, reference
):
    before = files_below(published)
    with pytest.raises(MemtrialError) as refused:
        change(published, keys, **changes)
    assert refused.value.reference == reference
    assert files_below(published) == before


def test_a_role_has_sixteen_keys_at_most(published):
    many = tuple(key(f"many {i}") for i in range(16))
    assert len(keyids(change(published, {"approver": many}), "approver")) == 16
