"""The built-in memory systems by name, each with a digest of its own code; nothing is loaded to look one up.

Names here are of adapters, not of arms: which arms there are is said by the registry of conditions alone.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.errors import EnvironmentMissing, unknown_name
from orchestrator.memory.supplies import Supplies
from orchestrator.protocols import MemoryAdapter

ROOM = "orchestrator.memory"
ABSENT = sha256_hex(b"")
"""The digest of an adapter whose code is not in this installation."""


@dataclass(frozen=True, slots=True)
class Shelved:
    """Where a system's code is (a module with a function `make`), and which system it stands on.

    `reviewed` says that it carries out what people answer on what it held back.
    """

    module: str
    over: str | None = None
    reviewed: bool = False


SHELF: dict[str, Shelved] = {
    "none": Shelved("none"),
    "empty": Shelved("none"),
    "curated": Shelved("curated"),
    "conventions": Shelved("conventions"),
    "raw_fts": Shelved("raw_fts"),
    "full_history": Shelved("verbatim"),
    "history_tail": Shelved("tail"),
    "placebo": Shelved("placebo"),
    "oracle_evidence": Shelved("evidence"),
    "seeded": Shelved("told"),
    "expert_file": Shelved("told"),
    "stale_only": Shelved("told"),
    "poisoned": Shelved("told"),
    "reference": Shelved("reference", reviewed=True),
    "flatfile": Shelved("above", over="reference"),
    "oracle_retrieval": Shelved("above", over="reference"),
}


def shelved(name: str) -> Shelved:
    """Returns where a built-in system is.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in SHELF:
        raise unknown_name("adapter", name, SHELF, option="an adapter in fixtures/conditions.json")
    return SHELF[name]


def make(name: str, supplies: Supplies) -> MemoryAdapter:
    """Makes a fresh built-in system.

    Raises:
        EnvironmentMissing: its code is not in this installation.
    """
    entry = shelved(name)
    module = f"{ROOM}.{entry.module}"
    if importlib.util.find_spec(module) is None:
        raise EnvironmentMissing(
            "adapter-missing",
            f"expected the memory system {name} in this installation, found none",
            hint="choose another arm: `memtrial list conditions`",
        )
    found = cast("Callable[[str, Supplies], MemoryAdapter]", importlib.import_module(module).make)
    return found(name, supplies)


def available(name: str) -> bool:
    """Whether the code of a system, and of what it stands on, is in this installation."""
    entry = shelved(name)
    here = importlib.util.find_spec(f"{ROOM}.{entry.module}") is not None
    return here and (entry.over is None or available(entry.over))


def adapter_sha256(name: str) -> str:
    """Returns the digest over the source of a system and of all of this room that it imports.

    A system that is not in this installation has the digest of nothing.
    """
    entry = shelved(name)
    files = sorted(_closure(f"{ROOM}.{entry.module}").items())
    if not files:
        return ABSENT
    below = adapter_sha256(entry.over) if entry.over else None
    return digest_sha256({"files": [list(item) for item in files], "over": below})


def _closure(module: str) -> dict[str, str]:
    """Returns the modules of this room that a module needs, itself included, with their SHA-256."""
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _source_of(name)
        if path is None or name in found:
            continue
        source = path.read_bytes()
        found[name] = sha256_hex(source)
        waiting += _imported(ast.parse(source))
        if path.name == "__init__.py" and name != ROOM:
            waiting += [f"{name}.{child.stem}" for child in path.parent.glob("*.py")]
    return found


def _source_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def _imported(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in names if name.startswith(f"{ROOM}.")]
