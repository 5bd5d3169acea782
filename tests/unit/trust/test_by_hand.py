"""Promise: a stranger checks an approval with OpenSSL alone, by the commands of docs/security/by-hand.md."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from orchestrator.core.keys import SigningKey
from orchestrator.model.approval import APPROVAL_TYPE
from orchestrator.trust.envelope import sign_new

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "security" / "by-hand.md"


def script(envelope: Path, keyid: str) -> str:
    """The guide's own commands, with the two names filled in."""
    lines = re.findall(r"^    (.*)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    text = "\n".join(line for line in lines if not line.startswith("#"))
    return text.replace("approvals/signed/ID.dsse.json", str(envelope)).replace("KEYID", keyid)


def test_the_guides_commands_verify_a_signature_and_notice_a_change(tmp_path):
    keys = (SigningKey.generate(), SigningKey.generate())
    payload = b'{"an":"approval"}'
    envelope = tmp_path / "e.dsse.json"
    envelope.write_bytes(sign_new(payload, keys, payload_type=APPROVAL_TYPE))
    for key in keys:
        (tmp_path / "approver.pub.pem").write_bytes(key.public.pem())
        program = script(envelope, key.public.keyid)
        finished = subprocess.run(
            ["sh", "-ec", program], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert key.public.keyid in finished.stdout
        assert "Signature Verified Successfully" in finished.stdout
        assert (tmp_path / "payload").read_bytes() == payload
    envelope.write_bytes(sign_new(payload + b" ", keys, payload_type="application/other"))
    again = script(envelope, keys[-1].public.keyid)
    failed = subprocess.run(["sh", "-ec", again], cwd=tmp_path, capture_output=True, check=False)
    assert failed.returncode != 0
