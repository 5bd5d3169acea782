"""Promise: a withdrawal is undone neither by a curator's next version nor by a merge, and a supervisor remembers it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.model.gate import RootSeen
from orchestrator.trust.ceremony import files_below
from orchestrator.trust.changes import publish_approval, refresh_root, withdraw_approval
from orchestrator.trust.proposals import sign_proposal, write_proposal
from orchestrator.trust.root.client import RootState, TrustRoot, read_root
from orchestrator.trust.root.make import NOTE, load, next_version, publish, put_target
from tests.unit.trust.hostile_git import git
from tests.unit.trust.support import APPROVERS, CURATORS
from tests.unit.trust.test_proposals import ID, TRUSTED, approval, init

NOW_S = int(time.time())
UNSEEN = RootState()


@pytest.fixture
def approvals(tmp_path: Path) -> Path:
    """A folder of approvals, in a repository, with one that is published."""
    folder = tmp_path / "approvals"
    init(folder)
    write_proposal(folder, approval())
    for approver in APPROVERS[:2]:
        sign_proposal(folder, approval(), approver, TRUSTED)
    publish_approval(folder, approval(), CURATORS[0], now_s=NOW_S)
    git(tmp_path, "init", "-q", "-b", "main")
    commit(folder)
    return folder


def commit(approvals: Path) -> None:
    git(approvals.parent, "add", "-A")
    git(approvals.parent, "commit", "-q", "-m", "a ceremony")


def withdraw(approvals: Path) -> None:
    withdraw_approval(approvals, ID, CURATORS[0], reason="lost", now_s=NOW_S)
    commit(approvals)


def read(approvals: Path, seen: RootState = UNSEEN) -> TrustRoot:
    files = files_below(approvals / "tuf")
    return read_root(files, bootstrap=files["metadata/1.root.json"], seen=seen, now_s=NOW_S)


def refused(approvals: Path, seen: RootState = UNSEEN) -> ApprovalRefused:
    with pytest.raises(ApprovalRefused) as found:
        read(approvals, seen)
    return found.value


def undone(approvals: Path) -> RootState:
    """The other curator takes the metadata that lists the note away and lists the approval again."""
    folder = approvals / "tuf"
    listed = load(folder).approvals.targets
    withdraw(approvals)
    seen = read(approvals).state
    made = load(folder)
    (folder / "metadata" / f"{made.approvals.version}.approvals.json").unlink()
    made.approvals.targets = listed
    changed = next_version(made, "approvals", now_s=NOW_S)
    publish(folder, made, owners=(), curator=CURATORS[1], changed=changed)
    return seen


def take_notes_away(approvals: Path) -> None:
    for path in (approvals / "tuf" / "targets" / "approvals").glob(f"*{NOTE}"):
        path.unlink()


def test_a_note_that_no_metadata_lists_any_more_refuses_by_its_file_alone(approvals):
    undone(approvals)
    found = refused(approvals)
    assert found.reference == "withdrawal-undone"
    assert f"approvals/{ID}{NOTE}" in found.message
    assert "git log -- approvals/tuf" in found.hint


def test_a_note_that_was_seen_is_missed_when_nothing_of_it_is_left(approvals):
    seen = undone(approvals)
    take_notes_away(approvals)
    found = refused(approvals, seen)
    assert (found.reference, f"approvals/{ID}{NOTE}" in found.message) == (
        "withdrawal-undone",
        True,
    )


def two_ceremonies(approvals: Path) -> tuple[RootState, RootState]:
    """From one commit one curator withdraws, the other refreshes and merges, as git's own side; what each saw."""
    repository = approvals.parent
    git(repository, "branch", "theirs")
    withdraw(approvals)
    withdrawn = read(approvals).state
    git(repository, "checkout", "-q", "theirs")
    refresh_root(approvals, curator=CURATORS[1], now_s=NOW_S)
    commit(approvals)
    refreshed = read(approvals).state
    git(repository, "merge", "-q", "-X", "ours", "-m", "both", "main")
    return withdrawn, refreshed


def test_a_merge_that_loses_a_withdrawal_is_refused_by_whoever_reads_it(approvals):
    two_ceremonies(approvals)
    assert refused(approvals).reference == "withdrawal-undone"


def test_of_two_roots_of_the_same_versions_the_one_without_the_note_is_refused(approvals):
    withdrawn, refreshed = two_ceremonies(approvals)
    take_notes_away(approvals)
    assert read(approvals).state == refreshed
    assert withdrawn.timestamp_version == refreshed.timestamp_version
    assert refused(approvals, withdrawn).reference == "withdrawal-undone"


def test_of_two_roots_of_the_same_versions_the_one_that_came_second_is_refused(approvals):
    _, refreshed = two_ceremonies(approvals)
    git(approvals.parent, "checkout", "-q", "main")
    found = refused(approvals, refreshed)
    assert found.reference == "trust-root-forked"
    assert "origin's side" in found.hint


def test_a_ceremony_on_top_of_the_others_ends_the_fork(approvals):
    _, refreshed = two_ceremonies(approvals)
    git(approvals.parent, "checkout", "-q", "main")
    refresh_root(approvals, curator=CURATORS[1], now_s=NOW_S)
    root = read(approvals, refreshed)
    assert (list(root.notes), root.state.withdrawn) == ([ID], (ID,))


def test_the_same_root_is_read_twice(approvals):
    withdraw(approvals)
    seen = read(approvals).state
    assert read(approvals, seen).state == seen


def test_a_note_of_a_name_that_no_approval_has_is_not_written_down(approvals):
    made = load(approvals / "tuf")
    put_target(made, f"approvals/Not One{NOTE}", b"{}")
    changed = next_version(made, "approvals", now_s=NOW_S)
    publish(approvals / "tuf", made, owners=(), curator=CURATORS[0], changed=changed)
    root = read(approvals)
    assert (list(root.notes), root.state.withdrawn) == (["Not One"], ())


@pytest.mark.parametrize("more", [{}, {"timestamp_sha256": "a" * 64, "withdrawn": ["one", "two"]}])
def test_what_any_version_wrote_down_of_a_root_is_read_and_written_as_it_was(more):
    versions = {
        f"{n}_version": 3 for n in ("root", "targets", "snapshot", "timestamp", "approvals")
    }
    document: dict[str, Any] = {"schema_version": 1, **versions, "high_water_s": 5, **more}
    data = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    seen = RootSeen.parse_canonical(data, where="root-seen.json")
    assert (seen.timestamp_sha256, list(seen.withdrawn)) == (
        more.get("timestamp_sha256"),
        more.get("withdrawn", []),
    )
