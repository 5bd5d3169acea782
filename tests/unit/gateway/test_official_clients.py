"""Promise: the official clients cannot tell the gateway from the provider, byte for byte, errors included."""

from __future__ import annotations

import gzip
import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from pydantic import BaseModel, ConfigDict

from orchestrator.core.errors import DocumentError
from orchestrator.gateway.clients import ClientPolicy, ModelClient
from orchestrator.protocols import GatewayAccess
from tests.unit.gateway.support import post

OWN_HEADERS = {"host", "authorization", "x-api-key", "accept-encoding", "connection"}
TOOL_MESSAGES: Any = {"name": "weather", "input_schema": {"type": "object"}}
TOOL_CHAT: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object"}},
}
TOOL_RESPONSES: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}}


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    verdict: str
    score: int


@dataclass
class Wire:
    """What went over a client's connection: status, headers and bytes of each answer."""

    stack: ExitStack
    answers: list[tuple[int, list[tuple[bytes, bytes]], bytes]] = field(default_factory=list)

    def client(self, socket: str | None) -> httpx2.Client:
        inner = httpx2.HTTPTransport(uds=socket)
        self.stack.callback(inner.close)
        return httpx2.Client(transport=_Tap(inner, self), timeout=20)


@pytest.fixture
def stack():
    """Closes what a test opened."""
    with ExitStack() as made:
        yield made


class _Tap(httpx2.BaseTransport):
    def __init__(self, inner: httpx2.BaseTransport, wire: Wire) -> None:
        self._inner = inner
        self._wire = wire

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = self._inner.handle_request(request)
        stream: Any = answer.stream
        data = b"".join(stream)
        answer.close()
        headers = sorted((n, v) for n, v in answer.headers.raw if n.lower() != b"connection")
        self._wire.answers.append((answer.status_code, headers, data))
        return httpx2.Response(answer.status_code, headers=answer.headers.raw, content=data)


def anthropic_calls(client: anthropic.Anthropic) -> dict[str, Any]:
    ask: dict[str, Any] = {
        "model": "model-1",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "Grüße, “quoted”"}],
    }

    def streamed() -> list[str]:
        with client.messages.stream(**ask) as stream:
            return [event.to_json() for event in stream] + [stream.get_final_message().to_json()]

    return {
        "plain": lambda: client.messages.create(**ask).to_json(),
        "system and cache": lambda: client.messages.create(
            **ask,
            system=[{"type": "text", "text": "x" * 3000, "cache_control": {"type": "ephemeral"}}],
        ).to_json(),
        "stream": streamed,
        "raw stream": lambda: [e.to_json() for e in client.messages.create(**ask, stream=True)],
        "tools": lambda: client.messages.create(**ask, tools=[TOOL_MESSAGES]).to_json(),
        "structured": lambda: str(
            client.messages.parse(**ask, output_format=Verdict).parsed_output
        ),
    }


def openai_calls(client: openai.OpenAI) -> dict[str, Any]:
    ask: dict[str, Any] = {"model": "model-1", "messages": [{"role": "user", "content": "Grüße"}]}
    respond: dict[str, Any] = {"model": "model-1", "input": "Grüße", "max_output_tokens": 64}
    usage: Any = {"include_usage": True}
    return {
        "chat": lambda: client.chat.completions.create(**ask).to_json(),
        "chat stream": lambda: [
            c.to_json() for c in client.chat.completions.create(**ask, stream=True)
        ],
        "chat stream with usage": lambda: [
            c.to_json()
            for c in client.chat.completions.create(**ask, stream=True, stream_options=usage)
        ],
        "chat tools": lambda: client.chat.completions.create(**ask, tools=[TOOL_CHAT]).to_json(),
        "chat structured": lambda: str(
            client.chat.completions.parse(**ask, response_format=Verdict).choices[0]
        ),
        "responses": lambda: client.responses.create(**respond).to_json(),
        "responses stream": lambda: [
            e.to_json() for e in client.responses.create(**respond, stream=True)
        ],
        "responses tools": lambda: client.responses.create(
            **respond, tools=[TOOL_RESPONSES]
        ).to_json(),
        "responses structured": lambda: str(
            client.responses.parse(**respond, text_format=Verdict).output_parsed
        ),
        "embeddings": lambda: client.embeddings.create(
            model="embed-1", input=["a", "b"], encoding_format="float"
        ).to_json(),
    }


ERRORS = (400, 401, 403, 404, 409, 413, 422, 500, 529)


def seen_as(seen) -> tuple[str, list[tuple[str, str]], bytes]:
    headers = sorted((n.lower(), v) for n, v in seen.headers if n.lower() not in OWN_HEADERS)
    return seen.path, headers, seen.body


def both_ways(live, provider, stack, make, calls) -> None:
    """Makes every call directly and through the gateway and compares all that can be compared."""
    opened = live.open()
    socket = str(opened.folder / "gateway.sock")
    token = opened.token("agent")
    direct, through = Wire(stack), Wire(stack)
    one = calls(make(api_key="direct-key-direct", http_client=direct.client(None)))
    other = calls(make(api_key=token, http_client=through.client(socket)))
    assert one.keys() == other.keys()
    for name in one:
        provider.seen.clear()
        assert one[name]() == other[name](), name
        (a, b) = provider.seen
        assert seen_as(a) == seen_as(b), name
        assert direct.answers[-1] == through.answers[-1], name
    live.close_trial()
    assert [e.outcome for e in live.exchanges()] == ["answered"] * len(one)


def test_anthropic_calls_are_the_same_with_and_without_the_gateway(live, provider, stack):
    both_ways(
        live,
        provider,
        stack,
        lambda **options: anthropic.Anthropic(base_url=provider.origin, max_retries=0, **options),
        anthropic_calls,
    )


def test_openai_calls_are_the_same_with_and_without_the_gateway(live, provider, stack):
    both_ways(
        live,
        provider,
        stack,
        lambda **options: openai.OpenAI(base_url=f"{provider.origin}/v1", max_retries=0, **options),
        openai_calls,
    )


@pytest.mark.parametrize("status", ERRORS)
def test_errors_of_the_provider_reach_the_official_clients_unchanged(live, provider, stack, status):
    opened = live.open()
    headers = {"x-fake": f"status:{status}"}
    found: list[tuple[type[Exception], object, object]] = []
    for socket, key in ((None, "direct-key-direct"), (opened.folder / "gateway.sock", None)):
        wire = Wire(stack)
        options: dict[str, Any] = {
            "api_key": key or opened.token("agent"),
            "max_retries": 0,
            "http_client": wire.client(str(socket) if socket else None),
            "default_headers": headers,
        }
        with pytest.raises(anthropic.APIStatusError) as one:
            anthropic.Anthropic(base_url=provider.origin, **options).messages.create(
                model="model-1", max_tokens=5, messages=[{"role": "user", "content": "x"}]
            )
        with pytest.raises(openai.APIStatusError) as two:
            openai.OpenAI(base_url=f"{provider.origin}/v1", **options).chat.completions.create(
                model="model-1", messages=[{"role": "user", "content": "x"}]
            )
        found.append((type(one.value), one.value.body, wire.answers[0]))
        found.append((type(two.value), two.value.body, wire.answers[1]))
    assert found[:2] == found[2:]


def test_a_refusal_of_the_gateway_is_a_bad_request_that_no_client_repeats(scripted):
    opened = scripted.open()
    with (
        httpx2.Client(transport=httpx2.HTTPTransport(uds=str(opened.folder / "gateway.sock"))) as h,
        pytest.raises(anthropic.BadRequestError) as refused,
    ):
        anthropic.Anthropic(
            base_url="http://gateway", api_key=opened.token("agent"), max_retries=3, http_client=h
        ).messages.create(
            model="unpriced", max_tokens=5, messages=[{"role": "user", "content": "x"}]
        )
    assert "unpriced" in str(refused.value)
    scripted.close_trial()
    assert [e.outcome for e in scripted.exchanges()] == ["refused_policy"]


QUICK = ClientPolicy(tries=3, first_wait_s=0.01, longest_wait_s=0.02, connect_s=2, read_s=10)


def access(opened, role="judge", model="model-1") -> GatewayAccess:
    return GatewayAccess("http://gateway", opened.token(role), model)


def test_a_judge_gets_an_answer_of_the_form_that_it_asked_for(live, provider, stack):
    opened = live.open()
    socket = opened.folder / "gateway.sock"
    client = ModelClient(access(opened), socket=socket, policy=QUICK)
    stack.callback(client.close)
    assert client.chat("?", Verdict, max_tokens=50) == Verdict(verdict="yes", score=3)
    embedder = ModelClient(access(opened, "memory", "embed-1"), socket=socket, policy=QUICK)
    stack.callback(embedder.close)
    assert embedder.embed(["a"]) == [[0.5, -0.25]]
    traffic = live.close_trial()
    assert {(r.role, r.calls) for r in traffic.roles} == {("judge", 1), ("memory", 1)}
    assert dict(h for h in provider.seen[0].headers)["x-stainless-retry-count"] == "0"


def test_an_answer_without_the_form_is_refused_and_not_asked_for_again(live, provider, stack):
    class Other(BaseModel):
        model_config = ConfigDict(extra="forbid")
        elsewhere: int

    opened = live.open()
    client = ModelClient(access(opened), socket=opened.folder / "gateway.sock", policy=QUICK)
    stack.callback(client.close)
    with pytest.raises(DocumentError, match="Other"):
        client.chat("?", Other, max_tokens=50)
    with pytest.raises(DocumentError, match="Other"):
        client.messages("?", Other, max_tokens=50)
    assert len(provider.seen) == 2


def test_one_policy_retries_what_may_pass_and_nothing_else(live, provider, stack):
    """The fake provider answers 500 always and 400 always; the SDK itself never repeats."""
    opened = live.open()
    noted: list[str] = []
    client = ModelClient(
        access(opened), socket=opened.folder / "gateway.sock", policy=QUICK, noted=noted.append
    )
    stack.callback(client.close)
    for status, times in ((500, 3), (400, 1)):
        provider.seen.clear()
        client._http.headers["x-fake"] = f"status:{status}"
        with pytest.raises(openai.APIStatusError):
            client.chat("?", Verdict, max_tokens=50)
        assert len(provider.seen) == times
    assert len(noted) == 2


def test_every_byte_of_a_body_arrives_as_it_was_sent(live, provider):
    """Spacing, key order, escapes and a gzip coding are the client's, not ours."""
    opened = live.open()
    odd = b'{ "max_tokens" : 5,\n\t"messages":[{"content":"\\u00e9\\/","role":"user"}], "model":"model-1"}'
    post(opened, "/v1/messages", odd)
    assert provider.seen[-1].body == odd
    packed = gzip.compress(json.dumps({"model": "model-1", "messages": []}).encode())
    post(
        opened, "/v1/messages", packed, headers={"content-encoding": "gzip", "x-fake": "status:400"}
    )
    assert provider.seen[-1].body == packed
