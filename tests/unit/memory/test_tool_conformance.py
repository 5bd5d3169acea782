"""Promise: tools that some agent would drop without a word are refused by our own check before an agent sees them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.memory.tools.conformance import check_result, check_tools
from orchestrator.memory.tools.server import TOOLS

OBJECT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}


def tool(**change: Any) -> dict[str, Any]:
    return {"name": "search", "inputSchema": OBJECT, "outputSchema": OBJECT, **change}


def test_our_own_tools_conform():
    assert check_tools({"tools": list(TOOLS)}, server="memory") == TOOLS


@pytest.mark.parametrize(
    "schema",
    [
        True,
        False,
        None,
        [],
        "object",
        {},
        {"type": "array", "items": {"type": "string"}},
        {"type": ["object", "null"]},
        {"type": "object", "properties": {"result": True}},
        {"type": "object", "properties": {"rows": {"type": "array", "items": False}}},
        {"type": "object", "properties": []},
        {"type": "object", "anyOf": [OBJECT, True]},
        {"type": "object", "$defs": {"any": True}},
    ],
)
@pytest.mark.parametrize("part", ["outputSchema", "inputSchema"])
def test_a_boolean_an_array_or_a_missing_schema_is_refused_wherever_it_stands(schema, part):
    with pytest.raises(DocumentError, match=rf"search\.{part}"):
        check_tools({"tools": [tool(**{part: schema})]}, server="memory")


def test_a_tool_without_an_output_schema_is_refused():
    without = {name: value for name, value in tool().items() if name != "outputSchema"}
    with pytest.raises(DocumentError, match=r"search\.outputSchema"):
        check_tools({"tools": [without]}, server="memory")


def test_a_schema_that_never_ends_is_refused():
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(40):
        deep = {"type": "object", "properties": {"x": deep}}
    with pytest.raises(DocumentError, match="at most 16 deep"):
        check_tools({"tools": [tool(outputSchema=deep)]}, server="memory")


@pytest.mark.parametrize(
    "listed",
    [
        None,
        {},
        {"tools": {}},
        {"tools": []},
        {"tools": ["search"]},
        {"tools": [tool(name="../x")]},
        {"tools": [tool(), tool()]},
        {"tools": [tool(name=f"t{n}") for n in range(65)]},
    ],
)
def test_what_is_no_list_of_plain_tools_is_refused(listed):
    with pytest.raises(DocumentError, match="server memory"):
        check_tools(listed, server="memory")


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        {"text": 1, "notes": 1},
        {"text": "x", "notes": True},
        {"text": "x", "notes": "1"},
        {"text": "x"},
        {"text": "x", "notes": 1, "more": "y"},
    ],
)
def test_an_answer_that_is_not_what_its_schema_promises_is_refused(content):
    right = {"structuredContent": {"text": "x", "notes": 1}}
    check_result(TOOLS[0], right, server="memory")
    wrong = copy.deepcopy(right) | {"structuredContent": content}
    with pytest.raises(DocumentError, match="memory_search"):
        check_result(TOOLS[0], wrong, server="memory")
