"""Promise: a role is a set of different people; no trick with keys makes one person count as two."""

from __future__ import annotations

import functools
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from orchestrator.core.errors import ApprovalRefused
from orchestrator.core.keys import PublicKey
from orchestrator.core.pae import pre_authentication_encoding, to_base64
from orchestrator.model.approval import APPROVAL_TYPE, WITHDRAWAL_TYPE, ManyEnvelope
from orchestrator.model.statement import Signature
from orchestrator.trust.envelope import add_signature, open_signed, sign_new
from orchestrator.trust.roles import Role, check_sealing_key, load_roles
from tests.unit.trust.support import (
    APPROVERS,
    CURATORS,
    LEDGER,
    SUPERVISOR,
    aliases,
    as_bytes,
    entry,
    key,
    roles,
    rule,
    sign_as_alias,
    small_order_encodings,
)

PAYLOAD = b'{"exact":"bytes"}'


@functools.cache
def approver() -> Role:
    return load_roles(as_bytes(roles()), where="roles").roles["approver"]


def refusal(document: object) -> str:
    with pytest.raises(ApprovalRefused) as refused:
        load_roles(as_bytes(document), where="roles")
    assert refused.value.exit_code == 5
    return refused.value.reference


def opened(data: bytes, role: Role | None = None) -> str:
    try:
        open_signed(data, role or approver(), payload_type=APPROVAL_TYPE, where="approval")
    except ApprovalRefused as error:
        return error.reference
    return "opened"


def test_sound_roles_load_with_their_thresholds():
    loaded = load_roles(as_bytes(roles()), where="roles")
    assert {name: (r.threshold, len(r.keys)) for name, r in loaded.roles.items()} == {
        "approver": (2, 3),
        "curator": (1, 2),
        "supervisor": (1, 1),
        "ledger": (1, 1),
    }


def test_each_of_the_fourteen_small_order_encodings_is_refused_as_an_approver():
    encodings = small_order_encodings()
    assert len(encodings) == 14
    for raw in encodings:
        weak = PublicKey(raw)
        # What is defended against: the library below takes each of them as a key.
        Ed25519PublicKey.from_public_bytes(raw)
        assert refusal(roles(approver=rule(2, *APPROVERS[:2], entry(weak)))) == "key-not-sound"


def test_none_of_the_seven_aliases_of_a_key_counts_beside_it():
    for alias in aliases(APPROVERS[0].public):
        document = roles(approver=rule(2, APPROVERS[0], entry(alias)))
        assert refusal(document) == "key-not-sound"


def test_an_alias_would_reach_the_threshold_if_the_loader_let_it_in():
    """The defence is the loader: below it one private key signs as two different keys."""
    seed = hashlib.sha256(b"memtrial test key of approver 0").digest()
    alias = aliases(APPROVERS[0].public)[0]
    message = pre_authentication_encoding(APPROVAL_TYPE, PAYLOAD)
    signatures = (
        Signature(keyid=APPROVERS[0].public.keyid, sig=to_base64(APPROVERS[0].sign(message))),
        Signature(keyid=alias.keyid, sig=to_base64(sign_as_alias(seed, alias, message))),
    )
    data = ManyEnvelope(
        payload=to_base64(PAYLOAD), payload_type=APPROVAL_TYPE, signatures=signatures
    ).canonical()
    unguarded = Role("approver", 2, {k.keyid: k for k in (APPROVERS[0].public, alias)})
    assert opened(data, unguarded) == "opened"
    assert opened(data) == "signer-not-in-role"


def test_one_key_under_two_names_is_refused():
    public = APPROVERS[0].public
    document = roles(approver=rule(2, entry(public), entry(public, "f" * 64)))
    assert refusal(document) == "keyid-not-of-key"


def test_one_key_listed_twice_is_refused():
    assert refusal(roles(approver=rule(2, APPROVERS[0], APPROVERS[0]))) == "key-in-two-places"


@pytest.mark.parametrize("role", ["curator", "supervisor", "ledger"])
def test_a_key_in_two_roles_is_refused(role):
    assert refusal(roles(**{role: rule(1, APPROVERS[1])})) == "key-in-two-places"


def test_a_threshold_that_one_approver_meets_is_refused():
    assert refusal(roles(approver=rule(1, *APPROVERS))) == "threshold-too-low"


@pytest.mark.parametrize(
    "change",
    [
        {"approver": rule(4, *APPROVERS)},
        {"approver": rule(0, *APPROVERS)},
        {"approver": rule(2)},
        {"approver": {**rule(2, *APPROVERS), "note": "x"}},
        {"operator": rule(1, key("operator"))},
        {"supervisor": {"threshold": True, "keys": [entry(SUPERVISOR.public)]}},
    ],
    ids=["out of reach", "zero", "no keys", "unknown field", "local role", "bool as int"],
)
def test_roles_that_break_their_schema_are_refused(change):
    assert refusal(roles(**change)) == "roles-invalid"


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("A" * 42 + "=", "roles-invalid"),
        ("A" * 43, "roles-invalid"),
        ("-" * 43 + "=", "roles-invalid"),
        ("A" * 42 + "B=", "base64-malformed"),
        (" " + "A" * 42 + "=", "roles-invalid"),
    ],
    ids=["short", "unpadded", "url-safe", "stray bits", "white space"],
)
def test_other_base64_is_no_key(text, reference):
    bad = {"keyid": "0" * 64, "public_key": text}
    assert refusal(roles(approver=rule(2, *APPROVERS[:2], bad))) == reference


@pytest.mark.parametrize("keyid", [APPROVERS[0].public.keyid, SUPERVISOR.public.keyid, None])
def test_the_ledgers_key_alone_seals(keyid):
    sound = load_roles(as_bytes(roles()), where="roles")
    check_sealing_key(sound, LEDGER.public.keyid)
    with pytest.raises(
        ApprovalRefused, match=f"found {keyid[:16] if keyid else 'no key'}$"
    ) as refused:
        check_sealing_key(sound, keyid)
    assert refused.value.reference == "seal-not-by-ledger"


def test_two_approvers_open_an_envelope_and_in_either_order():
    for pair in (APPROVERS[:2], APPROVERS[1:], APPROVERS[::-2]):
        data = sign_new(PAYLOAD, tuple(pair), payload_type=APPROVAL_TYPE)
        found = open_signed(data, approver(), payload_type=APPROVAL_TYPE, where="approval")
        assert found.payload == PAYLOAD
        assert found.signers == tuple(k.public.keyid for k in pair)


def test_signatures_can_be_added_one_by_one():
    data = sign_new(PAYLOAD, APPROVERS[:1], payload_type=APPROVAL_TYPE)
    assert opened(data) == "threshold-not-met"
    assert opened(add_signature(data, APPROVERS[2], where="approval")) == "opened"
    with pytest.raises(ApprovalRefused, match="signed it already"):
        add_signature(data, APPROVERS[0], where="approval")


def test_the_same_signature_twice_is_refused_and_not_counted_once():
    data = sign_new(PAYLOAD, (APPROVERS[0], APPROVERS[0]), payload_type=APPROVAL_TYPE)
    assert opened(data) == "signed-twice-by-one-key"


@pytest.mark.parametrize("stranger", [CURATORS[0], SUPERVISOR, key("stranger")])
def test_a_signature_from_outside_the_role_refuses_the_whole_envelope(stranger):
    data = sign_new(PAYLOAD, (*APPROVERS[:2], stranger), payload_type=APPROVAL_TYPE)
    assert opened(data) == "signer-not-in-role"


def test_an_envelope_of_another_type_is_refused_whoever_signed_it():
    data = sign_new(PAYLOAD, APPROVERS, payload_type=WITHDRAWAL_TYPE)
    assert opened(data) == "payload-type-not-expected"


def test_one_bad_signature_among_enough_good_ones_refuses():
    data = sign_new(PAYLOAD, APPROVERS[:2], payload_type=APPROVAL_TYPE)
    envelope = ManyEnvelope.parse_canonical(data, where="approval")
    bad = Signature(keyid=APPROVERS[2].public.keyid, sig=to_base64(bytes(64)))
    forged = envelope.model_copy(update={"signatures": (*envelope.signatures, bad)})
    assert opened(forged.canonical()) == "signature-invalid"


def test_every_changed_byte_of_an_envelope_is_refused():
    data = sign_new(PAYLOAD, APPROVERS[:2], payload_type=APPROVAL_TYPE)
    assert opened(data) == "opened"
    for at in range(len(data)):
        for changed in (data[at] ^ 1, data[at] ^ 0x20):
            twin = data[:at] + bytes([changed]) + data[at + 1 :]
            assert opened(twin) != "opened", (at, changed)


@pytest.mark.parametrize("length", [0, 63, 65, 128])
def test_a_signature_of_another_length_is_refused(length):
    bad = Signature(keyid=APPROVERS[0].public.keyid, sig=to_base64(bytes(length)))
    data = ManyEnvelope(
        payload=to_base64(PAYLOAD), payload_type=APPROVAL_TYPE, signatures=(bad,)
    ).canonical()
    assert opened(data) == "signature-invalid"
