"""What cases about model spending do to a bundle whose agent asked a model."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.keys import SigningKey
from orchestrator.gateway.accounts import BODIES_FILE, SPEND_FILE, TRAFFIC_FILE
from orchestrator.gateway.bodies import _HEAD
from orchestrator.ledger.blobs import BlobStore
from tests.evidence.tamper import Files

Lines = list[dict[str, Any]]


def chained(data: bytes, change: Callable[[Lines], None]) -> bytes:
    """Changes the bodies of a gateway's log and chains its lines anew."""
    lines = [json.loads(line) for line in data.splitlines()]
    change(lines)
    previous, made = "0" * 64, []
    for number, line in enumerate(lines):
        raw = canonical_bytes(line | {"seq": number, "prev_sha256": previous})
        previous = sha256_hex(raw)
        made.append(raw + b"\n")
    return b"".join(made)


def rechain(files: Files, _: SigningKey, file: str, line: int, fields: dict[str, Any]) -> None:
    """Sets fields of one line's body, and makes the chain fit."""
    files[file] = chained(files[file], lambda lines: lines[line]["body"].update(fields))


def settle_twice(files: Files, _: SigningKey) -> None:
    files[SPEND_FILE] = chained(files[SPEND_FILE], lambda lines: lines.append(lines[-1]))


def drop_charge(files: Files, _: SigningKey) -> None:
    """Takes the last call out of the spend book: what it bought cost nothing then."""
    files[SPEND_FILE] = chained(files[SPEND_FILE], lambda lines: lines.__delitem__(slice(-2, None)))


def cheapen(files: Files, _: SigningKey) -> None:
    """Halves a usage with its cost, in the book and in the record alike; only the answer's bytes tell."""

    def in_record(lines: Lines) -> None:
        usage = lines[0]["body"]["usage"]
        lines[0]["body"]["usage"] = usage | {"input": 0}
        lines[0]["body"]["cost"] = price_of(lines[0]["body"])

    files[TRAFFIC_FILE] = chained(files[TRAFFIC_FILE], in_record)
    body = json.loads(files[TRAFFIC_FILE].splitlines()[0])["body"]

    def in_book(lines: Lines) -> None:
        settled = next(line["body"] for line in lines if line["body"]["kind"] == "settled")
        settled.update(body["cost"])

    files[SPEND_FILE] = chained(files[SPEND_FILE], in_book)


def price_of(body: dict[str, Any]) -> dict[str, int]:
    """Returns the cost of output alone, in proportion to what the line says."""
    return {name: max(1, value // 2) for name, value in body["cost"].items()}


def bomb_body(files: Files, _: SigningKey) -> None:
    """A piece of the pack that unpacks to a gibibyte, under the name of an honest one."""
    name = _HEAD.unpack(files[BODIES_FILE][: _HEAD.size])[0]
    stored = zlib.compress(bytes(2**20))
    files[BODIES_FILE] += _HEAD.pack(name, len(stored), 2**30) + stored


def repeat_pieces(files: Files, _: SigningKey) -> None:
    """A body that names one piece a hundred thousand times."""

    def in_record(lines: Lines) -> None:
        request = lines[0]["body"]["request"]
        request["pieces"] = request["pieces"] * 100_000

    files[TRAFFIC_FILE] = chained(files[TRAFFIC_FILE], in_record)


def other_piece(files: Files, _: SigningKey) -> None:
    """Other bytes in place of an answer: shorter, sound, of another digest."""
    stored = zlib.compress(b"{}")
    files[BODIES_FILE] = _HEAD.pack(sha256(b"{}").digest(), len(stored), 2) + stored


def loose_piece(files: Files, _: SigningKey) -> None:
    """A piece that no recorded call names."""
    files[BODIES_FILE] += packed(b"a piece of nothing")


def double_piece(files: Files, _: SigningKey) -> None:
    """The first piece once more."""
    _, stored, _ = _HEAD.unpack(files[BODIES_FILE][: _HEAD.size])
    files[BODIES_FILE] += files[BODIES_FILE][: _HEAD.size + stored]


def lengthen_piece(files: Files, _: SigningKey) -> None:
    """Bytes behind the first piece's end, within its stored length."""
    data = files[BODIES_FILE]
    name, stored, plain = _HEAD.unpack(data[: _HEAD.size])
    piece, rest = data[_HEAD.size : _HEAD.size + stored], data[_HEAD.size + stored :]
    files[BODIES_FILE] = _HEAD.pack(name, stored + 4, plain) + piece + b"more" + rest


def packed(piece: bytes) -> bytes:
    """Returns a piece as the pack stores it."""
    stored = zlib.compress(piece)
    return _HEAD.pack(sha256(piece).digest(), len(stored), len(piece)) + stored


SPENDING_OPERATIONS: dict[str, Callable[..., None]] = {
    f.__name__: f
    for f in (
        rechain,
        settle_twice,
        drop_charge,
        cheapen,
        bomb_body,
        repeat_pieces,
        other_piece,
        loose_piece,
        double_piece,
        lengthen_piece,
    )
}


def _act(entries: Lines) -> dict[str, Any]:
    found: dict[str, Any] = next(e["body"] for e in entries if e["body"].get("stage") == "act")
    return found


def lessen_traffic(entries: Lines, blobs: BlobStore) -> None:
    """An attempt's own account of its traffic says one call less than went through."""
    artifact = next(a for a in _act(entries)["artifacts"] if a["name"] == "traffic")
    traffic = json.loads(blobs.get(artifact["sha256"]))
    traffic["roles"][0]["calls"] -= 1
    data = canonical_bytes(traffic)
    artifact |= {"sha256": blobs.put(data), "bytes": len(data)}


def flatter_agent(entries: Lines, blobs: BlobStore) -> None:
    """The figures of the agent's own are made to agree with the gateway's."""
    body = _act(entries)
    acted = json.loads(blobs.get(body["document_sha256"]))
    acted["own_usage"]["usage"]["input"] += 1
    body["document_sha256"] = blobs.put(canonical_bytes(acted))
    for entry in entries:
        if entry["body"].get("trial") == body["trial"] and entry["body"].get("stage") == "seal":
            sealed = json.loads(blobs.get(entry["body"]["document_sha256"]))
            sealed["acted_sha256"] = body["document_sha256"]
            entry["body"]["document_sha256"] = blobs.put(canonical_bytes(sealed))


def turn_proof(entries: Lines, blobs: BlobStore) -> None:
    """The proof of an attempt says the opposite of what it said."""
    artifact = next(a for a in _act(entries)["artifacts"] if a["name"] == "injection-proof")
    proof = json.loads(blobs.get(artifact["sha256"]))
    proof["result"] = "absent" if proof["result"] == "shown" else "shown"
    data = canonical_bytes(proof)
    artifact |= {"sha256": blobs.put(data), "bytes": len(data)}


SPENDING_RECORD_CHANGES: dict[str, Callable[[Lines, BlobStore], None]] = {
    f.__name__: f for f in (lessen_traffic, flatter_agent, turn_proof)
}


def lower_caps(plan: dict[str, Any]) -> None:
    """A plan whose cap per trial is below what its trials spent."""
    plan["gateway"]["caps"]["per_trial_usd_micros"] = 1
    sha256 = sha256_hex(canonical_bytes({"retry": plan["retry"], "gateway": plan["gateway"]}))
    for arm in plan["arms"]:
        arm["caps_sha256"] = sha256
