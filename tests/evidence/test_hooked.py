"""Promise: a product on hooks, which shows nothing but what it says, cannot be given other words or another store."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.keys import SigningKey
from orchestrator.model.lifecycle import Description
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.seal import Signer
from tests.evidence.conftest import Sealed
from tests.evidence.insider_operations import (
    Change,
    document,
    drop_artifacts,
    edited,
    keep,
    put,
    rebind,
    stage_of,
    trials_of,
)
from tests.evidence.tamper import rewrite_record
from tests.recorded import files_of, record_run, seal
from tests.unit.testing import planted

ROOT = Path(__file__).resolve().parents[2]
ARM = "veto_notes_e2e"


class OnHooks(planted.Sound):
    """Stands in the place of the example's product: nothing of its life is seen but what it says."""

    name = "veto_notes"

    def describe(self) -> Description:
        return super().describe().model_copy(update={"shows": ()})


@pytest.fixture(scope="module")
def hooked(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        registry = ROOT / "docs/how-to/hooks-example/conditions.json"
        patch.setenv("MEMTRIAL_CONDITIONS", str(registry))
        request = PlanRequest(
            agents=("follower",), tasks=("depotfeed-returns",), conditions=("no_memory", ARM)
        )
        results = tmp_path_factory.mktemp("hooked")
        folder = record_run(results, request, adapters={ARM: OnHooks})
        key = SigningKey.generate()
        seal(folder, Signer(key, "operator"))
        yield Sealed(folder, files_of(folder), key)


def verified(hooked, folder):
    return verify_bundle(FolderView(folder), hooked.trust, name="hooked")


def test_its_run_verifies_and_what_it_ranked_is_told_as_own_word(hooked):
    answer = verified(hooked, hooked.folder)
    assert answer.exit_code == 0, answer.failed
    stages = next(check for check in answer.checks if check.name == "stages")
    assert "what memory systems ranked" in stages.detail
    memory = next(check for check in answer.checks if check.name == "memory")
    assert (memory.count, memory.detail) == (1, "1 verified")


def other_store(entries, blobs) -> None:
    keep(blobs, stage_of(entries, trials_of(entries, ARM)[0], "remember"), "store.tar", b"other")


def other_words(entries, blobs) -> None:
    """The product is said to have said more than it ranked."""
    trial = trials_of(entries, ARM)[0]
    body = stage_of(entries, trial, "remember")
    value = document(blobs, body)
    text = value["context"]["text"] + "  and a hint\n"
    value["context"] |= {"text": text, "text_sha256": sha256_hex(text.encode())}
    put(blobs, body, value)
    keep(blobs, body, "context", canonical_bytes(value["context"]))
    for step in value["steps"]:
        if step["step"] == "compile":
            step["answer_sha256"] = sha256_hex(canonical_bytes(value["context"]))
    rebind(entries, blobs, trial)


def trust_it(entries, blobs) -> None:
    """The product is said to have shown its store."""
    body = stage_of(entries, trials_of(entries, ARM)[0], "remember")
    kept = next(a["sha256"] for a in body["artifacts"] if a["name"] == "description")
    shown = json.loads(blobs.get(kept)) | {"shows": ["store"]}
    keep(blobs, body, "description", canonical_bytes(shown))


CHANGES: dict[str, Change] = {
    "fewer events": edited(ARM, "remember", captured_events=0),
    "another store": other_store,
    "no store": drop_artifacts("store.tar"),
    "other words": other_words,
    "a store that is shown": trust_it,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_nobody_with_the_key_gives_it_other_words_or_another_store(hooked, tmp_path, change):
    folder = tmp_path / "copy"
    shutil.copytree(hooked.folder, folder)
    rewrite_record(folder, change, hooked.key)
    answer = verified(hooked, folder)
    assert ("stages", "stages-mixed-up") in {(c.name, c.reference) for c in answer.failed}
