"""Promise: people make a root, propose, sign, publish, withdraw and look by commands; the gate judges the outcome."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import ApprovalRefused, UsageError
from orchestrator.core.keys import SigningKey
from orchestrator.model.usage import PriceTable
from orchestrator.pipeline.options import LiveRequest, PlanRequest
from orchestrator.pipeline.setup import make_plan
from orchestrator.sources.revision import source_state
from orchestrator.trust.gate.machine import MANIFEST
from orchestrator.trust.manifest import manifest_of
from orchestrator.trust.proposals import read_proposal
from tests.unit.gateway.support import PRICES
from tests.unit.trust.hostile_git import commit, new_repository

ROOT = Path(__file__).resolve().parents[2]
ID = "smoke-one"


def memtrial(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


class People:
    """Key files of everybody, a repository, and this machine's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.repo, self.system = folder, folder / "repo", folder / "system"
        self.keys = folder / "keys"
        self.keys.mkdir(mode=0o700)
        for name in ("o1", "o2", "o3", "a1", "a2", "a3", "c1", "c2", "s1", "l1", "n1", "n2"):
            SigningKey.create(self.keys / name)
        self.first, self.head = new_repository(self.repo, {})
        self.prefix = folder / "prefix"
        self.prefix.mkdir()
        (self.prefix / "supervisor").write_bytes(b"\x7fELF")

    def key(self, name: str) -> str:
        return str(self.keys / name)

    def run(self, *words: str, code: int = 0) -> Any:
        finished = memtrial(*words, "--repository", str(self.repo), "--json")
        assert finished.returncode == code, finished.stdout + finished.stderr
        return json.loads(finished.stdout)

    def init(self, *more: str) -> Any:
        words = ["trust", "init", "--name", "example", "--named", "example/memtrial"]
        for who, names in (
            ("owner", ("o1", "o2", "o3")),
            ("approver", ("a1", "a2", "a3")),
            ("curator", ("c1", "c2")),
            ("supervisor", ("s1",)),
            ("ledger", ("l1",)),
        ):
            for name in names:
                words += [f"--{who}", self.key(name)]
        words += ["--supervisor-uid", str(os.geteuid()), "--supervisor-prefix", str(self.prefix)]
        words += ["--supervisor-state", str(self.folder / "state")]
        return self.run(*words, "--system", str(self.system), *more)

    def manifest(self) -> None:
        made = manifest_of(self.prefix, owner_uid=os.geteuid())
        (self.system / MANIFEST).write_bytes(made.canonical())


@pytest.fixture
def people(clean_folder):
    return People(clean_folder)


def smoke_plan(path: Path) -> None:
    request = PlanRequest(
        agents=("chat",),
        tasks=("depotfeed-returns",),
        conditions=("no_memory",),
        phase="smoke",
        namespace="smoke-one",
        model="model-1",
        live=LiveRequest(
            provider="openai",
            origin="http://127.0.0.1:9",
            prices=PriceTable.parse(PRICES.canonical(), where="prices"),
            max_usd_micros=5_000_000,
        ),
    )
    plan = make_plan(request, lambda _: None, offline=True)
    path.write_bytes(plan.canonical())


def test_from_keys_to_a_judged_approval_by_commands_alone(people, clean_folder):
    made = people.init()
    root = (people.repo / "approvals/tuf/metadata/1.root.json").read_bytes()
    assert made["root_sha256"] == sha256_hex(root)
    people.manifest()
    status = people.run("trust", "status")
    assert (status["kind"], status["root_version"], status["approvals"]) == ("organisation", 1, [])
    assert status["roles"]["approver"]["threshold"] == 2
    path = clean_folder / "plan.json"
    smoke_plan(path)
    system = ("--system", str(people.system))
    bounds = ("--max-input-tokens", "1000000", "--max-output-tokens", "100000")
    proposed = people.run(
        *("approve", "propose", str(path), "--id", ID, "--commit", people.first, *bounds, *system)
    )
    assert any("at most 5.00 USD" in line for line in proposed["allows"])
    one = people.run("approve", "sign", ID, "--key", people.key("a1"))
    assert (len(one["signers"]), one["published"]) == (1, False)
    early = people.run("approve", "sign", ID, "--curator", people.key("c1"), code=5)
    assert early["error"]["reference"] == "threshold-not-met"
    wrong = people.run("approve", "sign", ID, "--key", people.key("c1"), code=5)
    assert wrong["error"]["reference"] == "signer-not-in-role"
    both = people.run(
        "approve", "sign", ID, "--key", people.key("a3"), "--curator", people.key("c2")
    )
    assert (len(both["signers"]), both["published"]) == (2, True)
    commit(people.repo, {})
    report = clean_folder / "report.json"
    judged = memtrial(
        *("gate", str(path), "--approval", ID, "--repository", str(people.repo), *system),
        *("--report", str(report)),
    )
    assert judged.returncode == 5, judged.stdout + judged.stderr
    assert "dispatch_authorized=false" in judged.stdout
    # There is no supervisor here to answer; a clone with changes, or files that are not root's, stop earlier.
    expected = (
        "plan-differs, check 10" if source_state().dirty else "supervisor-unreachable, check 13"
    )
    assert ("check 0" if os.geteuid() else expected) in judged.stderr
    assert json.loads(report.read_bytes())["dispatch_authorized"] is False
    withdrawn = people.run(
        "approve", "withdraw", ID, "--curator", people.key("c1"), "--reason", "a mistake"
    )
    assert withdrawn["left"] == []
    listed = people.run("approve", "status")["approvals"]
    assert [(s["id"], s["published"], s["withdrawn_for"]) for s in listed] == [
        (ID, False, "a mistake")
    ]
    again = people.run("approve", "sign", ID, "--curator", people.key("c2"), code=5)
    assert again["error"]["reference"] == "approval-withdrawn"


def test_owners_rotate_with_two_old_and_two_new_and_not_with_fewer(people):
    people.init()
    new = ("--owner", people.key("n1"), "--owner", people.key("n2"), "--curator", people.key("c1"))
    before = {p: p.read_bytes() for p in people.repo.rglob("*.json")}
    refused = people.run("trust", "rotate", *new, "--old-owner", people.key("o1"), code=5)
    assert refused["error"]["reference"] == "threshold-not-met"
    assert {p: p.read_bytes() for p in people.repo.rglob("*.json")} == before
    old = ("--old-owner", people.key("o1"), "--old-owner", people.key("o2"))
    assert people.run("trust", "rotate", *new, *old)["root_version"] == 2
    status = people.run("trust", "status")
    assert (status["root_version"], len(status["roles"]["owner"]["keyids"])) == (2, 2)


def test_a_second_root_is_not_made_over_the_first(people):
    people.init()
    before = {p: p.read_bytes() for p in people.folder.rglob("*.json")}
    with pytest.raises(AssertionError, match="trust-root-there"):
        people.init()
    assert {p: p.read_bytes() for p in people.folder.rglob("*.json")} == before


def test_a_demonstration_says_so(people):
    people.init("--demonstration")
    assert people.run("trust", "status")["kind"] == "demonstration"


def test_what_is_no_proposal_is_not_signed(people):
    with pytest.raises(UsageError):
        read_proposal(people.repo / "approvals", ID)
    folder = people.repo / "approvals" / "proposals"
    folder.mkdir(parents=True)
    (folder / f"{ID}.json").write_bytes(b'{"a":1}')
    with pytest.raises(ApprovalRefused):
        read_proposal(people.repo / "approvals", ID)
