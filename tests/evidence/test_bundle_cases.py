"""Promise: each way to make a bundle lie is refused by the check that is there for it, by name."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from orchestrator.attest import layout
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import MemoryView
from orchestrator.core.merkle import MerkleTree, leaf_hash
from orchestrator.core.notes import Checkpoint, sign_checkpoint
from orchestrator.model.bundle import TrustedKey, TrustedKeys
from tests.evidence.case_operations import RECORD_CHANGES, operate, replan
from tests.evidence.conftest import NOW, Sealed
from tests.evidence.tamper import Files, reseal_list, rewrite_record
from tests.recorded import files_of

CASES = sorted((Path(__file__).resolve().parents[1] / "cases" / "bundles").glob("*_refused"))
# Checks that cannot say no yet: there is nothing that could be wrong.
SILENT = {"claims"}


def trust_of(told: dict[str, Any], sealed: Sealed) -> Trust:
    keys = None
    if "valid" in told:
        keys = TrustedKeys(
            keys=(
                TrustedKey(
                    keyid=sealed.keyid,
                    public_key=base64.b64encode(sealed.key.public.raw).decode(),
                    valid_from=told["valid"][0],
                    valid_until=told["valid"][1],
                ),
            )
        )
    remembered = ((("kept", kept(told["remembered"], sealed)),)) if "remembered" in told else ()
    return Trust(
        now=told.get("now", NOW),
        keyid=told.get("keyid", sealed.keyid),
        keys=keys,
        remembered=remembered,
    )


def kept(kind: str, sealed: Sealed) -> bytes:
    lines = sealed.files[layout.LEDGER].splitlines()
    origin = f"memtrial.local/{sealed.folder.name}"
    if kind == "longer":
        lines = [*lines, b"a record that was there when the checkpoint was published"]
    elif kind == "forked":
        lines = [b"another first record", *lines[1:]]
    else:
        origin = "memtrial.local/another-run"
    tree = MerkleTree(leaf_hash(line) for line in lines)
    return sign_checkpoint(Checkpoint(origin, tree.size, tree.root()), sealed.key)


def changed_files(case: dict[str, Any], sealed: Sealed, folder: Path) -> Files:
    if case["seal"] != "record":
        files = dict(sealed.files)
        for operation in case["operations"]:
            files = operate(files, operation, sealed.key)
        return reseal_list(files, sealed.key) if case["seal"] == "list" else files
    shutil.copytree(sealed.folder, folder)
    (operation,) = case["operations"]
    change = (
        replan(folder, operation["change"])
        if operation["op"] == "plan"
        else RECORD_CHANGES[operation["change"]]
    )
    rewrite_record(folder, change, sealed.key)
    return files_of(folder)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_a_case_is_refused_by_its_check(path, request, tmp_path):
    case = json.loads((path / "case.json").read_bytes())
    sealed = request.getfixturevalue(case.get("bundle", "eight"))
    files = changed_files(case, sealed, tmp_path / "copy")
    answer = verify_bundle(MemoryView(files), trust_of(case["trust"], sealed), name=path.name)
    found = {(check.name, check.reference) for check in answer.failed}
    assert (case["expect"]["check"], case["expect"]["reference"]) in found, answer.failed
    assert answer.exit_code == case["expect"]["exit_code"]
    assert answer.standing == "refused"
    assert all(check.hint for check in answer.failed)


def test_every_case_says_why_and_every_check_has_one(eight):
    checks = {
        check.name for check in verify_bundle(MemoryView(eight.files), eight.trust, name="x").checks
    }
    cases = [json.loads((path / "case.json").read_bytes()) for path in CASES]
    assert {case["expect"]["check"] for case in cases} == checks - SILENT
    assert all((path / "README.md").read_text(encoding="utf-8").strip() for path in CASES)
