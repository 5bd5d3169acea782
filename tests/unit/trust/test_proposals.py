"""Promise: nothing is shown as signed, and no signature added, before every signature that is there holds."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.errors import ApprovalRefused, DocumentError, UsageError
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import SigningKey
from orchestrator.core.pae import to_base64
from orchestrator.model.approval import APPROVAL_TYPE, GOVERNED, WITHDRAWAL_TYPE, ManyEnvelope
from orchestrator.model.roles import Roles
from orchestrator.model.statement import Signature
from orchestrator.trust.ceremony import current, init_root
from orchestrator.trust.changes import publish_approval
from orchestrator.trust.envelope import open_started, sign_new
from orchestrator.trust.gate.asked import Governed
from orchestrator.trust.proposals import (
    plan_of,
    read_proposal,
    sign_proposal,
    standings,
    write_plan,
    write_proposal,
)
from orchestrator.trust.roles import load_roles, role_of
from tests.gate.world import ingredients, smoke_plan
from tests.unit.trust.support import APPROVERS, CURATORS, as_bytes, key, roles, rule

NOW_S = int(time.time())
ID = "smoke-one"
OWNERS = tuple(key(f"owner {i}") for i in range(3))
TRUSTED = load_roles(as_bytes(roles()), where="roles")


@functools.cache
def sound() -> dict[str, Any]:
    document = ingredients().approval
    document["approved_commit"] = "a" * 40
    document["root"]["sha256"] = sha256_hex(first_root())
    document["root"]["roles_sha256"] = sha256_hex(as_bytes(roles()))
    for name, field in (("supervisor", "manifest_sha256"), ("ledger", "root_sha256")):
        document[name][field] = "a" * 64
    return document


@functools.cache
def first_root() -> bytes:
    """The first root of every trust root that `init` makes, whatever its roles: it names owners and curators."""
    with tempfile.TemporaryDirectory() as folder:
        return init(Path(folder))


def approval(**changes: Any) -> Governed:
    return GOVERNED.validate_json(as_bytes({**sound(), **changes}))


def init(
    folder: Path,
    named: Roles | None = None,
    signing: tuple[SigningKey, ...] = OWNERS[:2],
    **more: Any,
) -> bytes:
    given: dict[str, Any] = {
        "owners": tuple(owner.public for owner in OWNERS),
        "signing": signing,
        "curator": CURATORS[0],
        "now_s": NOW_S,
        **more,
    }
    return init_root(folder, named or Roles.parse(as_bytes(roles()), where="roles"), **given)


@pytest.fixture
def approvals(tmp_path: Path) -> Path:
    init(tmp_path)
    write_proposal(tmp_path, approval())
    return tmp_path


def plant(approvals: Path, payload: bytes, *signers: SigningKey, kind: str = APPROVAL_TYPE) -> None:
    """Puts an envelope with made-up signatures where the signed ones lie, as a colleague can."""
    named = tuple(Signature(keyid=s.public.keyid, sig=to_base64(b"\0" * 64)) for s in signers)
    envelope = ManyEnvelope(payload=to_base64(payload), payload_type=kind, signatures=named)
    write_atomic(approvals / "signed" / f"{ID}.dsse.json", envelope.canonical())


def status(approvals: Path) -> Any:
    (one,) = standings(approvals, now_s=NOW_S)
    return one


def sign_refused(approvals: Path, wanted: Governed | None = None) -> str:
    path = approvals / "signed" / f"{ID}.dsse.json"
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(ApprovalRefused) as refused:
        sign_proposal(approvals, wanted or approval(), APPROVERS[0], TRUSTED)
    assert (path.read_bytes() if path.is_file() else b"") == before
    return refused.value.reference


def test_signatures_add_up_and_are_shown_once_they_hold(approvals):
    assert (status(approvals).signers, status(approvals).fault) == ((), None)
    sign_proposal(approvals, approval(), APPROVERS[0], TRUSTED)
    path = sign_proposal(approvals, approval(), APPROVERS[1], TRUSTED)
    found = open_started(
        path.read_bytes(),
        role_of(TRUSTED, "approver", where="roles"),
        payload_type=APPROVAL_TYPE,
        where="x",
    )
    assert (
        status(approvals).signers == found.signers == tuple(a.public.keyid for a in APPROVERS[:2])
    )
    assert sign_refused(approvals) == "signed-already"
    publish_approval(approvals, approval(), CURATORS[0], now_s=NOW_S)
    assert (status(approvals).published, len(status(approvals).signers)) == (True, 2)


def test_the_plan_of_a_proposal_lies_beside_it_and_is_the_one_of_its_digest(approvals):
    with pytest.raises(UsageError) as absent:
        plan_of(approvals, approval())
    assert absent.value.reference == "plan-not-there"
    path = write_plan(approvals, smoke_plan())
    assert plan_of(approvals, approval()) == smoke_plan()
    path.write_bytes(smoke_plan().canonical().replace(b"smoke-one", b"smoke-two"))
    with pytest.raises(ApprovalRefused) as other:
        plan_of(approvals, approval())
    assert other.value.reference == "plan-not-the-proposed-one"


def test_a_link_or_what_is_no_plan_is_not_shown_as_one(approvals):
    write_atomic(approvals / "plans" / f"{sha256_hex(b'{}')}.json", b"{}")
    with pytest.raises(DocumentError):
        plan_of(approvals, approval(plan_sha256=sha256_hex(b"{}")))
    elsewhere = write_plan(approvals, smoke_plan()).rename(approvals / "elsewhere.json")
    (approvals / "plans" / f"{smoke_plan().digest_sha256()}.json").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="nobody signs what cannot be read"):
        plan_of(approvals, approval())


@pytest.mark.parametrize("pin", [{"version": 2}, {"sha256": "b" * 64}])
def test_what_was_proposed_under_another_root_is_not_published_and_is_shown_so(tmp_path, pin):
    init(tmp_path)
    older = approval(root={**sound()["root"], **pin})
    write_proposal(tmp_path, older)
    for signer in APPROVERS[:2]:
        sign_proposal(tmp_path, older, signer, TRUSTED)
    with pytest.raises(ApprovalRefused) as refused:
        publish_approval(tmp_path, older, CURATORS[0], now_s=NOW_S)
    assert refused.value.reference == "root-not-the-approved-one"
    assert (status(tmp_path).superseded, status(tmp_path).published) == (True, False)


def test_an_approval_of_the_present_root_is_named_by_its_nonce(approvals):
    assert (status(approvals).superseded, status(approvals).nonce) == (False, "f" * 64)


def test_made_up_signatures_are_neither_shown_nor_added_to(approvals):
    plant(approvals, approval().canonical(), *APPROVERS[1:])
    assert (status(approvals).signers, status(approvals).published) == ((), False)
    assert "signature-invalid" in status(approvals).fault
    assert sign_refused(approvals) == "signature-invalid"


@pytest.mark.parametrize("kind", [WITHDRAWAL_TYPE, "application/x"])
def test_an_envelope_of_another_kind_is_not_signed(approvals, kind):
    data = sign_new(approval().canonical(), APPROVERS[1:2], payload_type=kind)
    write_atomic(approvals / "signed" / f"{ID}.dsse.json", data)
    assert sign_refused(approvals) == "payload-type-not-expected"
    assert status(approvals).fault


def test_an_envelope_by_somebody_else_is_not_signed(approvals):
    data = sign_new(approval().canonical(), (key("stranger"),), payload_type=APPROVAL_TYPE)
    write_atomic(approvals / "signed" / f"{ID}.dsse.json", data)
    assert sign_refused(approvals) == "signer-not-in-role"


def test_another_proposal_than_the_signed_one_is_neither_signed_nor_published(approvals):
    for number in (1, 2):
        sign_proposal(approvals, approval(), APPROVERS[number], TRUSTED)
    other = approval(nonce="e" * 64)
    assert sign_refused(approvals, other) == "proposal-not-the-signed-one"
    with pytest.raises(ApprovalRefused, match="proposal that others signed"):
        publish_approval(approvals, other, CURATORS[0], now_s=NOW_S)
    assert current(approvals, now_s=NOW_S).approvals == {}


def test_a_proposal_has_the_name_of_its_file(approvals):
    write_atomic(approvals / "proposals" / "other.json", approval().canonical())
    with pytest.raises(ApprovalRefused, match="under its name"):
        read_proposal(approvals, "other")
    other, one = standings(approvals, now_s=NOW_S)
    assert (other.approval_id, one.fault) == ("other", None)
    assert (other.fault or "").startswith("proposal-of-another-name")


@pytest.mark.parametrize("name", ["../proposals/smoke-one", "a/b", "", ".", "\x1b[2J", "A", "none"])
def test_a_name_that_is_none_leads_nowhere(approvals, name):
    with pytest.raises(UsageError, match="plain name"):
        read_proposal(approvals, name)


def test_a_file_of_a_strange_name_hides_no_other(approvals):
    (approvals / "proposals" / "\x1b[2J\n.json").write_bytes(b"{}")
    strange, one = standings(approvals, now_s=NOW_S)
    assert strange.fault
    assert (one.approval_id, one.fault) == (ID, None)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
@pytest.mark.parametrize("where", ["proposals", "signed"])
def test_what_is_no_plain_file_is_not_read(approvals, kind, where):
    path = approvals / where / (f"{ID}.json" if where == "proposals" else f"{ID}.dsse.json")
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "link":
        (approvals / "elsewhere").write_bytes(approval().canonical())
        path.symlink_to(approvals / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert status(approvals).fault
    if where == "signed":
        with pytest.raises(ApprovalRefused, match="regular file"):
            sign_proposal(approvals, approval(), APPROVERS[0], TRUSTED)


def test_a_proposal_with_fields_left_out_is_none(approvals):
    document = approval().model_dump(mode="json")
    del document["schema_version"]
    write_atomic(approvals / "proposals" / f"{ID}.json", canonical_bytes(document))
    with pytest.raises(ApprovalRefused, match="fields left out"):
        read_proposal(approvals, ID)


def test_a_proposal_with_a_name_twice_is_none_and_told_so(approvals):
    data = (approvals / "proposals" / f"{ID}.json").read_bytes()
    write_atomic(approvals / "proposals" / f"{ID}.json", b'{"phase":"smoke",' + data[1:])
    with pytest.raises(ApprovalRefused) as refused:
        read_proposal(approvals, ID)
    assert refused.value.reference == "json-duplicate-key"


def test_owners_who_are_approvers_make_no_root_and_leave_nothing(tmp_path):
    document = as_bytes(roles(approver=rule(2, OWNERS[0], OWNERS[1])))
    with pytest.raises(ApprovalRefused, match="no other role"):
        init(tmp_path, Roles.parse(document, where="roles"))
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
    init(tmp_path)


def test_a_root_that_too_few_signed_leaves_nothing(tmp_path):
    with pytest.raises(ApprovalRefused):
        init(tmp_path, signing=OWNERS[:1])
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
    init(tmp_path)


@pytest.mark.parametrize("data", [b"{}", b'{"kind":"smoke"}', b"[]", b"", b'{"kind":"local"}'])
def test_another_document_is_no_proposal(approvals, data):
    write_atomic(approvals / "proposals" / f"{ID}.json", data)
    with pytest.raises(ApprovalRefused):
        read_proposal(approvals, ID)
    assert status(approvals).fault


@pytest.mark.parametrize("name", ["Proposal", "-p", "p q"])
def test_a_file_of_another_name_than_an_approvals_is_no_proposal(approvals, name):
    data = (approvals / "proposals" / f"{approval().approval_id}.json").read_bytes()
    (approvals / "proposals" / f"{name}.json").write_bytes(data)
    with pytest.raises(UsageError) as refused:
        read_proposal(approvals, name)
    assert refused.value.reference == "proposal-unknown"
