"""Writes a scripted turn in the words of each API, as one JSON answer or as a stream of events. Pure.

Ids are made from the turn's number, so equal requests get equal answers. Formats as in `wire`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from orchestrator.model.script import ScriptedTurn
from orchestrator.model.usage import Api, Usage


@dataclass(frozen=True, slots=True)
class Said:
    """A turn with its number, the model that says it, and what it is to have used."""

    turn: ScriptedTurn
    number: int
    model: str
    usage: Usage
    with_usage: bool


def as_json(api: Api, said: Said) -> bytes:
    """Returns the whole answer as JSON."""
    return json.dumps(_JSON[api](said), ensure_ascii=False).encode()


def as_events(api: Api, said: Said) -> Iterator[bytes]:
    """Yields the answer as server-sent events."""
    return _EVENTS[api](said)


def error_body(api: Api | None, kind: str, message: str) -> bytes:
    """Returns an error in the words of an API: both shapes carry `error.type` and `error.message`."""
    error: dict[str, object] = {"type": kind, "message": message}
    if api in {"chat", "responses", "embeddings"}:
        return json.dumps({"error": {**error, "param": None, "code": kind}}).encode()
    return json.dumps({"type": "error", "error": error}).encode()


def _event(name: str | None, data: object) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _messages_usage(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write + usage.cache_write_1h,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "output_tokens": usage.output,
    }


def _messages_blocks(said: Said) -> list[dict[str, object]]:
    blocks: list[dict[str, object]] = []
    if said.turn.text or not said.turn.calls:
        blocks.append({"type": "text", "text": said.turn.text})
    for place, call in enumerate(said.turn.calls):
        blocks.append(
            {
                "type": "tool_use",
                "id": f"toolu_s{said.number}_{place}",
                "name": call.name,
                "input": json.loads(call.arguments),  # noqa: TID251 - the script was read strictly
            }
        )
    return blocks


def _messages_json(said: Said) -> dict[str, object]:
    return {
        "id": f"msg_s{said.number}",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": _messages_blocks(said),
        "stop_reason": "tool_use" if said.turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": _messages_usage(said.usage),
    }


def _messages_events(said: Said) -> Iterator[bytes]:
    whole = _messages_json(said)
    usage = _messages_usage(said.usage)
    start = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _event("message_start", {"type": "message_start", "message": start})
    for place, block in enumerate(_messages_blocks(said)):
        if block["type"] == "text":
            shell: dict[str, object] = {"type": "text", "text": ""}
            delta: dict[str, object] = {"type": "text_delta", "text": block["text"]}
        else:
            shell = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        at = {"index": place}
        yield _event(
            "content_block_start", {"type": "content_block_start", **at, "content_block": shell}
        )
        yield _event("content_block_delta", {"type": "content_block_delta", **at, "delta": delta})
        yield _event("content_block_stop", {"type": "content_block_stop", **at})
    yield _event(
        "message_delta",
        {
            "type": "message_delta",
            "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
            "usage": usage,
        },
    )
    yield _event("message_stop", {"type": "message_stop"})


def _responses_items(said: Said) -> list[dict[str, object]]:
    items: list[dict[str, object]] = []
    number = said.number
    if said.turn.text or not said.turn.calls:
        items.append(
            {
                "type": "message",
                "id": f"msg_s{number}",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": said.turn.text, "annotations": []}],
            }
        )
    for place, call in enumerate(said.turn.calls):
        kind, argument = (
            ("custom_tool_call", "input") if call.custom else ("function_call", "arguments")
        )
        items.append(
            {
                "type": kind,
                "id": f"{'ctc' if call.custom else 'fc'}_s{number}_{place}",
                "call_id": f"call_s{number}_{place}",
                "name": call.name,
                **({"namespace": call.namespace} if call.namespace else {}),
                argument: call.arguments,
                "status": "completed",
            }
        )
    return items


def _responses_json(said: Said) -> dict[str, object]:
    usage = said.usage
    return {
        "id": f"resp_s{said.number}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": said.model,
        "output": _responses_items(said),
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": {
            "input_tokens": usage.all_input,
            "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.all_input + usage.output,
        },
    }


def _responses_events(said: Said) -> Iterator[bytes]:
    whole = _responses_json(said)
    number = 0

    def event(kind: str, **more: object) -> bytes:
        nonlocal number
        made = _event(kind, {"type": kind, "sequence_number": number, **more})
        number += 1
        return made

    yield event(
        "response.created",
        response={**whole, "status": "in_progress", "output": [], "usage": None},
    )
    for place, item in enumerate(_responses_items(said)):
        yield event("response.output_item.added", output_index=place, item=item)
        if item["type"] == "message":
            yield event(
                "response.output_text.delta",
                item_id=item["id"],
                output_index=place,
                content_index=0,
                delta=said.turn.text,
                logprobs=[],
            )
        yield event("response.output_item.done", output_index=place, item=item)
    yield event("response.completed", response=whole)


def _chat_calls(said: Said) -> list[dict[str, object]]:
    return [
        {
            "id": f"call_s{said.number}_{place}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for place, call in enumerate(said.turn.calls)
    ]


def _chat_usage(usage: Usage) -> dict[str, object]:
    return {
        "prompt_tokens": usage.all_input,
        "completion_tokens": usage.output,
        "total_tokens": usage.all_input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _chat_head(said: Said, kind: str) -> dict[str, object]:
    return {"id": f"chatcmpl-s{said.number}", "object": kind, "created": 0, "model": said.model}


def _chat_json(said: Said) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": said.turn.text or None}
    if said.turn.calls:
        message["tool_calls"] = _chat_calls(said)
    reason = "tool_calls" if said.turn.calls else "stop"
    return {
        **_chat_head(said, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": _chat_usage(said.usage),
    }


def _chat_events(said: Said) -> Iterator[bytes]:
    head = _chat_head(said, "chat.completion.chunk")

    def chunk(delta: dict[str, object], reason: str | None) -> bytes:
        return _event(
            None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        )

    yield chunk({"role": "assistant", "content": said.turn.text}, None)
    for place, call in enumerate(_chat_calls(said)):
        yield chunk({"tool_calls": [{**call, "index": place}]}, None)
    yield chunk({}, "tool_calls" if said.turn.calls else "stop")
    if said.with_usage:
        yield _event(None, {**head, "choices": [], "usage": _chat_usage(said.usage)})
    yield b"data: [DONE]\n\n"


_JSON: dict[Api, Callable[[Said], dict[str, object]]] = {
    "messages": _messages_json,
    "responses": _responses_json,
    "chat": _chat_json,
}
_EVENTS: dict[Api, Callable[[Said], Iterator[bytes]]] = {
    "messages": _messages_events,
    "responses": _responses_events,
    "chat": _chat_events,
}
