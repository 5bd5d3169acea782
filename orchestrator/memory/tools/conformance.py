"""The strict form that a server's tools must have before any agent sees them. Pure.

Some agents drop a whole list of tools for one schema that they do not understand, and go on without a word: a
boolean or an array where an object is meant, or no output schema at all. Source of the format: Model Context
Protocol, revision 2025-06-18, "Tools". What is refused here may be allowed there.
"""

from __future__ import annotations

import re

from orchestrator.core.errors import DocumentError

MAX_TOOLS = 64
MAX_DEPTH = 16
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
# Members whose value is a schema, a list of them, or a map of names to them (JSON Schema 2020-12).
_ONE = frozenset({"items", "contains", "not", "if", "then", "else", "propertyNames"})
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})


def check_tools(listed: object, *, server: str) -> tuple[dict[str, object], ...]:
    """Returns the tools of an answer to `tools/list`.

    Args:
        listed: the answer's result.
        server: how errors call it.

    Raises:
        DocumentError: no list of tools, a name twice, or a schema that some agent would not take.
    """
    tools = listed.get("tools") if isinstance(listed, dict) else None
    if not isinstance(tools, list) or not 0 < len(tools) <= MAX_TOOLS:
        raise _refuse(server, f"a list of 1 to {MAX_TOOLS} tools", tools)
    names: set[str] = set()
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in names:
            raise _refuse(server, "tools with plain names, each once", name)
        names.add(name)
        for part in ("inputSchema", "outputSchema"):
            _check_schema(tool.get(part), f"{name}.{part}", server)
    return tuple(tools)


def _check_schema(schema: object, where: str, server: str) -> None:
    """The outermost schema is of an object, and every schema below is itself an object."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise _refuse(server, f'{where}: a schema of type "object"', schema)
    todo: list[tuple[str, object, int]] = [(where, schema, 0)]
    while todo:
        at, part, depth = todo.pop()
        if not isinstance(part, dict) or depth > MAX_DEPTH:
            raise _refuse(
                server, f"{at}: a schema that is an object, at most {MAX_DEPTH} deep", part
            )
        for name, value in part.items():
            below = f"{at}.{name}"
            if name in _ONE:
                todo.append((below, value, depth + 1))
            elif name in _MANY and isinstance(value, list):
                todo += [(f"{below}.{n}", item, depth + 1) for n, item in enumerate(value)]
            elif name in _NAMED and isinstance(value, dict):
                todo += [(f"{below}.{n}", item, depth + 1) for n, item in value.items()]
            elif name in _MANY | _NAMED:
                raise _refuse(server, f"{below}: schemas", value)


def check_result(tool: dict[str, object], result: object, *, server: str) -> None:
    """Refuses an answer to a call whose structured content is not what its tool's schema promises, as far as
    required members and plain types go.

    Raises:
        DocumentError: it is not.
    """
    schema = tool.get("outputSchema")
    content = result.get("structuredContent") if isinstance(result, dict) else None
    if not isinstance(schema, dict) or not isinstance(content, dict):
        raise _refuse(server, f"{tool.get('name')}: structured content", content)
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, dict) else {}
    missing = [n for n in (required if isinstance(required, list) else ()) if n not in content]
    odd = [n for n, value in content.items() if not _fits(value, known.get(n))]
    if missing or odd:
        raise _refuse(server, f"{tool.get('name')}: content of its output schema", missing or odd)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def _fits(value: object, schema: object) -> bool:
    if not isinstance(schema, dict):
        return False
    kind = _TYPES.get(str(schema.get("type")))
    is_bool = isinstance(value, bool)
    return kind is not None and isinstance(value, kind) and (is_bool == (kind is bool))


def _refuse(server: str, expected: str, found: object) -> DocumentError:
    return DocumentError(
        "tools-not-conformant",
        f"server {server}: expected {expected}, found {str(found)[:200]}",
        hint="mend the server: an agent may drop all of its tools for this, without a word",
    )
