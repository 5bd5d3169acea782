"""Promise: what went through is written down once, whole, chained, small, and without credentials."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.gateway.bodies import BodyPack, cut
from orchestrator.gateway.record import Recorder
from orchestrator.gateway.secrets import Secrets
from orchestrator.model.exchange import Exchange
from tests.unit.gateway.support import chat, post


@given(st.binary(max_size=6000) | st.lists(st.just(b"{a},{b}\n\n"), max_size=900).map(b"".join))
@settings(max_examples=200, deadline=None)
def test_pieces_put_together_are_the_bytes(data):
    pieces = cut(data)
    assert b"".join(pieces) == data
    assert all(len(piece) >= 1024 for piece in pieces[:-1])


def test_what_two_requests_share_is_stored_once(tmp_path):
    """A conversation of 40 turns, sent whole each time, as agents do; the tools come after it."""
    pack = BodyPack(tmp_path / "pack", write=True)
    tools = [{"name": f"tool-{n}", "schema": f"{n}" * 700} for n in range(12)]
    turns = [{"role": "user", "content": f"{n}: " + f"{n * 7919}" * 300} for n in range(40)]
    sent, bodies = 0, []
    for n in range(1, 41):
        data = json.dumps({"messages": turns[:n], "tools": tools}).encode()
        sent += len(data)
        bodies.append((pack.put(data), data))
    pack.flush()
    distinct = len({name for body, _ in bodies for name in body.pieces})
    assert distinct < 40 + 12 + 40
    assert (tmp_path / "pack").stat().st_size < sent / 40
    assert all(pack.get(body) == data for body, data in bodies)
    pack.close()


def test_a_pack_goes_on_after_a_torn_write_and_refuses_changed_bytes(tmp_path):
    path = tmp_path / "pack"
    pack = BodyPack(path, write=True)
    body = pack.put(b"x" * 3000)
    pack.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b"torn")
    pack = BodyPack(path, write=True)
    assert pack.get(body) == b"x" * 3000
    more = pack.put(b"y" * 3000)
    pack.close()
    assert path.read_bytes().startswith(whole)
    pack = BodyPack(path, write=False)
    assert pack.get(more) == b"y" * 3000
    pack.close()
    path.write_bytes(whole[:-2] + b"\0\0")
    pack = BodyPack(path, write=False)
    with pytest.raises(IntegrityError):
        pack.get(body)
    pack.close()


def test_the_record_shows_each_call_whole(live):
    opened = live.open()
    body = chat(stream=True)
    status, answer = post(opened, "/v1/messages", body, headers={"anthropic-beta": "one,two"})
    live.close_trial()
    (exchange,) = live.exchanges()
    pack = BodyPack(live.folder / "bodies.pack", write=False)
    assert json.loads(pack.get(exchange.request)) == body
    assert pack.get(exchange.response) == answer
    pack.close()
    headers = {h.name: h.value for h in exchange.request_headers}
    assert headers["anthropic-beta"] == "one,two"
    assert headers["authorization"] == "redacted"
    assert (exchange.status, exchange.served_model, exchange.mode) == (status, "model-1", "live")
    assert (exchange.ordinal, exchange.attempt, exchange.role) == (0, 1, "agent")


def test_roles_are_counted_apart(scripted):
    opened = scripted.open()
    for role, times in (("agent", 2), ("memory", 1), ("judge", 3)):
        for _ in range(times):
            post(opened, "/v1/chat/completions", chat(), token=opened.token(role))
    traffic = scripted.close_trial()
    assert {r.role: r.calls for r in traffic.roles} == {"agent": 2, "memory": 1, "judge": 3}
    assert [e.ordinal for e in scripted.exchanges()] == [0, 1, 0, 0, 1, 2]


def test_another_model_in_the_middle_of_a_run_is_flagged_by_arm(live):
    first = live.open("a/none/chat/e1", condition="none")
    other = live.open("a/curated/chat/e1", condition="curated")
    for opened, model in (
        (first, "m-0901"),
        (other, "m-0901"),
        (first, "m-1001"),
        (first, "m-1001"),
    ):
        post(opened, "/v1/chat/completions", chat(), headers={"x-fake": f"model:{model}"})
    changes = live.close_trial("a/none/chat/e1").served_changes
    assert [(c.arm, c.before, c.after) for c in changes] == [("none", "m-0901", "m-1001")]
    assert live.close_trial("a/curated/chat/e1").served_changes == ()


def test_a_look_up_is_a_finding(scripted):
    opened = scripted.open()
    assert post(opened, "/-/lookup", b"telemetry.example.org")[0] == 204
    assert scripted.close_trial().lookups == ("telemetry.example.org",)


def test_a_folder_has_one_gateway_at_a_time(tmp_path):
    one = Recorder(tmp_path, Secrets())
    with pytest.raises(UsageError, match="no gateway holds"):
        Recorder(tmp_path, Secrets())
    one.close()
    Recorder(tmp_path, Secrets()).close()


def test_without_bodies_only_their_digests_are_kept(tmp_path):
    recorder = Recorder(tmp_path, Secrets(), bodies=False)
    assert recorder.keep(b"text").pieces == ()
    assert recorder.keep(b"text").bytes == 4
    recorder.close()


def test_a_pack_of_more_pieces_than_memory_should_hold_is_refused(tmp_path, monkeypatch):
    pack = BodyPack(tmp_path / "bodies.pack", write=True)
    for number in range(4):
        pack.put(b"piece %d" % number)
    pack.close()
    monkeypatch.setattr("orchestrator.gateway.bodies.MAX_PIECES", 3)
    with pytest.raises(IntegrityError, match="more than 3 pieces"):
        BodyPack(tmp_path / "bodies.pack", write=False)


@pytest.mark.parametrize(("name", "bound"), [("MAX_PIECES", 3), ("MAX_BODY_BYTES", 10)])
def test_a_body_that_no_reader_would_take_is_kept_by_its_digest_and_the_pack_stays_whole(
    tmp_path, monkeypatch, name, bound
):
    monkeypatch.setattr(f"orchestrator.gateway.bodies.{name}", bound)
    pack = BodyPack(tmp_path / "bodies.pack", write=True)
    kept = [pack.put(b"piece %d" % number) for number in range(3)]
    beyond = pack.put(b"longer piece 4")
    assert pack.put(b"piece 1") == kept[1]
    pack.close()
    assert (beyond.pieces, beyond.bytes) == ((), 14)
    read = BodyPack(tmp_path / "bodies.pack", write=False)
    assert [read.get(body) for body in kept] == [b"piece 0", b"piece 1", b"piece 2"]
    read.close()


def test_the_book_is_never_behind_the_record_however_the_process_dies(live, monkeypatch):
    """At the moment at which a call is recorded, its settlement is with the operating system."""
    found: list[bytes] = []
    write = Recorder.write

    def look(recorder: Recorder, body: Exchange) -> str:
        found.append((live.folder / "spend.jsonl").read_bytes())
        return write(recorder, body)

    monkeypatch.setattr(Recorder, "write", look)
    post(live.open(), "/v1/chat/completions", chat())
    live.close_trial()
    (book,) = found
    assert b'"kind":"settled"' in book
