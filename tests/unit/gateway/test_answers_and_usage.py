"""Promise: usage is read off every answer however it is cut into pieces, and a doubtful one is not believed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.gateway.answers import Said, as_events, as_json
from orchestrator.gateway.reading import AnswerReader
from orchestrator.gateway.sse import EventReader
from orchestrator.model.script import ScriptedCall, ScriptedTurn
from orchestrator.model.usage import Usage

LIMIT = 1_000_000
COUNTS = st.integers(0, 10**9)
APIS = ("messages", "responses", "chat")
TURN = ScriptedTurn(
    text="Grüße\n\ndata: not an event", calls=(ScriptedCall(name="t", arguments='{"a":"\\n\\n"}'),)
)


def read(api, data: bytes, *, events: bool, cuts=(10**9,)):
    reader, at = AnswerReader(api, events=events, max_bytes=LIMIT), 0
    while at < len(data):
        size = cuts[at % len(cuts)]
        reader.feed(data[at : at + size])
        at += size
    return reader.reading()


@pytest.mark.parametrize("api", APIS)
@given(
    input_=COUNTS,
    read_=COUNTS,
    output=COUNTS,
    cuts=st.lists(st.integers(1, 200), min_size=1, max_size=8),
)
@settings(max_examples=60, deadline=None)
def test_usage_survives_any_cutting(api, input_, read_, output, cuts):
    usage = Usage(input=input_, cache_read=read_, output=output)
    said = Said(TURN, 3, "m-2026", usage, with_usage=True)
    for data, events in ((as_json(api, said), False), (b"".join(as_events(api, said)), True)):
        found = read(api, data, events=events, cuts=cuts)
        assert (found.usage, found.model) == (usage, "m-2026")


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@given(cuts=st.lists(st.integers(1, 30), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_events_are_the_same_with_every_line_ending(ending, cuts):
    text = b"event: a\ndata: 1\ndata: 2\n\n: comment\n\ndata:3\n\nevent: lost\n\n".replace(
        b"\n", ending
    )
    reader, found, at = EventReader(), [], 0
    while at < len(text):
        size = cuts[at % len(cuts)]
        found += list(reader.feed(text[at : at + size]))
        at += size
    assert found == [(b"a", b"1\n2"), (b"", b"3")]


def test_the_seconds_of_a_cache_are_told_apart():
    usage = {
        "input_tokens": 1,
        "cache_creation_input_tokens": 10,
        "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 6},
        "cache_read_input_tokens": 3,
        "output_tokens": 2,
    }
    found = read("messages", json.dumps({"model": "m", "usage": usage}).encode(), events=False)
    assert found.usage == Usage(input=1, cache_read=3, cache_write=4, cache_write_1h=6, output=2)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -1, "completion_tokens": 1},
        {"prompt_tokens": 1.5, "completion_tokens": 1},
        {"prompt_tokens": True, "completion_tokens": 1},
        {"prompt_tokens": "7", "completion_tokens": 1},
        {"prompt_tokens": 10**15, "completion_tokens": 1},
        {"prompt_tokens": 5},
        {"completion_tokens": 5},
        {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 6}},
        None,
        [],
        "many",
    ],
    ids=json.dumps,
)
def test_an_impossible_usage_counts_as_not_reported(usage):
    assert read("chat", json.dumps({"usage": usage}).encode(), events=False).usage is None


@pytest.mark.parametrize("api", APIS)
def test_a_stream_without_its_last_event_has_no_usage(api):
    said = Said(TURN, 0, "m", Usage(input=5, output=5), with_usage=True)
    events = list(as_events(api, said))
    last = {"messages": -2, "responses": -1, "chat": -2}[api]
    assert read(api, b"".join(events[:last]), events=True).usage is None
    assert read(api, b"".join(events), events=True).usage is not None


@given(
    data=st.binary(max_size=2000), api=st.sampled_from((*APIS, "embeddings")), events=st.booleans()
)
@settings(max_examples=300, deadline=None)
def test_no_answer_breaks_the_reader(data, api, events):
    assert read(api, data, events=events, cuts=(7, 64)).usage is None or b"usage" in data


def test_an_event_without_end_is_not_kept():
    reader = AnswerReader("chat", events=True, max_bytes=LIMIT)
    for _ in range(300):
        reader.feed(b"data: " + b"x" * 65536)
    assert reader.reading().usage is None
