"""Promise: a document is read from its own canonical bytes alone, and says of a registry or store what holds."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from orchestrator.core.errors import DocumentError
from orchestrator.model.approval import Upstream
from orchestrator.model.bundle import Withheld, WithheldFile
from orchestrator.model.condition import ConditionRegistry
from orchestrator.model.gate import Manifest, ManifestFile
from orchestrator.model.gateway import standing_of
from orchestrator.model.lifecycle import Step, follows
from orchestrator.model.memory import Remembered
from orchestrator.model.review import ReviewLog
from tests.unit.model.sound import FAILURE, SHA, SOUND

WITHHELD = Withheld(files=(WithheldFile(path="a", sha256=SHA),))


def reads(data: bytes, **bounds: int) -> Withheld:
    return Withheld.parse_canonical(data, where="withheld.json", **bounds)


def test_its_own_bytes_are_read_back():
    assert reads(WITHHELD.canonical()) == WITHHELD


@pytest.mark.parametrize(
    ("was", "put", "found"),
    [
        (b",", b", ", "other spacing"),
        (b'"a"', b'"\\u0061"', "other spacing, order or escapes"),
        (b'"path":"a"', b'"path":"a","path":"a"', "other spacing, order or escapes"),
        (b'"a"', b'"\\ud800"', "document-"),
    ],
    ids=["spaces", "escapes", "a name twice", "half a letter"],
)
def test_other_bytes_of_the_same_document_are_refused(was, put, found):
    with pytest.raises(DocumentError) as refused:
        reads(WITHHELD.canonical().replace(was, put, 1))
    assert found in f"{refused.value.reference} {refused.value}"


def test_more_bytes_than_a_document_may_have_are_refused():
    data = WITHHELD.canonical()
    assert reads(data, max_bytes=len(data)) == WITHHELD
    with pytest.raises(DocumentError, match=f"more than {len(data) - 1}"):
        reads(data, max_bytes=len(data) - 1)


def registry(**changes: object) -> ConditionRegistry:
    _, arm = SOUND["arm"]
    fields = {"conditions": [arm], "legacy": [{"id": "old", "use": arm["id"]}], **changes}
    return ConditionRegistry.model_validate_json(json.dumps(fields))


def test_an_old_id_leads_to_a_condition():
    assert registry().legacy[0].use == "c"
    with pytest.raises(ValidationError, match="must lead to conditions, found gone"):
        registry(legacy=[{"id": "old", "use": "gone"}])


def test_an_old_id_is_not_the_id_of_a_condition():
    with pytest.raises(ValidationError, match="condition ids must be unique"):
        registry(legacy=[{"id": "c", "use": "c"}])


def test_the_steps_of_a_memory_come_in_order_and_the_close_once():
    order = list(Step)
    allowed = {(a, b) for a in [None, *order] for b in order if follows(a, b)}
    in_order = set(zip([None, *order[:-1]], order, strict=True))
    assert allowed == in_order | {(step, Step.CLOSE) for step in order[:-1]}


@pytest.mark.parametrize("path", ["../a", "a/../b", "./a", "a/./b", ".."])
def test_a_manifests_path_does_not_leave_its_prefix(path):
    with pytest.raises(ValidationError, match=r"no \. and no \.\. in it"):
        Manifest(files=(ManifestFile(path=path, bytes=1, sha256=SHA),))


@pytest.mark.parametrize(
    ("phase", "origin", "standing"),
    [
        ("local", "https://api.example.org", "directional"),
        ("smoke", "https://api.example.org", "directional"),
        ("official", "https://api.example.org", "official"),
        ("official", "http://127.0.0.1:9", "rehearsal"),
    ],
)
def test_a_run_before_a_fake_provider_is_a_rehearsal_at_most(phase, origin, standing):
    assert standing_of(phase, Upstream(provider="openai", origin=origin)) == standing


CONTEXT = {
    "text": "",
    "text_sha256": SHA,
    "unit": "o200k_base",
    "tokens": 0,
    "included": [],
    "dropped": [],
}
REMEMBERED = {
    "condition_id": "c",
    "adapter": "a",
    "captured_events": 0,
    "store_sha256": None,
    "items": [],
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"failure": FAILURE, "context": CONTEXT}, "broke its contract delivers no context"),
        ({"failure": {**FAILURE, "step": "close"}}, "is no failed delivery"),
    ],
)
def test_a_memory_that_broke_its_contract_before_the_close_delivers_nothing(changes, words):
    assert Remembered.model_validate_json(json.dumps(REMEMBERED)).items == ()
    with pytest.raises(ValidationError, match=words):
        Remembered.model_validate_json(json.dumps({**REMEMBERED, **changes}))


def test_what_a_reviewer_has_not_decided_waits_still():
    of, fields = SOUND["review"]
    log = of.model_validate_json(json.dumps({**fields, "held": 3}))
    assert isinstance(log, ReviewLog)
    assert log.open == 2


def test_a_number_that_canonical_json_cannot_hold_is_refused():
    file = {"path": "a", "bytes": 2**60, "sha256": SHA}
    data = json.dumps({"files": [file], "links": [], "schema_version": 1}).encode()
    with pytest.raises(DocumentError) as refused:
        Manifest.parse_canonical(data, where="manifest.json")
    assert refused.value.reference == "document-not-canonical"
