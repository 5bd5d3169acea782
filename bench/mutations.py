"""The mutation part of `make proof-evidence`: a bundle of 144 trials, changed again and again.

Goes on where it was interrupted: the bundle and the number of the next change lie in
results/proofs/evidence.partial until all is done. A change of the program's text begins anew. Each change
is drawn from its own number, so that a continued proof is the same proof.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView, MemoryView
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import SigningKey
from orchestrator.pipeline.seal import Signer
from tests.evidence.tamper import KINDS, Files, mutate, reseal_list
from tests.recorded import MANY, files_of, record_run, seal

ROOT = Path(__file__).resolve().parents[1]
PARTIAL = ROOT / "results" / "proofs" / "evidence.partial"
NOW = "2099-01-01T00:00:00Z"
# The key of a proof is no secret; with a fixed one an interrupted proof can go on.
KEY = SigningKey(bytes.fromhex(sha256_hex(b"the key of the proof of evidence")))
FILES_PER_KIND = 60
SAVE_EVERY = 50
TELL_EVERY = 250
RECORD = ("ledger", "report", "proofs/", "attest", "records/", "plan", "gateway/")


@dataclass(slots=True)
class Progress:
    """What is done. `source` is the digest of the program's text that did it; two times are processor time."""

    source: str
    run: str = ""
    done: int = 0
    changed: dict[str, int] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    seal_s: float = 0.0
    verify_s: float = 0.0
    seconds: float = 0.0
    processes: int = 0

    def save(self) -> None:
        fields = {name: getattr(self, name) for name in self.__slots__}
        write_atomic(PARTIAL / "progress.json", json.dumps(fields).encode())


def source_sha256() -> str:
    """Returns a digest of every program file that decides what the proof does."""
    names = sorted(
        path
        for room in ("orchestrator", "bench", "tests/evidence")
        for path in (ROOT / room).rglob("*.py")
    )
    return sha256_hex("".join(sha256_hex(path.read_bytes()) for path in names).encode())


def _begin() -> Progress:
    """Returns the progress of an interrupted proof of the same program, or that of a new bundle."""
    source, path = source_sha256(), PARTIAL / "progress.json"
    if path.is_file():
        found = Progress(**json.loads(path.read_bytes()))
        if found.source == source:
            print(f"going on after {found.done} changes", flush=True)
            return found
    shutil.rmtree(PARTIAL, ignore_errors=True)
    PARTIAL.mkdir(parents=True)
    run = record_run(PARTIAL / "runs", MANY)
    progress = Progress(source, run.relative_to(PARTIAL).as_posix())
    began = time.process_time()
    seal(run, Signer(KEY, "operator"))
    progress.seal_s = time.process_time() - began
    began = time.process_time()
    answer = verify_bundle(FolderView(run), trust(), name="sound")
    progress.verify_s = time.process_time() - began
    progress.missed += [] if answer.exit_code == 0 else ["the untouched bundle"]
    progress.save()
    return progress


def trust() -> Trust:
    return Trust(now=NOW, keyid=KEY.public.keyid)


def passes(changed: Files) -> bool:
    return verify_bundle(MemoryView(changed), trust(), name="mutant").exit_code == 0


def changes(mutations: int, insider: int) -> Iterator[tuple[str, int, str]]:
    """Yields the class, number and kind of every change, always in the same order."""
    yield from (("random", number, "") for number in range(mutations))
    for kind in KINDS:
        yield from (("structural", number, kind) for number in range(FILES_PER_KIND))
    yield from (("insider", number, "") for number in range(insider))
    yield ("signed anew", 0, "")


def change(files: Files, run: Path, what: tuple[str, int, str]) -> tuple[Files | None, str]:
    """Returns a changed bundle and what was done to it; None where nothing came out changed."""
    group, number, kind = what
    rng = random.Random(f"144 {group} {kind} {number}")
    if group == "random":
        return mutate(files, rng)
    if group == "structural":
        name = rng.choice(sorted(files))
        changed = KINDS[kind](dict(files), name, rng)
        return (changed if changed != files else None), f"{kind} {name}"
    if group == "insider":
        record = {n: d for n, d in files.items() if n.startswith(RECORD)}
        rest = {n: d for n, d in files.items() if n not in record}
        changed, told = mutate(record, rng)
        if told.startswith(("copy", "add beside")):
            return None, told
        return reseal_list({**rest, **changed}, KEY), f"insider: {told}"
    copy = PARTIAL / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    seal(copy, Signer(SigningKey.generate(), "operator"))
    return files_of(copy), group


def bundle_figures(mutations: int, insider: int) -> dict[str, Any]:
    """Makes the bundle and every change of it, or goes on; returns the figures of the whole proof."""
    progress = _begin()
    progress.processes += 1
    run = PARTIAL / progress.run
    files = files_of(run)
    everything = list(changes(mutations, insider))
    began, before_s = time.perf_counter(), progress.seconds
    for what in everything[progress.done :]:
        changed, told = change(files, run, what)
        if changed is not None:
            progress.changed[what[0]] = progress.changed.get(what[0], 0) + 1
            progress.missed += [told] if passes(changed) else []
        progress.done += 1
        progress.seconds = before_s + time.perf_counter() - began
        if progress.done % SAVE_EVERY == 0 or what[0] != "random":
            progress.save()
        if progress.done % TELL_EVERY == 0 or progress.done == len(everything):
            print(
                f"{progress.done} of {len(everything)} changes, {len(progress.missed)} missed, {progress.seconds:.0f} s",
                flush=True,
            )
    answer = verify_bundle(FolderView(run), trust(), name="sound")
    figures = {
        "trials": 144,
        "records": next(c.count for c in answer.checks if c.name == "ledger"),
        "statements": next(c.count for c in answer.checks if c.name == "statements"),
        "files": len(files),
        "bytes": sum(map(len, files.values())),
        "seal_s": round(progress.seal_s, 2),
        "verify_s": round(progress.verify_s, 2),
        "changes": progress.changed,
        "seconds": round(progress.seconds, 1),
        "processes": progress.processes,
        "missed": progress.missed,
    }
    shutil.rmtree(PARTIAL)
    return figures
