"""Attacks on the envelope and on the text inside it: steps 7 and 8."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.curve import ORDER
from orchestrator.model.approval import APPROVAL_TYPE, LOCAL_TYPE, WITHDRAWAL_TYPE
from orchestrator.model.gate import ANSWER_TYPE
from tests.gate.catalogue import Attack, after, before, in_turn
from tests.gate.world import Ingredients
from tests.unit.trust.support import APPROVERS, CURATORS, LEDGER, SUPERVISOR, key


def signed_by(*keys: Any) -> Callable[[Ingredients], None]:
    return lambda made: setattr(made, "signers", tuple(keys))


def typed(payload_type: str) -> Callable[[Ingredients], None]:
    return lambda made: setattr(made, "payload_type", payload_type)


def wrapped(change: Callable[[dict[str, Any]], object]) -> Callable[[Ingredients], None]:
    """Changes the envelope after it was signed."""

    def attack(made: Ingredients) -> None:
        def again(data: bytes) -> bytes:
            document = json.loads(data)
            change(document)
            return canonical_bytes(document)

        made.envelope = again

    return attack


def raw_envelope(change: Callable[[bytes], bytes]) -> Callable[[Ingredients], None]:
    return lambda made: setattr(made, "envelope", change)


def text(change: Callable[[bytes], bytes]) -> Callable[[Ingredients], None]:
    """Changes the text before the approvers sign it."""
    return lambda made: setattr(made, "payload", change)


def swap(old: bytes, new: bytes) -> Callable[[Ingredients], None]:
    def change(data: bytes) -> bytes:
        if old not in data:
            raise ValueError(f"{old!r} is not in the approval")
        return data.replace(old, new, 1)

    return text(change)


def first_signature(change: Callable[[bytes], bytes]) -> Callable[[Ingredients], None]:
    def attack(document: dict[str, Any]) -> None:
        raw = base64.b64decode(document["signatures"][0]["sig"])
        document["signatures"][0]["sig"] = base64.b64encode(change(raw)).decode()

    return wrapped(attack)


def malleated(raw: bytes) -> bytes:
    """The same signature with the group's order added to its second half."""
    return raw[:32] + (int.from_bytes(raw[32:], "little") + ORDER).to_bytes(32, "little")


def first_text(
    change: Callable[[str], str], *, where: str = "sig"
) -> Callable[[Ingredients], None]:
    def attack(document: dict[str, Any]) -> None:
        place = document["signatures"][0] if where == "sig" else document
        place[where] = change(place[where])

    return wrapped(attack)


def named_as(keyid: str) -> Callable[[Ingredients], None]:
    return wrapped(lambda d: d["signatures"][0].update(keyid=keyid))


MEANING = "two readers would see two documents"
UNSEEN = "a person who reads it does not see it"
NUMBERS = "readers disagree about such numbers"
BASE64 = "one text, one meaning"

ATTACKS: tuple[Attack, ...] = (
    after(
        "approval-not-listed",
        7,
        "approval-not-listed",
        "it was never published",
        lambda w: w.changes.update(approval_id="smoke-two"),
    ),
    before(
        "one-signature-of-two",
        7,
        "threshold-not-met",
        "one person may not spend",
        signed_by(APPROVERS[0]),
    ),
    before(
        "same-signer-twice",
        7,
        "signed-twice-by-one-key",
        "one person would count as two",
        signed_by(APPROVERS[0], APPROVERS[0]),
    ),
    before(
        "approver-and-supervisor",
        7,
        "signer-not-in-role",
        "a supervisor does not approve",
        signed_by(APPROVERS[0], SUPERVISOR),
    ),
    before(
        "approver-and-curator",
        7,
        "signer-not-in-role",
        "a curator does not approve",
        signed_by(APPROVERS[0], CURATORS[0]),
    ),
    before(
        "approver-and-ledger",
        7,
        "signer-not-in-role",
        "the ledger's key does not approve",
        signed_by(APPROVERS[0], LEDGER),
    ),
    before(
        "two-and-a-stranger",
        7,
        "signer-not-in-role",
        "somebody wants to be seen among approvers",
        signed_by(*APPROVERS[:2], key("stranger")),
    ),
    before(
        "strangers", 7, "signer-not-in-role", "nobody knows them", signed_by(key("a"), key("b"))
    ),
    before(
        "withdrawal-type",
        7,
        "payload-type-not-expected",
        "a signature made for something else",
        typed(WITHDRAWAL_TYPE),
    ),
    before(
        "local-type",
        7,
        "payload-type-not-expected",
        "a signature made for something else",
        typed(LOCAL_TYPE),
    ),
    before(
        "answer-type",
        7,
        "payload-type-not-expected",
        "a signature made for something else",
        typed(ANSWER_TYPE),
    ),
    before(
        "type-in-capitals",
        7,
        "envelope-malformed",
        "types are compared byte for byte",
        wrapped(lambda d: d.update(payloadType=APPROVAL_TYPE.upper())),
    ),
    before(
        "type-changed-after-signing",
        7,
        "signature-invalid",
        "the type is signed too",
        in_turn(
            typed(WITHDRAWAL_TYPE),
            wrapped(lambda d: d.update(payloadType=APPROVAL_TYPE)),
        ),
    ),
    before(
        "signature-of-another-text",
        7,
        "signature-invalid",
        "the signers saw something else",
        first_signature(lambda raw: key("x").sign(b"x")),
    ),
    before(
        "signature-malleated",
        7,
        "signature-invalid",
        "each signature has one form",
        first_signature(malleated),
    ),
    before(
        "signature-short", 7, "signature-invalid", "64 bytes", first_signature(lambda raw: raw[:63])
    ),
    before(
        "signature-long",
        7,
        "signature-invalid",
        "64 bytes",
        first_signature(lambda raw: raw + b"\0"),
    ),
    before("signature-empty", 7, "signature-invalid", "64 bytes", first_signature(lambda raw: b"")),
    before(
        "signature-zero",
        7,
        "signature-invalid",
        "it fits weak keys only",
        first_signature(lambda raw: bytes(64)),
    ),
    before(
        "signature-bit-flipped",
        7,
        "signature-invalid",
        "any change refuses",
        first_signature(lambda raw: bytes([raw[0] ^ 1]) + raw[1:]),
    ),
    before(
        "third-signature-bad",
        7,
        "signature-invalid",
        "a bad one among good ones means tampering",
        in_turn(
            signed_by(*APPROVERS),
            first_signature(lambda raw: bytes(64)),
        ),
    ),
    before(
        "signature-under-another-name",
        7,
        "signature-invalid",
        "the name says whose key verifies",
        named_as(APPROVERS[2].public.keyid),
    ),
    before(
        "keyid-in-capitals",
        7,
        "envelope-malformed",
        "one name, one text",
        named_as(APPROVERS[0].public.keyid.upper()),
    ),
    before("base64-url-safe", 7, "envelope-malformed", BASE64, first_text(lambda t: "-" + t[1:])),
    before("base64-unpadded", 7, "base64-malformed", BASE64, first_text(lambda t: t.rstrip("="))),
    before(
        "base64-white-space",
        7,
        "envelope-malformed",
        BASE64,
        first_text(lambda t: t[:4] + "\n" + t[4:]),
    ),
    before(
        "base64-stray-bits",
        7,
        "base64-malformed",
        BASE64,
        first_text(lambda t: t[:-3] + chr(ord(t[-3]) + 1) + "=="),
    ),
    before(
        "payload-base64-unpadded",
        7,
        "base64-malformed",
        BASE64,
        first_text(lambda t: t.rstrip("=") + ("" if t.endswith("=") else "A"), where="payload"),
    ),
    before(
        "payload-changed-after-signing",
        7,
        "signature-invalid",
        "the signers saw something else",
        wrapped(
            lambda d: d.update(
                payload=base64.b64encode(
                    base64.b64decode(d["payload"]).replace(b'"epochs":1', b'"epochs":9')
                ).decode()
            )
        ),
    ),
    before(
        "envelope-with-spaces",
        7,
        "envelope-malformed",
        MEANING,
        raw_envelope(lambda d: d.replace(b'":', b'": ', 1)),
    ),
    before(
        "envelope-with-unknown-field",
        7,
        "envelope-malformed",
        "a field that nobody checks",
        wrapped(lambda d: d.update(note="x")),
    ),
    before(
        "envelope-with-duplicate-key",
        7,
        "envelope-malformed",
        MEANING,
        raw_envelope(lambda d: b'{"payload":"",' + d[1:]),
    ),
    before(
        "envelope-without-signatures",
        7,
        "envelope-malformed",
        "nobody signed",
        wrapped(lambda d: d.update(signatures=[])),
    ),
    before(
        "envelope-with-17-signatures",
        7,
        "envelope-malformed",
        "more than a role can have",
        wrapped(lambda d: d.update(signatures=d["signatures"] * 9)),
    ),
    before(
        "envelope-empty", 7, "envelope-malformed", "there is nothing", raw_envelope(lambda d: b"{}")
    ),
    before(
        "duplicate-key",
        8,
        "json-duplicate-key",
        MEANING,
        swap(b'"epochs":1', b'"epochs":1,"epochs":2'),
    ),
    before(
        "duplicate-key-by-escape",
        8,
        "json-duplicate-key",
        MEANING,
        swap(b'"epochs":1', b'"epochs":1,"epoch\\u0073":2'),
    ),
    before("not-a-number", 8, "json-not-a-number", NUMBERS, swap(b'"epochs":1', b'"epochs":NaN')),
    before("infinite", 8, "json-not-a-number", NUMBERS, swap(b'"epochs":1', b'"epochs":Infinity')),
    before("fraction", 8, "json-fraction", NUMBERS, swap(b'"epochs":1', b'"epochs":1.0')),
    before(
        "exponent",
        8,
        "json-fraction",
        NUMBERS,
        swap(b'"max_cost_usd_micros":5000000', b'"max_cost_usd_micros":5e6'),
    ),
    before("minus-zero", 8, "json-not-canonical", NUMBERS, swap(b'"epochs":1', b'"epochs":-0')),
    before(
        "past-2-to-the-53",
        8,
        "json-integer-too-large",
        NUMBERS,
        swap(b'"max_cost_usd_micros":5000000', b'"max_cost_usd_micros":9007199254740993'),
    ),
    before(
        "5000-digits",
        8,
        "json-integer-too-large",
        NUMBERS,
        swap(b'"epochs":1', b'"epochs":' + b"9" * 5000),
    ),
    before(
        "bool-as-number", 8, "json-not-canonical", NUMBERS, swap(b'"epochs":1', b'"epochs":true')
    ),
    before(
        "text-as-number",
        8,
        "approval-invalid",
        NUMBERS,
        swap(b'"max_cost_usd_micros":5000000', b'"max_cost_usd_micros":"5000000"'),
    ),
    before(
        "byte-order-mark", 8, "json-byte-order-mark", MEANING, text(lambda d: b"\xef\xbb\xbf" + d)
    ),
    before("utf-16", 8, "json-not-utf8", MEANING, text(lambda d: d.decode().encode("utf-16"))),
    before(
        "overlong-utf-8",
        8,
        "json-not-utf8",
        MEANING,
        swap(b"example/approvals", b"example\xc0\xafapprovals"),
    ),
    before(
        "lone-surrogate",
        8,
        "json-lone-surrogate",
        MEANING,
        swap(b"example/approvals", b"example\\ud800approvals"),
    ),
    before(
        "decomposed",
        8,
        "json-not-nfc",
        "two texts that look alike",
        swap(b"example/approvals", "exe\u0301ample".encode()),
    ),
    before(
        "right-to-left",
        8,
        "json-hidden-character",
        UNSEEN,
        swap(b"example/approvals", "a\u202eb".encode()),
    ),
    before(
        "zero-width",
        8,
        "json-hidden-character",
        UNSEEN,
        swap(b"example/approvals", "a\u200bb".encode()),
    ),
    before(
        "nul",
        8,
        "json-hidden-character",
        "some readers stop there",
        swap(b"example/approvals", b"a\\u0000b"),
    ),
    before(
        "white-space", 8, "json-not-canonical", MEANING, text(lambda d: d.replace(b'":', b'": ', 1))
    ),
    before("line-end", 8, "json-not-canonical", MEANING, text(lambda d: d + b"\n")),
    before(
        "order-of-keys",
        8,
        "json-not-canonical",
        MEANING,
        text(
            lambda d: json.dumps(
                dict(reversed(json.loads(d).items())), separators=(",", ":")
            ).encode()
        ),
    ),
    before("two-documents", 8, "json-malformed", MEANING, text(lambda d: d + d)),
    before(
        "depth-17",
        8,
        "json-too-deep",
        "parsers end at some depth",
        text(lambda d: b'{"a":' * 17 + b"1" + b"}" * 17),
    ),
    before(
        "depth-100000",
        8,
        "json-too-deep",
        "parsers end at some depth",
        text(lambda d: b"[" * 100_000),
    ),
    before(
        "large",
        8,
        "json-too-large",
        "nobody reads so much",
        text(lambda d: b'{"a":"' + b"x" * 300_000 + b'"}'),
    ),
    before(
        "list", 8, "json-not-an-object", "an approval is an object", text(lambda d: b"[" + d + b"]")
    ),
    before(
        "unknown-field",
        8,
        "approval-invalid",
        "a field that nobody checks",
        swap(b'"epochs":1', b'"epochs":1,"ignore_budget":true'),
    ),
    before("nothing", 8, "json-malformed", "there is nothing", text(lambda d: b"")),
)
