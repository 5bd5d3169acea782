"""Proof: the sigstore clients of two other projects accept our offline bundles and refuse ten tampered ones.

Makes a sealed run with sigstore bundles, then runs `python -m sigstore verify` and npm's @sigstore/verify
(installed into a temporary folder) over them. Writes results/proofs/interop-DATE.json; exit 1 on a surprise.
"""

from __future__ import annotations

import base64
import copy
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.attest import layout
from orchestrator.attest.sigstore_project import PIN
from orchestrator.attest.sigstore_sign import signer_of
from orchestrator.core.clock import run_stamp
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import SigningKey
from orchestrator.pipeline.seal import Signer
from tests.recorded import EIGHT, record_run, seal

ROOT = Path(__file__).resolve().parents[1]

PACKAGES = ("@sigstore/verify@4.1.3", "@sigstore/bundle@5.0.1", "@sigstore/protobuf-specs@0.5.2")


def entry(bundle: Any) -> Any:
    return bundle["verificationMaterial"]["tlogEntries"][0]


def proof(bundle: Any) -> Any:
    return entry(bundle)["inclusionProof"]


def payload(bundle: Any) -> None:
    statement = base64.b64decode(bundle["dsseEnvelope"]["payload"]).replace(b"PASSED", b"FAILED")
    statement = statement.replace(b'"complete":true', b'"complete":false')
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(statement).decode()


def signature(bundle: Any) -> None:
    first = bundle["dsseEnvelope"]["signatures"][0]
    raw = bytearray(base64.b64decode(first["sig"]))
    raw[-1] ^= 1
    first["sig"] = base64.b64encode(bytes(raw)).decode()


def certificate(bundle: Any) -> None:
    holder = bundle["verificationMaterial"]["certificate"]
    raw = bytearray(base64.b64decode(holder["rawBytes"]))
    raw[-1] ^= 1
    holder["rawBytes"] = base64.b64encode(bytes(raw)).decode()


ZEROS = base64.b64encode(bytes(32)).decode()
TAMPERED: dict[str, Callable[[Any], object]] = {
    "payload": payload,
    "payload-type": lambda b: b["dsseEnvelope"].update(payloadType="text/plain"),
    "signature": signature,
    "certificate": certificate,
    "no-log-entry": lambda b: b["verificationMaterial"].update(tlogEntries=[]),
    # The root in the entry itself repeats the checkpoint's, and the JavaScript client reads only that one.
    "other-place": lambda b: proof(b).update(logIndex="0"),
    "spoiled-path": lambda b: proof(b).update(hashes=[ZEROS] * len(proof(b)["hashes"])),
    "other-time": lambda b: entry(b).update(
        integratedTime=str(int(entry(b)["integratedTime"]) + 7200)
    ),
    "other-body": lambda b: entry(b).update(canonicalizedBody=base64.b64encode(b"{}").decode()),
    "renamed-checkpoint": lambda b: proof(b)["checkpoint"].update(
        envelope=proof(b)["checkpoint"]["envelope"].replace("sigstore.", "sigstorf.")
    ),
}


def make_bundles(folder: Path) -> tuple[Path, list[Path], list[Path]]:
    """Returns the trust configuration, sound bundles and tampered ones."""
    run = record_run(folder / "results", EIGHT)
    seal(run, Signer(SigningKey.generate(), "operator", signer_of("project", None)))
    sound = sorted((run / "sigstore").iterdir())
    model = json.loads((run / "sigstore" / "run.0.sigstore.json").read_bytes())
    tampered = []
    for name, change in TAMPERED.items():
        changed = copy.deepcopy(model)
        change(changed)
        path = folder / f"tampered-{name}.sigstore.json"
        path.write_text(json.dumps(changed))
        tampered.append(path)
    return run / layout.TRUST_CONFIG, sound, tampered


def by_python(config: Path, bundles: list[Path], home: Path) -> dict[str, bool]:
    """Runs `python -m sigstore` on each bundle; its subject is given by digest."""
    accepted = {}
    for path in bundles:
        statement = json.loads(
            base64.b64decode(json.loads(path.read_bytes())["dsseEnvelope"]["payload"])
        )
        subject = statement["subject"][0]["digest"]["sha256"]
        finished = subprocess.run(
            [
                *(sys.executable, "-m", "sigstore", "--trust-config", str(config)),
                *("verify", "identity", "--bundle", str(path), "--cert-identity", PIN.identity),
                *("--cert-oidc-issuer", PIN.issuer, f"sha256:{subject}"),
            ],
            env={"PATH": os.environ["PATH"], "HOME": str(home)},
            capture_output=True,
            check=False,
        )
        accepted[path.name] = finished.returncode == 0
    return accepted


def by_javascript(config: Path, bundles: list[Path], folder: Path) -> dict[str, bool]:
    """Installs the packages into a temporary folder and runs them on each bundle."""
    (folder / "package.json").write_text('{"private":true,"type":"module"}')
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    (folder / "interop.mjs").write_bytes((ROOT / "bench" / "interop.mjs").read_bytes())
    finished = subprocess.run(
        ["node", "interop.mjs", str(config), PIN.identity, PIN.issuer, *map(str, bundles)],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    told = [json.loads(line) for line in finished.stdout.splitlines()]
    for item in told:
        if not item["accepted"]:
            print(f"  {item['name']}: {item['why'][:120]}")
    return {item["name"]: item["accepted"] for item in told}


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, sound, tampered = make_bundles(folder)
        javascript = folder / "js"
        javascript.mkdir()
        # The Python command takes seconds each: one sound bundle per kind of statement is enough.
        found = {
            "npm @sigstore/verify": by_javascript(config, [*sound, *tampered], javascript),
            "python -m sigstore": by_python(config, [*sound[:3], sound[-1], *tampered], folder),
        }
    wanted = {path.name for path in sound}
    wrong = {
        client: [n for n, accepted in answers.items() if accepted != (n in wanted)]
        for client, answers in found.items()
    }
    figures = {
        client: {
            "accepted": sum(answers.values()),
            "refused": len(answers) - sum(answers.values()),
            "wrong": wrong[client],
        }
        for client, answers in found.items()
    }
    print(json.dumps(figures, indent=2))
    out = ROOT / "results" / "proofs" / f"interop-{run_stamp()}.json"
    write_atomic(out, json.dumps(figures, indent=2, sort_keys=True).encode())
    print(f"written: {out.relative_to(ROOT)}")
    return int(any(wrong.values()))


if __name__ == "__main__":
    sys.exit(main())
