"""Ways to change a bundle: at random, by kind, and as an insider who holds the key and makes all fit again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.attest import layout
from orchestrator.attest.dsse import sign_payload
from orchestrator.attest.statements import seal_statement
from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.keys import SigningKey
from orchestrator.ledger.blobs import BlobStore
from orchestrator.model.bundle import BundleCard
from orchestrator.pipeline.seal import Signer
from tests.recorded import seal, write_reports

Files = dict[str, bytes]


def mutate(files: Files, rng: random.Random) -> tuple[Files, str]:
    """Returns a bundle with one random change, and what it was."""
    while True:
        kind = rng.choice(list(KINDS))
        name = rng.choice(sorted(files))
        changed = KINDS[kind](dict(files), name, rng)
        if changed != files:
            return changed, f"{kind} {name}"


def _bytes(change: Callable[[bytes, random.Random], bytes]) -> Callable[..., Files]:
    def apply(files: Files, name: str, rng: random.Random) -> Files:
        files[name] = change(files[name], rng)
        return files

    return apply


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 7, 64, 1000)))


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _delete(data: bytes, rng: random.Random) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + data[end:]


def _double(data: bytes, rng: random.Random) -> bytes:
    start, end = _span(data, rng)
    return data[:end] + data[start:end] + data[end:]


def _insert(data: bytes, rng: random.Random) -> bytes:
    start, _ = _span(data, rng)
    return data[:start] + rng.randbytes(rng.randrange(1, 40)) + data[start:]


def _overwrite(data: bytes, rng: random.Random) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + rng.randbytes(end - start) + data[end:]


def _swap_spans(data: bytes, rng: random.Random) -> bytes:
    a, b = _span(data, rng)
    rest = data[b:]
    size = min(b - a, len(rest))
    return data[:a] + rest[:size] + data[a:b] + rest[size:]


def _swap_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def _drop_file(files: Files, name: str, rng: random.Random) -> Files:
    del files[name]
    return files


def _rename(files: Files, name: str, rng: random.Random) -> Files:
    files[f"{name}{rng.randrange(10)}"] = files.pop(name)
    return files


def _copy(files: Files, name: str, rng: random.Random) -> Files:
    files[f"copy-{rng.randrange(1000)}/{name}"] = files[name]
    return files


def _swap_files(files: Files, name: str, rng: random.Random) -> Files:
    other = rng.choice(sorted(files))
    files[name], files[other] = files[other], files[name]
    return files


def _add(files: Files, name: str, rng: random.Random) -> Files:
    folder = name.rpartition("/")[0]
    files[f"{folder + '/' if folder else ''}new-{rng.randrange(1000)}"] = rng.randbytes(8)
    return files


KINDS: dict[str, Callable[[Files, str, random.Random], Files]] = {
    "flip a bit of": _bytes(_flip),
    "delete bytes of": _bytes(_delete),
    "truncate": _bytes(lambda data, rng: data[: rng.randrange(len(data) + 1)]),
    "double bytes of": _bytes(_double),
    "insert bytes into": _bytes(_insert),
    "overwrite bytes of": _bytes(_overwrite),
    "swap bytes of": _bytes(_swap_spans),
    "swap lines of": _bytes(_swap_lines),
    "append to": _bytes(lambda data, rng: data + rng.randbytes(3)),
    "delete": _drop_file,
    "rename": _rename,
    "copy": _copy,
    "swap with another": _swap_files,
    "add beside": _add,
}


def reseal_list(files: Files, key: SigningKey) -> Files:
    """Lists and seals the files as they are now, as someone who holds the key can."""
    kept = {n: d for n, d in files.items() if n not in {layout.SUMS, layout.SEAL}}
    sums = layout.render_sums({name: sha256_hex(data) for name, data in kept.items()})
    card = BundleCard.model_validate_json(kept[layout.CARD])
    payload = seal_statement(layout.SUMS, sha256_hex(sums), len(kept), card)
    return {**kept, layout.SUMS: sums, layout.SEAL: sign_payload(payload, key) + b"\n"}


def rewrite_record(
    folder: Path, change: Callable[[list[dict[str, Any]], BlobStore], None], key: SigningKey
) -> None:
    """Rewrites ledger bodies and blobs, chains the lines anew, rebuilds the report and seals again.

    Every digest, proof, statement and signature then fits: only recomputing can tell.
    """
    path = folder / layout.LEDGER
    entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    change(entries, BlobStore(folder / "blobs"))
    previous, lines = "0" * 64, []
    for number, entry in enumerate(entries):
        entry |= {"seq": number, "prev_sha256": previous}
        line = canonical_bytes(entry)
        previous = sha256_hex(line)
        lines.append(line + b"\n")
    path.write_bytes(b"".join(lines))
    for name in ("checkpoint", "keys/ledger.pub.pem"):
        (folder / name).unlink(missing_ok=True)
    write_reports(folder)
    seal(folder, Signer(key, "operator"))
