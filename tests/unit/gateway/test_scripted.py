"""Promise: a scripted model answers by what stands in the request, so order, retries and restarts do not matter."""

from __future__ import annotations

import json
import math

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.gateway.embeddings import hash_vector
from orchestrator.gateway.scripted import ScriptedMode
from orchestrator.gateway.wire import read_request, turns_taken
from orchestrator.model.script import (
    Scenario,
    Script,
    ScriptedCall,
    ScriptedEmbeddings,
    ScriptedTurn,
    Wanted,
)
from tests.unit.gateway.support import chat, post, running

CALL = ScriptedCall(name="bash", arguments='{"command":"ls"}')
TALK = Script(
    scenarios=(
        Scenario(
            name="told",
            role="agent",
            wanted=(Wanted(any_of=(("tabs", "never spaces"), ("indent with tab",))),),
            turns=(ScriptedTurn(text="I know: tabs."),),
        ),
        Scenario(name="judge", role="judge", turns=(ScriptedTurn(text="guilty"),)),
        Scenario(
            name="rest",
            turns=(
                ScriptedTurn(calls=(CALL, CALL)),
                ScriptedTurn(text="oops", fail_status=529),
                ScriptedTurn(text="second"),
            ),
        ),
    ),
    embeddings=ScriptedEmbeddings(kind="hash", dimensions=64),
)


@pytest.fixture
def opened(tmp_path):
    with running(ScriptedMode(TALK), tmp_path) as made:
        yield made.open()


def said(answer: tuple[int, bytes]) -> object:
    return json.loads(answer[1])["choices"][0]["message"]["content"]


def test_a_retry_gets_the_same_bytes(opened):
    first = [post(opened, "/v1/chat/completions", chat()) for _ in range(3)]
    assert first[0] == first[1] == first[2]


def test_the_turn_is_the_number_of_turns_in_the_request_also_with_parallel_calls(opened):
    asked = [{"role": "user", "content": "go"}]
    results = [{"role": "tool", "tool_call_id": f"c{n}", "content": "x"} for n in range(2)]
    one = [*asked, {"role": "assistant", "content": None}, *results]
    status, _ = post(opened, "/v1/chat/completions", {**chat(), "messages": one})
    assert status == 529
    two = [*one, {"role": "assistant", "content": "?"}, {"role": "user", "content": "on"}]
    assert said(post(opened, "/v1/chat/completions", {**chat(), "messages": two})) == "second"
    three = [*two, {"role": "assistant", "content": "second"}, {"role": "user", "content": "on"}]
    assert said(post(opened, "/v1/chat/completions", {**chat(), "messages": three})) == "Done."


@pytest.mark.parametrize(
    ("input_", "turns"),
    [
        ("text", 0),
        ([{"role": "user", "content": "x"}], 0),
        (
            [
                {"role": "user"},
                {"type": "reasoning"},
                {"type": "function_call"},
                {"type": "function_call"},
                {"type": "function_call_output"},
            ],
            1,
        ),
        (
            [
                {"type": "custom_tool_call"},
                {"type": "custom_tool_call_output"},
                {"role": "assistant", "type": "message"},
                {"role": "user"},
            ],
            2,
        ),
    ],
)
def test_turns_of_the_responses_api_are_groups_of_the_models_items(input_, turns):
    body = json.dumps({"model": "m", "input": input_}).encode()
    assert turns_taken(read_request("responses", body, max_bytes=9999)) == turns


def test_a_fact_counts_whatever_its_layout_and_case(opened):
    told = said(post(opened, "/v1/chat/completions", chat("We use TABS,\n  never\tspaces.")))
    assert told == "I know: tabs."
    assert said(post(opened, "/v1/chat/completions", chat("We use tabs."))) is None


def test_a_scenario_may_be_for_one_role(opened):
    answer = post(opened, "/v1/chat/completions", chat("tabs"), token=opened.token("judge"))
    assert said(answer) == "guilty"


def test_a_request_that_no_scenario_fits_is_refused(tmp_path):
    only = Script(scenarios=(Scenario(name="x", role="judge", turns=(ScriptedTurn(text="a"),)),))
    with running(ScriptedMode(only), tmp_path) as made:
        status, answer = post(made.open(), "/v1/chat/completions", chat())
    assert (status, b"no scenario" in answer) == (400, True)


def test_embeddings_are_arithmetic_and_texts_that_share_words_are_near(opened):
    texts = ["the cache is Redis", "our cache: redis", "weather in Bern"]
    status, answer = post(opened, "/v1/embeddings", {"model": "embed-1", "input": texts})
    assert status == 200
    one, two, three = (item["embedding"] for item in json.loads(answer)["data"])
    assert math.isclose(sum(v * v for v in one), 1, abs_tol=1e-9)
    near = sum(a * b for a, b in zip(one, two, strict=True))
    far = sum(a * b for a, b in zip(one, three, strict=True))
    assert near > 0.4 > 0.2 > far
    assert hash_vector(texts[0], 64) == one


@pytest.mark.parametrize("input_", [None, [], [""], [1.5], [["a"]], {"a": 1}, ["x"] * 2049])
def test_texts_that_are_none_are_refused(opened, input_):
    assert post(opened, "/v1/embeddings", {"model": "embed-1", "input": input_})[0] == 400


def test_a_script_with_arguments_that_are_no_object_is_no_script():
    bad = b'{"schema_version":1,"scenarios":[{"name":"a","turns":[{"calls":[{"name":"t","arguments":"[1]"}]}]}]}'
    with pytest.raises(DocumentError, match="JSON object"):
        Script.parse(bad, where="script")
