"""Proof of `make official`: a whole official run of the pack through real containers, approved, attested, verified.

Builds and installs the supervisor in a mount namespace of its own, makes a rehearsal's root with keys for this once,
has the official plan signed, and dispatches it as a user who is neither root nor the supervisor, before a fake
provider on 127.0.0.1. Then changes one byte of plan, program, registry, wheel and price at a time, and asks again.
Writes results/proofs/official-DATE.json; exit 1 when something is not as promised. Needs root and an engine.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.rehearsal_site import (
    CLONE,
    ID,
    OPERATOR_UID,
    PROGRAM,
    ROOT,
    RUN,
    Site,
    approved,
    ceremony,
    clones,
    command,
    ended,
    filled_cache,
    given_to,
    installed,
    own_mounts,
    serving,
)
from orchestrator.attest import layout
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import run_stamp
from orchestrator.core.errors import MemtrialError
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import SigningKey
from tests.unit.gateway.support import PRICES
from tests.unit.gateway.upstream import fake_provider

REFUSED = 5
BEGAN = time.monotonic()
SITE = (
    PROGRAM.parents[1]
    / "lib"
    / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    / "site-packages"
)
DATA = SITE / "orchestrator" / "_data"


def say(line: str) -> None:
    """Tells how far it is."""
    print(f"[{time.monotonic() - BEGAN:5.0f} s] {line}", flush=True)


def outer() -> int:
    """Builds the prefix here, where packages can be fetched, then goes on in a mount namespace."""
    if os.geteuid() != 0 or RUN.exists():
        found = f"{RUN} of a supervisor" if RUN.exists() else f"uid {os.geteuid()}"
        print(
            f"expected root and no supervisor here, found {found}\n  next: use another machine, or root",
            file=sys.stderr,
        )
        return 4
    python, tool = ROOT / ".venv" / "bin" / "python", ROOT / "tools" / "supervisor.py"
    with tempfile.TemporaryDirectory(prefix="memtrial-official-") as name:
        Path(name).chmod(0o755)
        say("building the supervisor")
        subprocess.run([python, tool, "build", "--out", f"{name}/built"], cwd=ROOT, check=True)
        words = ("unshare", "--mount", "--propagation", "private", python, "-m", "bench.rehearsal")
        return subprocess.run([*words, "--inside", name], cwd=ROOT, check=False).returncode


def inside(folder: Path) -> int:
    """Rehearses in this process's own mounts, and writes what it found."""
    own_mounts(folder)
    site = Site(folder)
    try:
        with fake_provider() as provider:
            prepare(site, provider.origin)
            told = proof(site, lambda: len(provider.seen))
    except MemtrialError as error:
        print(f"{error.message}\n  next: {error.hint}", file=sys.stderr)
        return error.exit_code
    finally:
        ended(site)
    path = ROOT / "results" / "proofs" / f"official-{run_stamp()}.json"
    write_atomic(path, (json.dumps(told, indent=2) + "\n").encode())
    print(json.dumps(told, indent=2))
    say(f"{path}: {'as promised' if not told['wrong'] else told['wrong']}")
    return int(bool(told["wrong"]))


def prepare(site: Site, origin: str) -> None:
    """Everything up to a supervisor that serves."""
    say("installing it, for one operator")
    installed(site.folder / "built")
    clones(site)
    say("making keys and a rehearsal's root")
    ceremony(site)
    say("planning the whole pack, its images included, and having it signed")
    filled_cache(site.operator.parent / ".cache" / "memtrial", OPERATOR_UID)
    approved(site, origin, PRICES, "model-1")
    serving(site)


def proof(site: Site, calls: Callable[[], int]) -> dict[str, Any]:
    """Asks the gate, dispatches, verifies, dispatches again, and changes a byte at a time."""
    say("asking the gate, by root")
    began = time.perf_counter()
    report = json.loads(command(*gate_words(site.plan)).stdout)
    gate_s = time.perf_counter() - began
    say("make official, by the operator")
    began = time.perf_counter()
    command(*official_words(site), cwd=site.operator, user=OPERATOR_UID)
    run_s = time.perf_counter() - began
    say("verifying as a stranger would, and dispatching again")
    found = {
        "gate": report["result"],
        "gate_steps": sum(step["status"] == "ok" for step in report["steps"]),
        "provider_calls": calls(),
        **bundle(site),
        "second_dispatch": dispatched(site),
        "changed": {name: changed(site, *change) for name, change in changes(site).items()},
        "provider_calls_after_all": calls(),
    }
    wrong = [name for name, expected in expectations(site).items() if found[name] != expected]
    wrong += [
        name
        for name, (_, _, code) in changes(site).items()
        if found["changed"][name]["gate"] != code or " " in found["changed"][name]["dispatch"]
    ]
    seconds = {"gate_s": round(gate_s, 2), "run_s": round(run_s)}
    return {"wrong": wrong, "trials": len(trials(site)), **seconds, **found}


def trials(site: Site) -> list[Any]:
    """The plan's trials."""
    held: list[Any] = json.loads(site.plan.read_bytes())["trials"]
    return held


def expectations(site: Site) -> dict[str, Any]:
    """What each finding has to be."""
    return {
        "gate": "pass",
        "gate_steps": 17,
        "provider_calls": len(trials(site)),
        "phase": "official",
        "standing": "rehearsal",
        "judged": len(trials(site)),
        "approval_is_the_signed_one": True,
        "verified": "authentic",
        "second_dispatch": "nonce-used",
        "provider_calls_after_all": len(trials(site)),
    }


def gate_words(plan: Path) -> tuple[str | Path, ...]:
    """The gate, as root asks it by hand."""
    return (PROGRAM, "gate", plan, "--approval", ID, "--repository", CLONE, "--json")


def official_words(site: Site) -> tuple[str | Path, ...]:
    """The dispatch, by the words that the documents name."""
    key = site.operator.parent / "ledger.pem"
    if not key.exists():
        shutil.copyfile(site.key("ledger"), key)
        key.chmod(0o600)
        given_to(OPERATOR_UID, key)
    return ("make", "official", f"PLAN={site.plan}", f"APPROVAL={ID}", f"KEY={key}")


def bundle(site: Site) -> dict[str, Any]:
    """What the sealed run says of itself, and what a stranger's verification says of it."""
    run = (site.operator / "results" / "latest").resolve()
    line = json.loads((run / layout.SUMMARY).read_bytes().splitlines()[0])
    summary = json.loads(base64.b64decode(line["payload"]))["predicate"]
    (signed,) = (site.desk / "approvals" / "tuf" / "targets" / "approvals").glob(
        f"*.{ID}.dsse.json"
    )
    approvers = [SigningKey.load(site.key("approver", n)).public.keyid for n in (1, 2, 3)]
    words = [word for keyid in approvers for word in ("--approver", keyid)]
    ledger = SigningKey.load(site.key("ledger")).public.keyid
    program = ROOT / ".venv" / "bin" / "memtrial"
    finished = command(program, "verify", run, "--json", "--keyid", ledger, *words, expected=None)
    report = json.loads((run / layout.REPORT).read_bytes())
    return {
        "phase": summary["phase"],
        "standing": summary["standing"],
        "judged": sum(bool(trial["verdict_sha256"]) for trial in report["trials"]),
        "approval_is_the_signed_one": summary["approval_sha256"] == sha256_hex(signed.read_bytes()),
        "verified": json.loads(finished.stdout)["standing"],
    }


def dispatched(site: Site) -> str:
    """The code with which a dispatch by the operator is refused, or what became of it."""
    words = official_words(site)
    return code_of(command(*words, cwd=site.operator, user=OPERATOR_UID, expected=None))


def code_of(finished: subprocess.CompletedProcess[str]) -> str:
    """The code of a refusal as the program prints it, or how it ended."""
    code = re.search(r"^  \(([a-z0-9-]+), .*exit \d\)$", finished.stderr, re.MULTILINE)
    return code[1] if code else f"exit {finished.returncode}: {finished.stderr[-500:]}"


# Whose file, a text in it, and the gate's code once that text's last byte is another.
Change = tuple[Path, bytes, str]


def changes(site: Site) -> dict[str, Change]:
    """One byte of each thing that an approval binds, where it does no harm but that it is another."""
    (signed,) = (CLONE / "approvals" / "tuf" / "targets" / "approvals").glob(f"*.{ID}.dsse.json")
    library = PROGRAM.parents[1] / "base" / "lib" / SITE.parent.name
    return {
        "plan": (site.plan, b'"order_seed":0', "plan-not-the-approved-one"),
        "price": (site.plan, b'"output":15', "document-invalid"),
        "approval": (signed, b'"payload":"e', "worktree-differs"),
        "registry": (
            DATA / "fixtures" / "conditions.json",
            b"Nothing",
            "plan-does-not-fit",
        ),
        "image": (DATA / "images" / "agent" / "chat.py", b"A small agent", "plan-does-not-fit"),
        "wheel": (SITE / "pydantic" / "version.py", b"The `version`", "installed-file-changed"),
        "interpreter": (library / "this.py", b"Gur Mra", "supervisor-changed"),
    }


def changed(site: Site, path: Path, text: bytes, _: str) -> dict[str, str]:
    """Changes a byte, asks the gate and for a dispatch, and puts it back."""
    kept, found = path.read_bytes(), path.stat()
    at = kept.index(text) + len(text) - 1
    path.write_bytes(kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :])
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    try:
        report = command(*gate_words(site.plan), expected=None)
        return {"gate": code_of(report), "dispatch": dispatched(site)}
    finally:
        path.write_bytes(kept)
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    place = parser.parse_args().inside
    return outer() if place is None else inside(place)


if __name__ == "__main__":
    raise SystemExit(main())
