"""Promise: a stranger checks an approval with OpenSSL alone, by the commands of docs/security/by-hand.md."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.attest import layout
from orchestrator.model.approval import APPROVAL_TYPE, LOCAL_TYPE
from orchestrator.trust.envelope import sign_new
from tests.gate.world import ID, World, ingredients, make_world
from tests.live import local_case
from tests.unit.trust.support import APPROVERS, as_bytes, roles

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "security" / "by-hand.md"


def blocks(keyid: str) -> tuple[str, str]:
    """The guide's own commands: of a published approval, and those that make a key's PEM."""
    published, of_run = GUIDE.read_text(encoding="utf-8").split("**Of a run**")
    found = [
        "\n".join(re.findall(r"^    (.*)$", text, re.MULTILINE)).replace("KEYID", keyid)
        for text in (published, of_run)
    ]
    return found[0].replace(r"\.ID\.", rf"\.{ID}\."), found[1]


def shell(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-ec", program], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def world() -> Iterator[World]:
    folder = Path(tempfile.mkdtemp(prefix=".memtrial-test-", dir=Path.home()))
    yield make_world(folder, ingredients())
    shutil.rmtree(folder)


def test_the_guides_commands_verify_what_the_gate_reads_and_notice_a_change(world):
    (published,) = (world.repo / "approvals/tuf/targets/approvals").iterdir()
    for approver in APPROVERS[:2]:
        (world.repo / "approver.pub.pem").write_bytes(approver.public.pem())
        finished = shell(blocks(approver.public.keyid)[0], world.repo)
        assert finished.returncode == 0, finished.stderr
        assert approver.public.keyid in finished.stdout
        assert published.name.partition(".")[0] in finished.stdout
        assert "Signature Verified Successfully" in finished.stdout
        payload = (world.repo / "payload").read_bytes()
        assert b'"approval_id":"smoke-one"' in payload
    published.write_bytes(sign_new(b"{}", APPROVERS[:2], payload_type="application/other"))
    assert shell(blocks(APPROVERS[1].public.keyid)[0], world.repo).returncode != 0


def of_run(keyid: str, kind: str) -> str:
    """What the guide says to do with a run's bundle: make the PEM, then the same with another file and type."""
    whole, pem = blocks(keyid)
    kept = re.sub(r"^F=.*$", "F=approval.dsse.json", whole.partition("sha256sum\n")[2], flags=re.M)
    return pem + "\n" + re.sub(r"^T=.*$", f"T={kind}", kept, flags=re.M)


def test_the_key_of_a_local_approval_is_made_from_its_roles_and_verifies_it(tmp_path):
    case = local_case(tmp_path / "home")
    keyid = case.home.key().public.keyid
    (tmp_path / layout.APPROVAL).write_bytes(case.envelope())
    (tmp_path / layout.ROLES).write_bytes((case.home.folder / "roles.json").read_bytes())
    finished = shell(of_run(keyid, LOCAL_TYPE), tmp_path)
    assert "Signature Verified Successfully" in finished.stdout, finished.stderr
    assert (tmp_path / "approver.pub.pem").read_bytes() == case.home.key().public.pem()


@pytest.mark.parametrize("number", [0, 1])
def test_each_approvers_key_of_a_governed_run_is_made_from_its_roles(tmp_path, number):
    envelope = sign_new(b'{"an":"approval"}', APPROVERS[:2], payload_type=APPROVAL_TYPE)
    (tmp_path / layout.APPROVAL).write_bytes(envelope)
    (tmp_path / layout.ROLES).write_bytes(as_bytes(roles()))
    finished = shell(of_run(APPROVERS[number].public.keyid, APPROVAL_TYPE), tmp_path)
    assert "Signature Verified Successfully" in finished.stdout, finished.stderr
