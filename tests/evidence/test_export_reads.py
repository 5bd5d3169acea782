"""Promise: an export looks for secrets in all that a reader could make of the files, packed or encoded."""

from __future__ import annotations

import gzip
import json
import shutil

import pytest

from orchestrator.attest import layout
from orchestrator.attest.dsse import sign_payload
from orchestrator.audit.export import Choices, export_run
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import MemoryView
from orchestrator.core.errors import Negative
from orchestrator.gateway.accounts import BODIES_FILE, TRAFFIC_FILE
from orchestrator.gateway.bodies import BodyPack
from tests.evidence.spending_operations import chained, packed
from tests.evidence.tamper import Files, reseal_list
from tests.evidence.test_export import PLANTED

# Put together here, so that no scanner takes this file for a leak.
TOKEN = "ghp_" + "A1b2C3d4e5" * 4
VALUE = "plain words as a secret value"


@pytest.fixture
def export(chatting, tmp_path):
    """Exports a bundle with these files changed, sealed by whoever holds the key."""
    folder = tmp_path / chatting.folder.name

    def run(changed: Files, **choices):
        shutil.rmtree(folder, ignore_errors=True)
        for name, data in reseal_list({**chatting.files, **changed}, chatting.key).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        out = tmp_path / "out.tar"
        out.unlink(missing_ok=True)
        accept = PLANTED | choices.pop("accept", frozenset())
        return export_run(folder, out, Choices(accept=accept, **choices), chatting.trust)

    return run


def with_request(chatting, tmp_path, data: bytes, coding: str = "") -> Files:
    """The record with another first request; whoever seals it need not make its costs fit."""
    path = tmp_path / "pack"
    path.write_bytes(chatting.files[BODIES_FILE])
    pack = BodyPack(path, write=True)
    body = pack.put(data)
    pack.close()

    def change(lines):
        lines[0]["body"]["request"] = json.loads(body.canonical())
        if coding:
            header = {"name": "content-encoding", "value": coding}
            lines[0]["body"]["request_headers"].append(header)

    return {
        BODIES_FILE: path.read_bytes(),
        TRAFFIC_FILE: chained(chatting.files[TRAFFIC_FILE], change),
    }


def refused(export, changed: Files, **choices) -> str:
    with pytest.raises(Negative) as caught:
        export(changed, **choices)
    assert caught.value.reference == "secrets-found"
    assert TOKEN not in caught.value.message
    return str(caught.value.message)


def test_bodies_of_model_calls_without_a_secret_are_exported(export, chatting):
    assert export({}).files == len(chatting.files)


def test_a_secret_in_a_body_of_a_model_call_stops_the_export(export, chatting, tmp_path):
    changed = with_request(chatting, tmp_path, json.dumps({"text": f"token {TOKEN}"}).encode())
    assert TOKEN.encode() not in changed[BODIES_FILE]
    said = refused(export, changed)
    assert f"{BODIES_FILE}/" in said
    export(changed, accept=frozenset({BODIES_FILE}))


def test_the_value_of_a_secret_variable_is_found_there_and_never_accepted(
    export, chatting, tmp_path
):
    changed = with_request(chatting, tmp_path, (VALUE + " and more. " * 20).encode())
    export(changed)
    known = frozenset({VALUE.encode()})
    refused(export, changed, known_secrets=known, accept=frozenset({BODIES_FILE}))


def test_a_secret_that_the_end_of_a_piece_cuts_in_two_is_found(export, chatting, tmp_path):
    value = 'user"},\n{"password'
    text = b"x" * 2000 + value.encode() + b"y" * 2000
    changed = with_request(chatting, tmp_path, text)
    export(changed)
    refused(export, changed, known_secrets=frozenset({value.encode()}))


def test_a_secret_in_a_compressed_request_is_found(export, chatting, tmp_path):
    data = gzip.compress(json.dumps({"text": f"token {TOKEN}"}).encode())
    assert f"{BODIES_FILE}/" in refused(export, with_request(chatting, tmp_path, data, "gzip"))


def test_a_secret_in_a_piece_that_no_call_names_is_found(export, chatting):
    changed = {BODIES_FILE: chatting.files[BODIES_FILE] + packed(f"token {TOKEN}".encode())}
    refused(export, changed)
    answer = verify_bundle(
        MemoryView(reseal_list({**chatting.files, **changed}, chatting.key)),
        chatting.trust,
        name="x",
    )
    assert [check.reference for check in answer.failed] == ["spending-mixed-up"]


def test_a_secret_in_the_payload_of_an_envelope_is_found(export, chatting):
    envelope = sign_payload(json.dumps({"note": f"token {TOKEN}"}).encode(), chatting.key)
    assert layout.APPROVAL in refused(export, {layout.APPROVAL: envelope})


def test_a_run_that_was_interrupted_may_have_pieces_of_no_recorded_call_and_says_so(
    chatting, tmp_path
):
    """A process that died between a body and its line leaves pieces behind, and the ledger says that it died."""
    from orchestrator.audit.trust import Trust
    from orchestrator.audit.view import FolderView
    from tests.evidence.conftest import NOW
    from tests.evidence.tamper import rewrite_record

    folder = tmp_path / "run"
    shutil.copytree(chatting.folder, folder)
    with (folder / BODIES_FILE).open("ab") as pack:
        pack.write(packed(b"a request whose answer never came"))

    def resumed(entries, _blobs):
        entries.insert(1, {**entries[0], "body": {"kind": "run_resumed", "torn_tail_bytes": 0}})

    rewrite_record(folder, resumed, chatting.key)
    answer = verify_bundle(FolderView(folder), Trust(now=NOW, keyid=chatting.keyid), name="resumed")
    check = next(check for check in answer.checks if check.name == "spending")
    assert (check.status, check.detail) == (
        "partly",
        "6 lines of traffic; 1 piece of bodies of no recorded call",
    )
