"""Reads what a recorded request says: its strings with their places, its preface, its tools, the outputs of tools. Pure.

Takes the three wire formats of agents by the types of their items and never by place; anything may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.model.proof import short

_ROOTS = ("system", "instructions", "messages", "input")


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What one call of a tool gave: the id of the call where it has one, and its strings with their places."""

    call_id: str
    strings: tuple[tuple[str, str], ...]


def strings(body: dict[str, object]) -> Iterator[tuple[str, str]]:
    """Yields (JSON pointer, string) for every string of a request's conversation, in order; long pointers are cut."""
    for name in _ROOTS:
        yield from _strings(f"/{name}", body.get(name))


def _strings(root: str, value: object) -> Iterator[tuple[str, str]]:
    todo: list[tuple[str, object]] = [(root, value)]
    while todo:
        pointer, item = todo.pop()
        if isinstance(item, str):
            yield pointer, item
        elif isinstance(item, dict):
            todo += [(short(f"{pointer}/{_token(k)}"), v) for k, v in reversed(item.items())]
        elif isinstance(item, list):
            todo += [(short(f"{pointer}/{n}"), v) for n, v in reversed(list(enumerate(item)))]


def _token(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def preface(body: dict[str, object]) -> dict[str, object]:
    """Returns what a request says before the model's first own words: no tool output is in it."""
    kept: dict[str, object] = {name: body[name] for name in _ROOTS[:2] if name in body}
    for name in _ROOTS[2:]:
        items = body.get(name)
        if isinstance(items, str):
            kept[name] = items
        elif isinstance(items, list):
            end = next((n for n, item in enumerate(items) if _own(item)), len(items))
            kept[name] = items[:end]
    return kept


def _own(item: object) -> bool:
    if not isinstance(item, dict):
        return False
    kind = str(item.get("type", ""))
    return item.get("role") == "assistant" or kind.endswith(("_call", "_call_output", "reasoning"))


def tools_of(body: dict[str, object]) -> tuple[str, ...]:
    """Returns the names of the tools that a request offers, those of a namespace behind its name."""
    names: list[str] = []
    listed = body.get("tools")
    for tool in listed if isinstance(listed, list) else ():
        if not isinstance(tool, dict):
            continue
        function = tool.get("function")
        inner = function if isinstance(function, dict) else tool
        name = short(str(inner.get("name") or tool.get("type") or "?"))
        within = tool.get("tools") if tool.get("type") == "namespace" else None
        if isinstance(within, list):
            names += [short(f"{name}.{t.get('name')}") for t in within if isinstance(t, dict)]
        else:
            names.append(name)
    return tuple(names)


def outputs_of(body: dict[str, object]) -> Iterator[ToolOutput]:
    """Yields the outputs of tools in a request's conversation, in order."""
    for name in _ROOTS[2:]:
        items = body.get(name)
        for number, item in enumerate(items if isinstance(items, list) else ()):
            if not isinstance(item, dict):
                continue
            pointer = f"/{name}/{number}"
            if item.get("role") == "tool":
                yield _output(item, "tool_call_id", "content", pointer)
            elif str(item.get("type", "")).endswith("_call_output"):
                yield _output(item, "call_id", "output", pointer)
            else:
                yield from _results(item.get("content"), f"{pointer}/content")


def _results(blocks: object, pointer: str) -> Iterator[ToolOutput]:
    for number, block in enumerate(blocks if isinstance(blocks, list) else ()):
        if isinstance(block, dict) and block.get("type") == "tool_result":
            yield _output(block, "tool_use_id", "content", f"{pointer}/{number}")


def _output(item: dict[str, object], id_name: str, name: str, pointer: str) -> ToolOutput:
    call_id = item.get(id_name)
    found = _strings(f"{pointer}/{name}", item.get(name))
    return ToolOutput(call_id if isinstance(call_id, str) else "", tuple(found))
