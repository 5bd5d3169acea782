"""What the gateway must know of a request before it forwards it: model, bounds of its size, refused features.

Pure. Bodies are read here and never rewritten. Formats: Anthropic Messages, OpenAI Responses, OpenAI
Chat Completions, OpenAI Embeddings. What would cost more than tokens, reach another server, or refer to
something whose size cannot be seen here is refused.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json
from orchestrator.model.usage import Api

ROUTES: dict[str, Api] = {
    "/v1/messages": "messages",
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/embeddings": "embeddings",
}
_LIMITS: dict[Api, tuple[str, ...]] = {
    "messages": ("max_tokens",),
    "responses": ("max_output_tokens",),
    "chat": ("max_completion_tokens", "max_tokens"),
    "embeddings": (),
}
# State on a server, prices by contract, output that is not text: none of it can be bounded from here.
_REFUSED_KEYS: dict[Api, tuple[str, ...]] = {
    "messages": ("mcp_servers", "container", "speed", "inference_geo"),
    "responses": ("previous_response_id", "conversation", "prompt", "background"),
    "chat": ("web_search_options", "audio", "prediction"),
    "embeddings": (),
}
_TIERS = ("auto", "default", "standard_only", None)
_TOOLS = re.compile(
    r"^(function|custom|namespace|tool_search|local_shell|shell|apply_patch|"
    r"bash_\d+|text_editor_\d+|memory_\d+|tool_search_tool_\w+)$"
)
_UNBOUNDED_PARTS = frozenset({"document", "input_file", "file", "input_audio", "item_reference"})
MAX_CHOICES = 128


class RequestRefused(Exception):
    """The request cannot be served. `policy` is false when it is malformed."""

    def __init__(self, reason: str, *, policy: bool) -> None:
        super().__init__(reason)
        self.policy = policy


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, read."""

    api: Api
    model: str
    body: dict[str, object]
    plain_bytes: int
    stream: bool
    max_output_tokens: int | None
    choices: int
    images: int


def plain_body(raw: bytes, encoding: str, *, max_bytes: int) -> bytes:
    """Returns a body without its content coding (RFC 9110, 8.4: identity, gzip, deflate).

    Raises:
        RequestRefused: another coding, broken data, or more than `max_bytes` when unpacked.
    """
    coding = encoding.strip().lower()
    if coding in {"", "identity"}:
        return raw
    if coding not in {"gzip", "deflate"}:
        raise RequestRefused(
            f"content-encoding: expected identity, gzip or deflate, found {encoding[:40]!r}",
            policy=False,
        )
    # 31 takes a gzip member, 47 either header that zlib knows.
    machine = zlib.decompressobj(31 if coding == "gzip" else 47)
    try:
        plain = machine.decompress(raw, max_bytes + 1)
    except zlib.error as error:
        raise RequestRefused(f"content-encoding {coding}: {error}", policy=False) from error
    if len(plain) > max_bytes:
        raise RequestRefused(f"expected at most {max_bytes} bytes unpacked", policy=False)
    if not machine.eof or machine.unused_data:
        raise RequestRefused(f"content-encoding {coding}: expected one whole member", policy=False)
    return plain


def read_request(api: Api, plain: bytes, *, max_bytes: int) -> Asked:
    """Reads a request.

    Raises:
        RequestRefused: malformed, or it asks for something that is not let through.
    """
    try:
        body = parse_json(plain, where="request", max_bytes=max_bytes)
    except DocumentError as error:
        raise RequestRefused(error.message, policy=False) from error
    if not isinstance(body, dict):
        raise RequestRefused("request: expected a JSON object", policy=False)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise RequestRefused("request: expected a model id", policy=False)
    stream = body.get("stream", False)
    if stream is not None and not isinstance(stream, bool):
        raise RequestRefused("stream: expected true or false", policy=False)
    _check_keys(api, body)
    return Asked(
        api=api,
        model=model,
        body=body,
        plain_bytes=len(plain),
        stream=bool(stream),
        max_output_tokens=_limit(api, body),
        choices=_choices(body) if api == "chat" else 1,
        images=_check_parts(body),
    )


def _limit(api: Api, body: dict[str, object]) -> int | None:
    found: list[int] = []
    for name in _LIMITS[api]:
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise RequestRefused(f"{name}: expected a whole number", policy=False)
        found.append(value)
    return max(found, default=None)


def _choices(body: dict[str, object]) -> int:
    value = body.get("n")
    if value is None:
        return 1
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_CHOICES:
        raise RequestRefused(f"n: expected a number from 1 to {MAX_CHOICES}", policy=False)
    return value


def _check_keys(api: Api, body: dict[str, object]) -> None:
    for name in _REFUSED_KEYS[api]:
        if body.get(name) not in (None, False):
            raise RequestRefused(
                f"{name}: not let through, its cost has no bound here", policy=True
            )
    if body.get("service_tier") not in _TIERS:
        raise RequestRefused("service_tier: expected the standard tier", policy=True)
    if body.get("modalities") not in (None, ["text"]):
        raise RequestRefused("modalities: expected text only", policy=True)
    for tool in _list(body.get("tools")):
        kind = tool.get("type", "custom") if isinstance(tool, dict) else None
        if not isinstance(kind, str) or not _TOOLS.match(kind):
            raise RequestRefused(
                f"tools: expected tools that run beside the agent, found type {str(kind)[:60]!r}",
                policy=True,
            )
    management = body.get("context_management")
    edits = management.get("edits") if isinstance(management, dict) else management
    for edit in _list(edits):
        if not isinstance(edit, dict) or str(edit.get("type", "")).startswith("compact"):
            raise RequestRefused("context_management: server-side compaction", policy=True)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _check_parts(body: dict[str, object]) -> int:
    """Returns the number of images; refuses parts whose size in tokens cannot be bounded."""
    images = 0
    for part in _parts(body):
        given = part.get("type")
        kind = given if isinstance(given, str) else ""
        if "file_id" in part or kind in _UNBOUNDED_PARTS:
            raise RequestRefused(f"content of type {kind!r}: not let through", policy=True)
        if kind in {"url", "file"}:
            raise RequestRefused("content by reference: not let through", policy=True)
        if kind in {"image", "image_url", "input_image"}:
            images += 1
            link = part.get("image_url")
            link = link.get("url") if isinstance(link, dict) else link
            if link is not None and not str(link).startswith("data:"):
                raise RequestRefused("an image by address: not let through", policy=True)
    return images


def _parts(body: dict[str, object]) -> Iterator[dict[str, object]]:
    """Yields every object below the conversation; tool schemas are not part of it."""
    todo: list[object] = [body.get(name) for name in ("messages", "input", "system")]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            yield item
            todo.extend(
                value
                for name, value in item.items()
                # A tool call's arguments are the model's own words, not content to be fetched.
                if not (name == "input" and item.get("type") == "tool_use")
            )
        elif isinstance(item, list):
            todo.extend(item)


def strings_of(asked: Asked) -> Iterator[str]:
    """Yields every string of the conversation."""
    todo: list[object] = [
        asked.body.get(n) for n in ("messages", "input", "system", "instructions")
    ]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)


def turns_taken(asked: Asked) -> int:
    """Returns how many turns the model has taken in the conversation that a request carries."""
    if asked.api in {"messages", "chat"}:
        roles = [m.get("role") for m in _list(asked.body.get("messages")) if isinstance(m, dict)]
        return sum(
            role == "assistant" and (index == 0 or roles[index - 1] != "assistant")
            for index, role in enumerate(roles)
        )
    turns, within = 0, False
    for item in _list(asked.body.get("input")):
        own = isinstance(item, dict) and (
            item.get("role") == "assistant"
            or str(item.get("type", "")).endswith(("_call", "reasoning"))
        )
        turns += own and not within
        within = own
    return turns
