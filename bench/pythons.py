"""Proof: a bundle verifies, its report rebuilt to the byte, under every Python that is given or found.

Seals two runs here, one of which asked a model, then for each `--python PATH` (default: python3.11 to python3.13 on PATH) makes a venv
from requirements/run.lock and runs `memtrial verify` there; `--with NAME==VERSION` installs more, for
example another SciPy. Writes results/proofs/pythons-DATE.json; exit 1 when one disagrees.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from orchestrator.core.clock import run_stamp
from orchestrator.core.files import write_atomic
from tests.played_chat import record_chat_run
from tests.recorded import EIGHT, record_run, seal

ROOT = Path(__file__).resolve().parents[1]

VERSIONS = ("python3.11", "python3.12", "python3.13")


def make_venv(python: str, extra: list[str], venv: Path) -> None:
    """Makes a venv of an interpreter with what the lock pins, and more if it was asked for."""
    shutil.rmtree(venv, ignore_errors=True)
    subprocess.run([python, "-m", "venv", venv], check=True, capture_output=True)
    pip = [
        str(venv / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--only-binary",
        ":all:",
    ]
    lock = str(ROOT / "requirements" / "run.lock")
    subprocess.run([*pip, "--require-hashes", "-r", lock], check=True, capture_output=True)
    if extra:
        subprocess.run([*pip, *extra], check=True, capture_output=True)


def verify_under(venv: Path, bundle: Path, keyid: str) -> str:
    """Returns the outcome of a verification in a venv."""
    finished = subprocess.run(
        [
            venv / "bin" / "python",
            "-m",
            "orchestrator",
            "verify",
            bundle,
            "--keyid",
            keyid,
            "--json",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    checks = {c["name"]: c for c in json.loads(finished.stdout)["checks"]}
    report = checks["report"]
    return f"exit {finished.returncode}, report {report['status']} ({report['detail']})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--with", dest="extra", action="append", default=[])
    arguments = parser.parse_args()
    pythons = arguments.python or [found for v in VERSIONS if (found := shutil.which(v))]
    told: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = {
            "eight trials": record_run(folder / "results", EIGHT),
            "a model asked": record_chat_run(folder / "results"),
        }
        keyids = {kind: seal(run).keyid for kind, run in runs.items()}
        for python in pythons:
            version = subprocess.run(
                [python, "--version"], check=True, capture_output=True, text=True
            ).stdout.strip()
            for extra in arguments.extra or [""]:
                make_venv(python, [extra] if extra else [], folder / "venv")
                for kind, run in runs.items():
                    key = f"{version} {extra}".strip() + f", {kind}"
                    told[key] = verify_under(folder / "venv", run, keyids[kind])
                    print(f"{key}: {told[key]}", flush=True)
    out = ROOT / "results" / "proofs" / f"pythons-{run_stamp()}.json"
    write_atomic(out, json.dumps(told, indent=2, sort_keys=True).encode())
    print(f"written: {out.relative_to(ROOT)}")
    return int(any(not text.startswith("exit 0, report ok") for text in told.values()))


if __name__ == "__main__":
    sys.exit(main())
