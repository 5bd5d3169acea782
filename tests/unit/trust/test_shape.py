"""Promise: metadata is refused for its shape before TUF's client sees it, whatever is odd about it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tuf.api.exceptions import DownloadError

from orchestrator.core.errors import ApprovalRefused, UsageError
from orchestrator.trust.root import client
from orchestrator.trust.root.make import draft, drop_target, load, publish
from orchestrator.trust.root.shape import check_shape
from orchestrator.trust.root.signing import TufSigner, tuf_key
from tests.unit.trust.rooted import ALL, OWNERS, PEOPLE, edited, files_of, make_root, read
from tests.unit.trust.support import CURATORS, as_bytes, roles

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("root")
    make_root(folder)
    return files_of(folder)


def first_key(document: dict[str, Any]) -> dict[str, Any]:
    keys: dict[str, dict[str, Any]] = document["signed"]["keys"]
    return keys[min(keys)]


def renamed(document: dict[str, Any]) -> None:
    keys = document["signed"]["keys"]
    keys["short"] = keys.pop(min(keys))


CHANGES: dict[str, Change] = {
    "no type": lambda d: d["signed"].pop("_type"),
    "type of another kind": lambda d: d["signed"].update(_type=1),
    "version nought": lambda d: d["signed"].update(version=0),
    "version as text": lambda d: d["signed"].update(version="1"),
    "version as a truth": lambda d: d["signed"].update(version=True),
    "no expiry": lambda d: d["signed"].pop("expires"),
    "nothing signed": lambda d: d.pop("signed"),
    "roles as a list": lambda d: d["signed"].update(roles=[]),
    "a role more": lambda d: d["signed"]["roles"].update(mirrors={}),
    "a role fewer": lambda d: d["signed"]["roles"].pop("snapshot"),
    "keys as a list": lambda d: d["signed"].update(keys=[]),
    "a key that is a list": lambda d: d["signed"]["keys"].update({"a" * 64: []}),
    "a key without a value": lambda d: first_key(d).pop("keyval"),
    "another type of key": lambda d: first_key(d).update(keytype="rsa"),
    "another scheme": lambda d: first_key(d).update(scheme="ed448"),
    "a key in capitals": lambda d: first_key(d)["keyval"].update(
        public=first_key(d)["keyval"]["public"].upper()
    ),
    "a key that is short": lambda d: first_key(d)["keyval"].update(public="ab"),
    "a key that is no hexadecimal": lambda d: first_key(d)["keyval"].update(public="g" * 64),
    "a key that is a number": lambda d: first_key(d)["keyval"].update(public=1),
    "a key under a short name": renamed,
    "a role that is a list": lambda d: d["signed"]["roles"].update(root=[]),
    "keyids as text": lambda d: d["signed"]["roles"]["root"].update(keyids="abc"),
    "an unknown keyid": lambda d: d["signed"]["roles"]["root"].update(keyids=["a" * 64] * 2),
    "a keyid that is a number": lambda d: d["signed"]["roles"]["root"].update(keyids=[1, 2]),
    "a keyid twice": lambda d: d["signed"]["roles"]["root"]["keyids"].append(
        d["signed"]["roles"]["root"]["keyids"][0]
    ),
    "a threshold as text": lambda d: d["signed"]["roles"]["root"].update(threshold="2"),
    "a threshold as a truth": lambda d: d["signed"]["roles"]["timestamp"].update(threshold=True),
    "a threshold of one for owners": lambda d: d["signed"]["roles"]["root"].update(threshold=1),
    "a threshold of nought": lambda d: d["signed"]["roles"]["snapshot"].update(threshold=0),
    "a threshold that nobody meets": lambda d: d["signed"]["roles"]["root"].update(threshold=4),
}


@pytest.mark.parametrize("what", CHANGES)
def test_an_odd_root_is_refused_for_its_shape(files, what):
    data = edited(files["metadata/1.root.json"], CHANGES[what])
    with pytest.raises(ApprovalRefused) as refused:
        check_shape(data, where="root")
    assert refused.value.reference == "metadata-malformed"


def test_one_key_under_two_names_is_refused(files):
    def change(document: dict[str, Any]) -> None:
        keys = document["signed"]["keys"]
        keys["b" * 64] = keys[min(keys)]

    data = edited(files["metadata/1.root.json"], change)
    with pytest.raises(ApprovalRefused):
        check_shape(data, where="root")


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"1", b'{"signed":{}}', b'{"signed":1,"signed":2}', b"{"]
)
def test_what_is_no_metadata_is_refused(data):
    with pytest.raises(ApprovalRefused):
        check_shape(data, where="x")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["signed"]["delegations"].update(roles=[]),
        lambda d: d["signed"]["delegations"]["roles"].append({}),
        lambda d: d["signed"]["delegations"].update(roles={}),
        lambda d: d["signed"]["delegations"]["roles"][0].update(name="other"),
        lambda d: d["signed"]["delegations"]["roles"][0].update(terminating=False),
        lambda d: d["signed"]["delegations"]["roles"][0].update(paths=["*"]),
        lambda d: d["signed"].update(targets=[]),
        lambda d: d["signed"].update(delegations=1),
    ],
)
def test_other_delegations_are_refused_for_their_shape(files, change):
    with pytest.raises(ApprovalRefused, match="expected"):
        check_shape(edited(files["metadata/1.targets.json"], change), where="targets")


def test_a_sound_root_tells_who_is_who(files):
    found = check_shape(files["metadata/1.root.json"], where="root")
    assert found.owners == {k.public.raw for k in OWNERS}
    assert found.curators == {k.public.raw for k in CURATORS}
    assert (found.kind, found.version, found.targets) == ("root", 1, ())
    targets = check_shape(files["metadata/1.targets.json"], where="targets")
    assert targets.delegates == {k.public.raw for k in CURATORS}
    assert targets.targets == ("roles.v1.json",)


def test_a_provisioned_root_that_was_never_published_is_refused(files, tmp_path):
    make_root(tmp_path, now_s=1_900_000_000)
    other = files_of(tmp_path)["metadata/1.root.json"]
    assert other != files["metadata/1.root.json"]
    with pytest.raises(ApprovalRefused) as refused:
        read(files, bootstrap=other)
    assert refused.value.reference in {"bootstrap-not-published", "trust-root-refused"}


def test_curators_of_the_delegation_are_those_of_the_root(tmp_path):
    made = draft(PEOPLE, as_bytes(roles()), now_s=int(time.time()))
    made.targets.revoke_key(CURATORS[1].public.keyid, "approvals")
    publish(tmp_path, made, owners=OWNERS[:2], curator=CURATORS[0], changed=ALL)
    with pytest.raises(ApprovalRefused) as refused:
        read(files_of(tmp_path))
    assert refused.value.reference == "curators-differ"


def test_an_owner_who_is_a_curator_is_refused(tmp_path):
    made = draft(PEOPLE, as_bytes(roles()), now_s=int(time.time()))
    made.root.add_key(tuf_key(OWNERS[0].public), "snapshot")
    made.root.add_key(tuf_key(OWNERS[0].public), "timestamp")
    publish(tmp_path, made, owners=OWNERS[:2], curator=CURATORS[0], changed=ALL)
    with pytest.raises(ApprovalRefused) as refused:
        read(files_of(tmp_path))
    assert refused.value.reference == "key-in-two-places"


def test_a_file_of_no_role_is_refused_by_its_name(files):
    for name in (
        "foo.root.json",
        "01.root.json",
        "root.json",
        "1.mirrors.json",
        "\u00b2.root.json",
    ):
        data = files["metadata/1.root.json"]
        with pytest.raises(ApprovalRefused) as refused:
            read({**files, f"metadata/{name}": data})
        assert refused.value.reference == "metadata-of-no-role"


def test_what_is_not_there_is_neither_dropped_nor_loaded(tmp_path):
    made = make_root(tmp_path)
    with pytest.raises(UsageError, match="none"):
        drop_target(made, "approvals/unknown.dsse.json")
    with pytest.raises(UsageError, match="none"):
        load(tmp_path / "elsewhere")
    (tmp_path / "metadata/timestamp.json").write_bytes(
        (tmp_path / "metadata/1.snapshot.json").read_bytes()
    )
    with pytest.raises(UsageError, match="another role"):
        load(tmp_path)


def test_a_signers_key_is_a_file_and_no_address():
    signer = TufSigner(OWNERS[0])
    assert signer.public_key.keyid == OWNERS[0].public.keyid
    with pytest.raises(UsageError, match="address"):
        TufSigner.from_priv_key_uri("file:x", signer.public_key)
    assert json.loads(json.dumps(signer.sign(b"x").to_dict()))["keyid"] == OWNERS[0].public.keyid


def test_approvals_that_delegate_further_are_refused(tmp_path):
    made = draft(PEOPLE, as_bytes(roles()), now_s=int(time.time()))
    made.approvals.delegations = made.targets.delegations
    publish(tmp_path, made, owners=OWNERS[:2], curator=CURATORS[0], changed=ALL)
    with pytest.raises(ApprovalRefused) as refused:
        read(files_of(tmp_path))
    assert refused.value.reference == "delegation-of-delegation"


def test_the_client_is_given_nothing_but_files_of_the_root(tmp_path):
    fetcher = client._Fetcher({"metadata/1.root.json": b"x"})
    assert b"".join(fetcher._fetch("memory:///metadata/1.root.json")) == b"x"
    for address in (
        "https://example.org/metadata/1.root.json",
        "memory://host/metadata/1.root.json",
    ):
        with pytest.raises(DownloadError):
            fetcher._fetch(address)
    with pytest.raises(ApprovalRefused) as refused:
        client._verified(tmp_path)
    assert refused.value.reference == "trust-root-incomplete"
    nothing: Any = SimpleNamespace(get_targetinfo=lambda _: None)
    with pytest.raises(ApprovalRefused) as refused:
        client._target(nothing, "roles.v1.json")
    assert refused.value.reference == "target-not-listed"


def test_owners_are_the_keys_of_root_and_those_of_targets(files):
    other = files["metadata/1.root.json"]
    plain = check_shape(other, where="root")

    def one_less(document: dict[str, Any]) -> None:
        document["signed"]["roles"]["targets"]["keyids"].pop()

    fewer = check_shape(edited(other, one_less), where="root")
    assert fewer.owners == plain.owners
    assert len(plain.owners) == len(OWNERS)


def test_curators_are_the_keys_of_snapshot_and_those_of_timestamp(files):
    other = files["metadata/1.root.json"]

    def one_less(document: dict[str, Any]) -> None:
        document["signed"]["roles"]["timestamp"]["keyids"].pop()

    fewer = check_shape(edited(other, one_less), where="root")
    assert fewer.curators == check_shape(other, where="root").curators
    assert len(fewer.curators) == len(CURATORS)
