"""Promise: with the right key id no change of a bundle passes, however small, whoever signs it anew."""

from __future__ import annotations

import random
import shutil

import pytest

from orchestrator.attest import layout
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView, MemoryView
from orchestrator.core.keys import SigningKey
from orchestrator.gateway.accounts import SPEND_FILE, TRAFFIC_FILE
from orchestrator.pipeline.seal import Signer
from tests.evidence.conftest import NOW
from tests.evidence.tamper import KINDS, mutate, reseal_list
from tests.recorded import files_of, seal

RANDOM_MUTATIONS = 5_000
INSIDER_MUTATIONS = 100
# The signer's own word, which nothing else in a bundle can contradict.
SIGNERS_WORD = {layout.CARD, layout.SUMS, layout.SEAL, layout.KEY}


def passes(files: dict[str, bytes], trust: Trust) -> bool:
    return verify_bundle(MemoryView(files), trust, name="mutant").exit_code == 0


def test_the_untouched_bundle_passes(eight):
    answer = verify_bundle(MemoryView(eight.files), eight.trust, name="eight")
    assert answer.failed == ()
    assert (answer.standing, answer.exit_code) == ("authentic", 0)


def test_none_of_five_thousand_random_changes_passes(eight):
    rng = random.Random(20261130)
    missed = []
    for _ in range(RANDOM_MUTATIONS):
        changed, what = mutate(eight.files, rng)
        if passes(changed, eight.trust):
            missed.append(what)
    assert missed == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_change_passes_on_any_file(eight, kind):
    rng = random.Random(kind)
    missed = []
    for name in sorted(eight.files):
        changed = KINDS[kind](dict(eight.files), name, rng)
        if changed != eight.files and passes(changed, eight.trust):
            missed.append(name)
    assert missed == []


def test_signing_everything_again_with_another_key_does_not_pass(eight, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(eight.folder, folder)
    for name in ("checkpoint", "keys/ledger.pub.pem"):
        (folder / name).unlink()
    seal(folder, Signer(SigningKey.generate(), "operator"))
    files = files_of(folder)
    assert passes(files, Trust(now=NOW)), "the forgery has to be perfect but for its key"
    answer = verify_bundle(MemoryView(files), eight.trust, name="forged")
    assert answer.exit_code == 1
    assert [check.reference for check in answer.failed] == ["key-not-trusted"]


def test_an_insider_who_seals_a_changed_file_again_is_seen_by_what_is_recomputed(eight):
    rng = random.Random(8)
    covered = {n: d for n, d in eight.files.items() if n not in SIGNERS_WORD}
    rest = {n: d for n, d in eight.files.items() if n in SIGNERS_WORD}
    missed = []
    for _ in range(INSIDER_MUTATIONS):
        changed, what = mutate(covered, rng)
        added = what.startswith(("copy", "add beside"))
        if not added and passes(reseal_list({**changed, **rest}, eight.key), eight.trust):
            missed.append(what)
    assert missed == []


def test_an_insider_who_changes_what_models_cost_is_seen_by_what_is_recomputed(chatting):
    rng = random.Random(9)
    books = {n: d for n, d in chatting.files.items() if n in {SPEND_FILE, TRAFFIC_FILE}}
    rest = {n: d for n, d in chatting.files.items() if n not in books}
    missed = []
    for _ in range(INSIDER_MUTATIONS):
        changed, what = mutate(books, rng)
        added = what.startswith(("copy", "add beside"))
        files = reseal_list({**rest, **changed}, chatting.key)
        if not added and passes(files, chatting.trust):
            missed.append(what)
    assert missed == []


def test_without_the_seal_check_the_same_changes_would_pass(eight):
    # The mutation tests must be able to fail: a file that only the list covers is such a case.
    changed = {**eight.files, "notes.txt": b"what nothing recomputes"}
    assert not passes(changed, eight.trust)
    assert passes(reseal_list(changed, eight.key), eight.trust)


def test_it_verifies_on_another_path_and_for_a_reader_who_may_not_write(eight, tmp_path):
    folder = tmp_path / "elsewhere" / "renamed"
    shutil.copytree(eight.folder, folder)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o555)
    before = files_of(folder)
    assert verify_bundle(FolderView(folder), eight.trust, name="copy").exit_code == 0
    assert files_of(folder) == before
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)
