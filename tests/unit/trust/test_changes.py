"""Promise: a change of the trust root is made by those who may, whole or not at all, and what was withdrawn stays so."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.core.errors import ApprovalRefused
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import SigningKey
from orchestrator.model.approval import Withdrawal
from orchestrator.trust import ceremony
from orchestrator.trust.ceremony import current, files_below
from orchestrator.trust.changes import publish_approval, rotate_root, withdraw_approval
from orchestrator.trust.proposals import (
    check_not_withdrawn,
    sign_proposal,
    signed_by,
    standings,
    write_proposal,
)
from orchestrator.trust.root.make import NOTE, load, next_version, publish, put_target
from tests.unit.trust.support import APPROVERS, CURATORS, key
from tests.unit.trust.test_proposals import ID, OWNERS, TRUSTED, approval, init

NOW_S = int(time.time())


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


def rotate(approvals: Path, curator: SigningKey) -> Any:
    new = tuple(key(f"new owner {i}") for i in range(3))
    owners = tuple(owner.public for owner in new)
    signing = (*OWNERS[:2], *new[:2])
    return rotate_root(approvals, owners=owners, signing=signing, curator=curator, now_s=NOW_S)


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
    with pytest.raises(ApprovalRefused, match="was withdrawn"):
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


def test_a_signature_that_is_not_written_yet_may_be_published(approvals):
    envelope = signed_by(approvals, approval(), APPROVERS[2], TRUSTED)
    before = files_below(approvals / "signed")
    root = publish_approval(approvals, approval(), CURATORS[0], now_s=NOW_S, envelope=envelope)
    assert list(root.approvals.values()) == [envelope]
    assert files_below(approvals / "signed") == before


@pytest.mark.parametrize("allowed", range(5))
def test_a_disk_that_fills_up_in_the_middle_leaves_the_root_as_it_was(
    published, monkeypatch, allowed
):
    before = files_below(published)
    written: list[Path] = []

    def failing(path: Path, data: bytes) -> None:
        if len(written) == allowed:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        write_atomic(path, data)

    monkeypatch.setattr(ceremony, "write_atomic", failing)
    if allowed < 4:
        with pytest.raises(OSError, match="No space"):
            withdraw(published)
        assert files_below(published) == before
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
