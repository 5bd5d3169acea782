"""Promise: a provider key is seen by the provider, once a call, and by nothing and nobody else."""

from __future__ import annotations

import base64
import http.client

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.errors import DocumentError, EnvironmentMissing, UsageError
from orchestrator.gateway.keys import ProviderKeys, keys_from_environment, keys_from_file
from orchestrator.gateway.secrets import Secrets
from orchestrator.gateway.wire import ROUTES
from tests.unit.gateway.conftest import KEYS
from tests.unit.gateway.support import UnixHTTP, chat, post

BODIES: dict[str, dict[str, object]] = {
    "/v1/messages": chat(),
    "/v1/responses": {"model": "model-1", "input": "hi", "max_output_tokens": 9},
    "/v1/chat/completions": chat(),
    "/v1/embeddings": {"model": "embed-1", "input": "hi"},
}


def everything_recorded(running) -> bytes:
    return b"".join(path.read_bytes() for path in running.folder.iterdir())


def forms(key: str) -> list[bytes]:
    return [key.encode(), base64.b64encode(key.encode()), key.encode().hex().encode()]


def test_a_key_goes_upstream_exactly_once_a_call_and_is_recorded_nowhere(live, provider):
    opened = live.open()
    for path in ROUTES:
        for stream in (False, True):
            body = {**BODIES[path], **({"stream": True} if stream else {})}
            status, answer = post(opened, path, body)
            assert status == 200
            assert not any(form in answer for key in KEYS.values() for form in forms(key))
    live.close_trial()
    assert len(provider.seen) == 2 * len(ROUTES)
    for seen in provider.seen:
        text = repr(seen)
        wanted = "anthropic" if seen.path == "/v1/messages" else "openai"
        assert text.count(KEYS[wanted]) == 1
        assert sum(text.count(key) for key in KEYS.values()) == 1
    recorded = everything_recorded(live)
    assert not any(form in recorded for key in KEYS.values() for form in forms(key))


def test_the_run_token_never_goes_upstream_and_is_not_recorded(live, provider):
    opened = live.open()
    for path, body in BODIES.items():
        post(opened, path, body)
    live.close_trial()
    token = opened.token("agent")
    assert token not in repr(provider.seen)
    assert token.encode() not in everything_recorded(live)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_a_provider_that_says_the_key_back_is_cut_off_before_it(live, provider, path):
    """In 5-byte pieces and in a header; without the guard the client would read it."""
    opened = live.open()
    client = UnixHTTP(opened)
    client.request(
        "POST",
        path,
        body=b'{"model":"model-1","messages":[],"max_tokens":5}',
        headers={"x-api-key": opened.token("agent"), "x-fake": "echo"},
    )
    with pytest.raises(http.client.IncompleteRead) as cut:
        client.getresponse().read()
    client.close()
    live.close_trial()
    assert not any(form in cut.value.partial for key in KEYS.values() for form in forms(key))
    (exchange,) = live.exchanges()
    assert exchange.outcome == "refused_secret"
    assert exchange.response.pieces == ()
    recorded = everything_recorded(live)
    assert not any(form in recorded for key in KEYS.values() for form in forms(key))


def test_a_header_that_holds_a_key_does_not_come_through(live):
    opened = live.open()
    client = UnixHTTP(opened)
    client.request(
        "POST",
        "/v1/messages",
        body=b'{"model":"model-1","messages":[],"max_tokens":5}',
        headers={"x-api-key": opened.token("agent"), "x-fake": "echo"},
    )
    answer = client.getresponse()
    assert answer.getheader("x-echo") is None
    client.close()


@given(
    key=st.text(alphabet="abcdef-", min_size=8, max_size=12),
    before=st.text(alphabet="abcdef-", max_size=30),
    after=st.text(alphabet="abcdef-", max_size=30),
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=60),
)
@settings(max_examples=300, deadline=None)
def test_the_guard_lets_no_piecing_through_and_changes_nothing_else(key, before, after, cuts):
    for text in (before + key + after, before + after):
        guard, sent, found, at = Secrets((key,)).guard(), b"", False, 0
        data = text.encode()
        for size in cuts * 20:
            through, hit = guard.feed(data[at : at + size])
            sent, found, at = sent + through, found or hit, at + size
            if hit or at >= len(data):
                break
        whole = at >= len(data)
        if whole and not found:
            sent += guard.rest()
        assert key.encode() not in sent
        if whole:
            assert found == Secrets((key,)).has_key(data)
            assert found or sent == data


def test_keys_come_from_an_environment_or_a_file_that_only_the_owner_reads(tmp_path):
    found = keys_from_environment({"ANTHROPIC_API_KEY": "k" * 20, "OTHER": "x"})
    assert found.header("anthropic") == (b"x-api-key", b"k" * 20)
    with pytest.raises(EnvironmentMissing, match="openai"):
        found.header("openai")
    path = tmp_path / "keys.json"
    path.write_text('{"openai": "' + "o" * 20 + '"}')
    path.chmod(0o644)
    with pytest.raises(UsageError, match="0600"):
        keys_from_file(path)
    path.chmod(0o600)
    assert keys_from_file(path).header("openai") == (b"authorization", b"Bearer " + b"o" * 20)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with pytest.raises(UsageError, match="regular"):
        keys_from_file(link)


def test_keys_are_not_in_any_representation_and_cannot_break_a_header():
    keys = ProviderKeys({"anthropic": "secret-secret"})
    assert "secret" not in repr(keys) + str(keys) + f"{keys}"
    for bad in ("short", "with space here", "line\nbreak-in-key", "umlaut-ü-key-long"):
        with pytest.raises(DocumentError):
            ProviderKeys({"openai": bad})


@pytest.mark.parametrize(
    "text",
    [
        "sk-ant-api03-" + "a" * 40,
        "sk-proj-" + "A1" * 20,
        "AKIA" + "A" * 16,
        "ghp_" + "a" * 36,
        "-----BEGIN RSA PRIVATE KEY-----",
    ],
)
def test_a_body_with_the_shape_of_a_credential_is_withheld_from_the_record(scripted, text):
    opened = scripted.open()
    status, _ = post(opened, "/v1/chat/completions", chat(f"my key is {text} ok"))
    scripted.close_trial()
    (exchange,) = scripted.exchanges()
    assert status == 200
    assert exchange.request.pieces == ()
    assert exchange.request.bytes > 0
    assert text.encode() not in everything_recorded(scripted)
