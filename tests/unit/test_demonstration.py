"""Promise: the shipped demonstration can be renewed and looked at by anybody, and the gate refuses whatever it approves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.core.keys import PublicKey, SigningKey
from orchestrator.trust.ceremony import current
from orchestrator.trust.gate.asked import State
from orchestrator.trust.gate.documents import check_roles
from orchestrator.trust.roles import load_roles

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "approvals" / "demonstration"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    folder: Path = shutil.copytree(SHIPPED, tmp_path / "demonstration")
    for path in (folder / "keys").glob("*.pem"):
        path.chmod(0o600)
    return folder


def memtrial(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *words, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_commands_of_its_page_renew_it_whatever_the_day_and_show_it(copied):
    words = ["--repository", str(copied), "--curator", str(copied / "keys" / "curator-1.pem")]
    for name in ("owner-1", "owner-2"):
        words += ["--owner", str(copied / "keys" / f"{name}.pem")]
    memtrial("trust", "refresh", *words)
    told = memtrial("trust", "status", "--repository", str(copied))
    assert (told["name"], told["kind"]) == ("demonstration", "demonstration")


def test_everybody_in_it_is_there_with_both_keys(copied):
    keys = {}
    for path in (copied / "keys").glob("*.pub.pem"):
        public = PublicKey.parse_pem(path.read_bytes(), where=path.name)
        assert SigningKey.load(path.with_name(path.name.replace(".pub", ""))).public == public
        keys[path.name] = public
    root = current(copied / "approvals", now_s=int(time.time()), lapsed=True)
    roles = load_roles(root.roles_data, where="roles").roles
    in_roles = {key.raw for role in roles.values() for key in role.keys.values()}
    assert root.owners | in_roles == {key.raw for key in keys.values()}
    assert len(keys) == 10


def test_the_gate_refuses_its_roles_also_where_a_machine_trusts_it(copied):
    root = current(copied / "approvals", now_s=int(time.time()), lapsed=True)
    config = SimpleNamespace(name="demonstration")
    with pytest.raises(ApprovalRefused) as refused:
        check_roles(cast("State", SimpleNamespace(root=root, config=config, roles=None)))
    assert refused.value.reference == "root-of-another-kind"
