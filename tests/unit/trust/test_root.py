"""Promise: a trust root is what its owners signed, whole and latest; the attacks that TUF's client lets by are refused too."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from securesystemslib.signer import SSlibKey
from tuf.api.metadata import DelegatedRole, Delegations, Metadata

from orchestrator.core.errors import ApprovalRefused, UsageError
from orchestrator.core.keys import PublicKey
from orchestrator.trust.root.client import RootState
from orchestrator.trust.root.make import (
    People,
    draft,
    drop_target,
    load,
    next_version,
    publish,
    put_target,
    root_is_due,
    rotate_owners,
)
from orchestrator.trust.root.signing import TufSigner, tuf_key
from tests.unit.trust.rooted import (
    ALL,
    APPROVAL,
    OWNERS,
    PEOPLE,
    another,
    edited,
    files_of,
    make_root,
    read,
)
from tests.unit.trust.support import (
    APPROVERS,
    CURATORS,
    aliases,
    as_bytes,
    key,
    roles,
    small_order_encodings,
)

NOW_S = 1_800_000_000
DAY_S = 86_400
OWNERS_OF_TWO = tuple(owner.public for owner in OWNERS[:2])


def refusal(files: dict[str, bytes], **changes: Any) -> str:
    with pytest.raises(ApprovalRefused) as refused:
        read(files, **changes)
    assert refused.value.exit_code == 5
    return refused.value.reference


@pytest.fixture
def made(tmp_path):
    return make_root(tmp_path)


@pytest.fixture
def files(made, tmp_path):
    return files_of(tmp_path)


def test_a_root_made_in_one_pass_verifies_and_gives_its_roles_and_approvals(files):
    found = read(files)
    assert (found.root_version, found.roles_data) == (1, as_bytes(roles()))
    assert found.approvals == {APPROVAL: b'{"an":"envelope"}'}
    assert found.owners == {k.public.raw for k in OWNERS}
    assert found.expires_s <= int(time.time()) + 3 * 24 * 3600


def test_a_later_version_of_everything_verifies(made, tmp_path):
    put_target(made, "approvals/two.dsse.json", b"two")
    another(made, tmp_path, "approvals")
    another(made, tmp_path, "root", "targets")
    found = read(files_of(tmp_path))
    assert set(found.approvals) == {APPROVAL, "approvals/two.dsse.json"}
    assert (found.root_version, found.state.timestamp_version) == (2, 3)


def test_an_approval_that_was_taken_out_is_there_no_more(made, tmp_path):
    drop_target(made, APPROVAL)
    another(made, tmp_path, "approvals")
    assert read(files_of(tmp_path)).approvals == {}


def test_every_changed_byte_of_a_target_or_delegated_metadata_is_refused(files):
    (target,) = [n for n in files if n.startswith("targets/approvals/")]
    for name in (target, "metadata/1.approvals.json", "metadata/1.snapshot.json"):
        data = files[name]
        for at in range(0, len(data), 17):
            twin = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            assert refusal({**files, name: twin}), (name, at)


def test_longer_and_missing_files_are_refused(files):
    for name in files:
        if name == "metadata/1.root.json":
            continue
        rest = {n: d for n, d in files.items() if n != name}
        assert refusal(rest) in {"trust-root-incomplete", "trust-root-refused"}, name
        assert refusal({**files, name: files[name] + b" x"}), name


def _resigned(tmp_path, made, signers, change=lambda role: None):
    """Publishes delegated metadata under other signers, with snapshot and timestamp that fit it."""
    change(made.approvals)
    publish(tmp_path, made, owners=OWNERS[:2], curator=signers[0], changed=frozenset({"approvals"}))
    return files_of(tmp_path)


@pytest.mark.parametrize("stranger", [APPROVERS[0], OWNERS[0], key("stranger")])
def test_approvals_published_by_no_curator_are_refused(made, tmp_path, stranger):
    made.approvals.version = made.snapshot.version = made.timestamp.version = 2
    assert refusal(_resigned(tmp_path, made, (stranger,))) == "trust-root-refused"


@pytest.mark.parametrize("owners", [OWNERS[:1], (OWNERS[0], CURATORS[0]), (key("a"), key("b"))])
def test_targets_without_two_owners_are_refused(made, tmp_path, owners):
    another(made, tmp_path, "targets", owners=owners)
    assert refusal(files_of(tmp_path)) == "trust-root-refused"


def test_the_same_signature_twice_is_refused(files):
    twin = edited(
        files["metadata/1.root.json"],
        lambda d: d.update(signatures=[d["signatures"][0], dict(d["signatures"][0])]),
    )
    changed = {**files, "metadata/1.root.json": twin}
    assert refusal(changed) in {"trust-root-refused"}


def _owned_by_one(tmp_path, second: SSlibKey):
    """A root whose two owners are one person: the key itself and another name or alias of it."""
    made = draft(PEOPLE, as_bytes(roles()), now_s=int(time.time()))
    for role in ("root", "targets"):
        for keyid in list(made.root.roles[role].keyids):
            made.root.revoke_key(keyid, role)
        made.root.add_key(tuf_key(OWNERS[0].public), role)
        made.root.add_key(second, role)
    publish(tmp_path, made, owners=OWNERS[:1], curator=CURATORS[0], changed=ALL)
    for name in ("1.root.json", "1.targets.json"):
        path = tmp_path / "metadata" / name
        metadata = Metadata.from_file(str(path))
        signer = TufSigner(OWNERS[0])
        signer._public = second
        metadata.signatures[second.keyid] = copy.copy(next(iter(metadata.signatures.values())))
        metadata.signatures[second.keyid].keyid = second.keyid
        metadata.to_file(str(path))
    # Snapshot and timestamp must fit the changed files.
    made.snapshot.version = made.timestamp.version = 2
    publish(tmp_path, made, owners=OWNERS[:1], curator=CURATORS[0], changed=frozenset())
    return files_of(tmp_path)


def test_one_owner_under_two_names_is_refused_although_the_client_counts_two(tmp_path, monkeypatch):
    public = tuf_key(OWNERS[0].public)
    other = SSlibKey("f" * 64, public.keytype, public.scheme, dict(public.keyval))
    files = _owned_by_one(tmp_path, other)
    assert refusal(files) == "keyid-not-of-key"
    by_name = "orchestrator.trust.root.shape.load_key"
    monkeypatch.setattr(by_name, lambda entry, where: PublicKey(entry.keyid.encode()))
    assert read(files).root_version == 1


def test_an_alias_of_an_owner_is_refused(tmp_path):
    files = _owned_by_one(tmp_path, tuf_key(aliases(OWNERS[0].public)[0]))
    assert refusal(files) == "key-not-sound"


def test_no_small_order_key_is_an_owner(tmp_path):
    for raw in small_order_encodings()[:4]:
        files = _owned_by_one(tmp_path, tuf_key(PublicKey(raw)))
        assert refusal(files) == "key-not-sound"


def test_an_older_version_than_was_seen_is_refused(made, tmp_path, files):
    another(made, tmp_path, "approvals", "targets")
    seen = read(files_of(tmp_path)).state
    assert refusal(files, seen=seen) == "trust-root-rolled-back"
    for name in ("root", "targets", "snapshot", "timestamp", "approvals"):
        newer: dict[str, Any] = {f"{name}_version": 2}
        assert refusal(files, seen=RootState(**newer)) == "trust-root-rolled-back"


def test_old_metadata_under_a_new_name_is_refused(made, tmp_path, files):
    another(made, tmp_path, "approvals")
    latest = files_of(tmp_path)
    for role in ("approvals", "snapshot"):
        mixed = {**latest, f"metadata/2.{role}.json": files[f"metadata/1.{role}.json"]}
        assert refusal(mixed) == "version-not-of-name"
    old = {**latest, "metadata/timestamp.json": files["metadata/timestamp.json"]}
    assert refusal(old, seen=read(latest).state) == "trust-root-rolled-back"


def test_frozen_metadata_expires(tmp_path):
    make_root(tmp_path, now_s=int(time.time()) - 4 * 24 * 3600)
    assert refusal(files_of(tmp_path)) == "trust-root-expired"


def test_what_has_expired_is_read_for_those_who_renew_it_alone(tmp_path):
    made_s = int(time.time()) - 400 * DAY_S
    make_root(tmp_path, now_s=made_s)
    found = read(files_of(tmp_path), lapsed=True)
    assert (found.root_version, found.expires_s) == (1, made_s + 3 * DAY_S)
    (tmp_path / "metadata" / "1.snapshot.json").unlink()
    assert refusal(files_of(tmp_path), lapsed=True) == "trust-root-incomplete"


def test_what_expires_first_is_named_with_its_time(files, made, tmp_path):
    with pytest.raises(ApprovalRefused, match=r"timestamp that held until 20.*Z") as refused:
        read(files, now_s=int(time.time()) + 4 * DAY_S)
    assert "trust refresh" in refused.value.hint
    now_s = int(time.time())
    changed = next_version(made, now_s=now_s, until_s=now_s + 99 * DAY_S)
    publish(tmp_path, made, owners=(), curator=CURATORS[0], changed=changed | {"approvals"})
    with pytest.raises(ApprovalRefused, match="targets that held"):
        read(files_of(tmp_path), now_s=now_s + 98 * DAY_S)


def test_a_time_past_any_expiry_is_refused_by_our_own_clock(files):
    later = int(time.time()) + 3 * 24 * 3600
    assert refusal(files, now_s=later) == "trust-root-expired"


def test_a_clock_set_back_is_refused_although_the_client_has_no_lower_bound(files):
    now_s = int(time.time())
    seen = RootState(high_water_s=now_s + 3600)
    assert refusal(files, seen=seen) == "clock-set-back"


def test_a_withheld_root_is_refused(made, tmp_path):
    another(made, tmp_path, "root")
    another(made, tmp_path, "root")
    latest = files_of(tmp_path)
    gap = {n: d for n, d in latest.items() if n != "metadata/2.root.json"}
    assert refusal(gap) == "root-chain-broken"
    last = {n: d for n, d in latest.items() if n != "metadata/3.root.json"}
    assert refusal(last, seen=read(latest).state) == "trust-root-rolled-back"


NEW = tuple(key(f"new owner {i}") for i in range(3))


@pytest.mark.parametrize(
    ("signers", "accepted"),
    [
        (NEW[:2], False),
        (OWNERS[:2], False),
        ((OWNERS[0], *NEW[:2]), False),
        ((*OWNERS[:2], NEW[0]), False),
        ((*OWNERS[:2], *NEW[:2]), True),
    ],
    ids=["new only", "old only", "one old", "one new", "two and two"],
)
def test_owners_change_only_by_enough_old_and_enough_new_ones(made, tmp_path, signers, accepted):
    rotate_owners(made, tuple(k.public for k in NEW), 2)
    changed = next_version(made, "root", "targets", now_s=int(time.time()))
    publish(tmp_path, made, owners=NEW[:2], curator=CURATORS[0], changed=changed)
    publish(tmp_path, made, owners=signers, curator=CURATORS[0], changed=frozenset({"root"}))
    found = files_of(tmp_path)
    if accepted:
        assert read(found).owners == {k.public.raw for k in NEW}
    else:
        assert refusal(found) == "trust-root-refused"


def test_a_duplicate_key_in_the_bootstrap_root_is_refused_although_the_client_takes_it(files):
    root = files["metadata/1.root.json"]
    twin = root.replace(b'"version": 1', b'"version": 99,\n  "version": 1')
    assert twin != root
    assert refusal(files, bootstrap=twin) == "json-duplicate-key"


def test_another_bootstrap_root_is_refused(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("other")
    others = People(tuple(k.public for k in NEW), tuple(k.public for k in CURATORS))
    other = draft(others, as_bytes(roles()), now_s=int(time.time()))
    publish(folder, other, owners=NEW[:2], curator=CURATORS[0], changed=ALL)
    bootstrap = files_of(folder)["metadata/1.root.json"]
    assert refusal(files, bootstrap=bootstrap) in {"trust-root-refused", "bootstrap-not-published"}


def test_a_target_outside_the_delegation_is_refused(made, tmp_path):
    from tuf.api.metadata import TargetFile

    made.approvals.targets["roles.v1.json"] = TargetFile.from_data(
        "roles.v1.json", b"x", ["sha256"]
    )
    another(made, tmp_path, "approvals")
    assert refusal(files_of(tmp_path)) == "target-outside-delegation"


@pytest.mark.parametrize(
    "roles_of",
    [
        lambda r: {
            "approvals": r,
            "more": DelegatedRole("more", [], 1, True, paths=["approvals/*"]),
        },
        lambda r: {
            "approvals": DelegatedRole("approvals", r.keyids, 1, False, paths=["approvals/*"])
        },
        lambda r: {"approvals": DelegatedRole("approvals", r.keyids, 1, True, paths=["*"])},
    ],
    ids=["second parent", "not terminating", "everything"],
)
def test_any_other_delegation_is_refused(made, tmp_path, roles_of):
    delegations = made.targets.delegations
    made.targets.delegations = Delegations(
        delegations.keys, roles_of(delegations.roles["approvals"])
    )
    another(made, tmp_path, "targets")
    assert refusal(files_of(tmp_path)) == "metadata-malformed"


@pytest.mark.parametrize("role", ["root", "targets"])
def test_a_threshold_that_one_owner_meets_is_refused(made, tmp_path, role):
    made.root.roles[role].threshold = 1
    another(made, tmp_path, "root", "targets")
    assert refusal(files_of(tmp_path)) == "metadata-malformed"


def test_a_key_that_owns_and_curates_is_refused(tmp_path):
    people = People(PEOPLE.owners, (OWNERS[2].public,))
    made = draft(people, as_bytes(roles()), now_s=int(time.time()))
    publish(tmp_path, made, owners=OWNERS[:2], curator=OWNERS[2], changed=ALL)
    assert refusal(files_of(tmp_path)) == "key-in-two-places"


def test_a_root_for_one_owner_is_not_even_made():
    with pytest.raises(UsageError, match="at least 2 owners"):
        draft(People((OWNERS[0].public,), PEOPLE.curators), as_bytes(roles()), now_s=1)


def test_what_was_published_can_be_loaded_and_published_on(made, tmp_path):
    again = load(tmp_path)
    put_target(again, "approvals/three.dsse.json", b"three")
    another(again, tmp_path, "approvals")
    assert set(read(files_of(tmp_path)).approvals) == {APPROVAL, "approvals/three.dsse.json"}


@pytest.mark.parametrize(("ahead_s", "refused"), [(1, False), (2, True)])
def test_a_clock_may_be_a_second_behind_what_was_seen_and_no_more(made, tmp_path, ahead_s, refused):
    now_s, seen = int(time.time()), RootState(high_water_s=int(time.time()) + ahead_s)
    if refused:
        assert refusal(files_of(tmp_path), now_s=now_s, seen=seen) == "clock-set-back"
    else:
        assert read(files_of(tmp_path), now_s=now_s, seen=seen).root_version == 1


def test_as_many_owners_as_must_sign_are_enough():
    two = People(OWNERS_OF_TWO, PEOPLE.curators, owner_threshold=2)
    assert draft(two, as_bytes(roles()), now_s=NOW_S).root.roles["root"].threshold == 2
    with pytest.raises(UsageError, match="at least 2 owners"):
        draft(People(OWNERS_OF_TWO, PEOPLE.curators, owner_threshold=3), b"", now_s=NOW_S)


@pytest.mark.parametrize("days", [None, 1, 4000])
def test_snapshot_and_timestamp_hold_for_their_life_or_until_they_are_asked_to(days):
    made = draft(PEOPLE, as_bytes(roles()), now_s=NOW_S - DAY_S)
    usual = draft(PEOPLE, as_bytes(roles()), now_s=NOW_S)
    until_s = None if days is None else NOW_S + days * DAY_S
    next_version(made, "approvals", now_s=NOW_S, until_s=until_s)
    for part, life in (
        (made.snapshot, usual.snapshot),
        (made.timestamp, usual.timestamp),
        (made.approvals, usual.approvals),
    ):
        assert part.expires.timestamp() == max(life.expires.timestamp(), until_s or 0)


def test_what_holds_longer_already_is_not_shortened():
    made = draft(PEOPLE, as_bytes(roles()), now_s=NOW_S)
    until_s = NOW_S + 4000 * DAY_S
    next_version(made, "approvals", now_s=NOW_S, until_s=until_s)
    next_version(made, now_s=NOW_S, until_s=NOW_S + DAY_S)
    for part in (made.snapshot, made.timestamp, made.approvals):
        assert part.expires.timestamp() == until_s


@pytest.mark.parametrize(("late_s", "due"), [(0, False), (1, True)])
def test_a_root_is_due_when_it_ends_before_new_targets(late_s, due):
    made = draft(PEOPLE, as_bytes(roles()), now_s=NOW_S)
    assert root_is_due(made, now_s=NOW_S + 275 * DAY_S + late_s) is due
