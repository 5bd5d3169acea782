"""Promise: what the bridges to products do themselves: account, evidence, secrets, freeze; and the stand-in of a model."""

from __future__ import annotations

import importlib
import json
import sys
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.model.lifecycle import CaptureReport, Description, Ranked, StoreDump
from orchestrator.testing import histories

OURS = ("bridge", "standin", "lookups", "mem0_bridge", "langmem_bridge", "mcp_bridge")


@pytest.fixture
def room(monkeypatch, tmp_path):
    """The bridges' modules, loaded as in their container, with a product that keeps what it is told."""
    monkeypatch.syspath_prepend(str(fixtures_root() / "products"))
    found = SimpleNamespace(**{name: importlib.import_module(name) for name in OURS})
    monkeypatch.setattr(found.bridge, "STORE", tmp_path / "store.json")

    class Parrot(found.bridge.Bridge):  # type: ignore[name-defined, misc]
        name, version, degraded = "parrot", "1", ("repeats",)

        def start(self):
            self.kept, self.heard = {}, []

        def tell(self, scope, session_id, exchange):
            self.heard += [text for _, _, text in exchange]
            new = {f"{scope}:{text}": text for _, role, text in exchange if role != "tool"}
            self.kept |= new
            return new

        def held(self):
            return dict(self.kept)

        def find(self, scope, prompt, k):
            return [(key, 1.0) for key in self.kept if key.startswith(f"{scope}:")][:k]

    found.parrot = Parrot("")
    yield found
    for name in OURS:
        sys.modules.pop(name, None)


def lived(room, sessions=None):
    room.parrot.open({"gateway": None, "budget": None, "seed": 1})
    reports = [
        room.parrot.ingest({"session": s.model_dump(mode="json"), "now": s.started_at})
        for s in (sessions or histories.ordinary())
    ]
    room.parrot.settle({"deadline_s": 5})
    return room.parrot, reports


def whole(kind, value):
    return kind.parse(json.dumps(value).encode(), where=kind.__name__)


def test_every_event_is_accounted_for_and_no_secret_is_told(room):
    parrot, reports = lived(room)
    for session, report in zip(histories.ordinary(), reports, strict=True):
        told = whole(CaptureReport, report)
        assert [e.event_id for e in told.events] == [e.event_id for e in session.events]
    dropped = [e for r in reports for e in r["events"] if e["outcome"] == "dropped"]
    assert [(e["event_id"], e["reason"]) for e in dropped] == [("s07-e03", "empty")]
    assert not any(histories.SECRET in text for text in parrot.heard)
    assert any("[redacted]" in text for text in parrot.kept)


def test_a_secret_in_the_command_of_a_tool_is_redacted_and_counted(room):
    parrot, reports = lived(room)
    assert "[bash] PUSH_AS=[redacted] make test (exit 1)" in "".join(parrot.heard)
    typed = next(e for e in reports[0]["events"] if e["event_id"] == "s05-e03")
    assert (typed["outcome"], typed["redactions"]) == ("captured", 1)


def test_a_memory_rests_on_the_exchange_in_which_it_appeared(room):
    parrot, _ = lived(room)
    dump = whole(StoreDump, parrot.dump({}))
    by_text = {memory.text: memory.evidence_event_ids for memory in dump.memories}
    kept = next(text for text in by_text if "never trimmed" in text)
    # Said in two sessions: it rests on both exchanges.
    assert {"s05-e01", "s07-e01"} <= set(by_text[kept])
    assert not any(event.startswith("s06") for event in by_text[kept])


@pytest.fixture
def graph(room, monkeypatch):
    """The bridge to server-memory over a server that keeps what it is sent."""
    sent: dict[str, str] = {}

    def tool(_, name, arguments):
        if name == "create_entities":
            sent.update({e["name"]: e["observations"][0] for e in arguments["entities"]})
        return {"entities": [{"name": n, "observations": [t]} for n, t in sent.items()]}

    monkeypatch.setattr(room.mcp_bridge.ServerMemory, "start", lambda self: setattr(self, "events", {}))  # fmt: skip
    monkeypatch.setattr(room.mcp_bridge.ServerMemory, "_tool", tool)
    room.parrot, room.sent = room.mcp_bridge.make(""), sent
    return room


def test_an_event_that_server_memory_is_not_told_of_is_dropped_with_a_reason(graph):
    _, reports = lived(graph)
    taken = {e["event_id"] for r in reports for e in r["events"] if e["outcome"] == "captured"}
    assert taken == {name.partition("/")[2] for name in graph.sent}
    tools = {e.event_id for s in histories.ordinary() for e in s.events if e.role == "tool"}
    dropped = {e["event_id"]: e["reason"] for r in reports for e in r["events"] if e["outcome"] == "dropped"}  # fmt: skip
    assert tools
    assert {dropped[event] for event in tools} == {"the product is not told what a tool says"}


def test_an_entity_of_server_memory_rests_on_the_event_that_it_was_written_from(graph):
    bridge, _ = lived(graph)
    names = {memory_id: name for name, memory_id in bridge.ids.items()}
    dump = whole(StoreDump, bridge.dump({}))
    assert dump.memories
    for memory in dump.memories:
        event = names[memory.memory_id].partition("/")[2]
        assert memory.evidence_event_ids == (event,)


def test_where_server_memory_cuts_a_message_is_declared(graph):
    lived(graph, histories.huge())
    (longest,) = {len(text) for text in graph.sent.values() if len(text) > 1000}
    assert any(f"cut at {longest:} characters" in mode for mode in graph.parrot.degraded)


def test_what_server_memory_is_not_told_of_a_long_message_is_reported_with_its_event(graph):
    _, reports = lived(graph, histories.huge())
    said = {e.event_id: e.text for s in histories.huge() for e in s.events}
    told = {e.event_id: e for r in reports for e in whole(CaptureReport, r).events}
    sent = {name.partition("/")[2]: text for name, text in graph.sent.items()}
    cut = {name: len(" ".join(said[name].split())) - len(sent[name]) for name in sent}
    assert max(cut.values()) > 1000
    assert {name: told[name].cut_characters for name in sent} == cut


def test_what_the_stand_in_keeps_of_a_message_is_what_it_declares(room):
    stand_in, declared = room.standin.StandIn(), room.bridge.NO_MODEL
    short, long = "two words", "many  words " * 100
    stand_in.said = [short, long, f"{short} more"]
    asked = {"messages": [{"role": "user", "content": "\n".join(stand_in.said)}]}
    answer = stand_in.chat(asked)["choices"][0]["message"]["content"]
    kept = [memory["text"] for memory in json.loads(answer)["memory"]]
    assert kept == [("many words " * 100)[:500], "two words more"]
    assert "3 words or more" in declared
    assert "cut at 500 characters" in declared


def test_answers_name_the_stored_text_and_the_degraded_modes(room):
    parrot, _ = lived(room)
    asked = {"scope": "project", "prompt": "label", "k": 2}
    ranked = whole(Ranked, parrot.retrieve({"query": asked, "query_sha256": "0" * 64}))
    texts = {m["memory_id"]: m["text"] for m in parrot.dump({})["memories"]}
    assert len(ranked.items) == 2
    assert all(texts[item.memory_id] == item.text for item in ranked.items)
    assert ranked.degraded == ("repeats", room.bridge.NO_MODEL, room.bridge.NO_EMBEDDING)


def test_nothing_is_told_before_the_queue_is_drained(room):
    room.parrot.open({"gateway": None, "budget": None, "seed": 1})
    session = histories.single()[0].model_dump(mode="json")
    room.parrot.ingest({"session": session, "now": "x"})
    assert not room.parrot.started
    assert room.parrot.dump({})["memories"] == []
    room.parrot.settle({"deadline_s": 5})
    assert len(room.parrot.dump({})["memories"]) == 1


def test_after_the_freeze_nothing_is_told(room):
    parrot, _ = lived(room)
    parrot.freeze({})
    with pytest.raises(RuntimeError, match="frozen"):
        parrot.ingest({"session": histories.single()[0].model_dump(mode="json"), "now": "x"})
    assert json.loads(room.bridge.STORE.read_text()) == parrot.dump({})


def test_a_bridge_describes_itself_without_its_product(room):
    for module, variant in (("mem0_bridge", "user_scope"), ("langmem_bridge", ""), ("mcp_bridge", "")):  # fmt: skip
        told = whole(Description, getattr(room, module).make(variant).describe({}))
        assert told.degraded
        assert not told.capabilities.timestamps
    with pytest.raises(ValueError, match="user_scope or session_scope"):
        room.mem0_bridge.make("")


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    asked = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(asked, timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def test_the_stand_in_keeps_only_what_the_prompt_holds(room):
    stand_in = room.standin.StandIn()
    stand_in.said = ["labels stay as they are", "nobody said this to it", "too short"]
    messages = [{"role": "user", "content": "user: labels stay as they are\nuser: too short"}]
    said = post(f"{stand_in.base_url}/chat/completions", {"model": "m", "messages": messages})
    content = json.loads(said["choices"][0]["message"]["content"])
    assert [memory["text"] for memory in content["memory"]] == ["labels stay as they are"]
    tools = {"model": "m", "messages": messages, "tools": [{"type": "function"}]}
    (call,) = post(f"{stand_in.base_url}/chat/completions", tools)["choices"][0]["message"]["tool_calls"]  # fmt: skip
    assert json.loads(call["function"]["arguments"]) == {"content": "labels stay as they are"}


def test_vectors_of_the_stand_in_are_near_for_texts_that_share_words(room):
    one, near, far = map(room.standin.vector, ("a label of a return", "the return label", "queue"))
    assert sum(a * b for a, b in zip(one, near, strict=True)) > 0.3
    assert abs(sum(a * b for a, b in zip(one, far, strict=True))) < 0.3
