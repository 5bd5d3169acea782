"""One entry point by its exact name, with its provenance: who provides it, and the digest of its code.

Loads nothing until asked for by name; reads the metadata and files of installed packages.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.errors import EnvironmentMissing, UsageError

MEMORY_GROUP = "memtrial.memory"
_NOT_CODE = {".pyc", ".pyo"}


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point and where it comes from."""

    name: str
    distribution: str
    version: str
    sha256: str
    entry: EntryPoint


def find_plugin(group: str, name: str) -> Plugin:
    """Returns the plugin of a name, without loading it.

    Raises:
        EnvironmentMissing: no installed package provides it.
        UsageError: two packages do.
    """
    found = [entry for entry in entry_points(group=group) if entry.name == name]
    if not found:
        raise EnvironmentMissing(
            "plugin-missing",
            f"expected a package with the entry point {name} in {group}, found none",
            hint="install the package that provides it into memtrial's environment",
        )
    if len(found) > 1:
        owners = ", ".join(sorted(str(entry.dist and entry.dist.name) for entry in found))
        raise UsageError(
            "plugin-ambiguous",
            f"expected one package with the entry point {name}, found {owners}",
            hint="uninstall all but one",
        )
    entry = found[0]
    return Plugin(
        name=name,
        distribution=entry.dist.name if entry.dist else "unknown",
        version=entry.dist.version if entry.dist else "unknown",
        sha256=_code_sha256(entry),
        entry=entry,
    )


def _code_sha256(entry: EntryPoint) -> str:
    """Returns the digest over all files of the top package (or module) that the entry point is in."""
    top = entry.module.partition(".")[0]
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        raise EnvironmentMissing(
            "plugin-broken",
            f"entry point {entry.name}: expected a module {top}, found none",
            hint="install the package again",
        )
    origin = Path(spec.origin)
    root = origin.parent if origin.name == "__init__.py" else origin
    files = sorted(root.rglob("*")) if root.is_dir() else [root]
    return digest_sha256(
        [
            [path.relative_to(root.parent).as_posix(), sha256_hex(path.read_bytes())]
            for path in files
            if path.is_file() and path.suffix not in _NOT_CODE and "__pycache__" not in path.parts
        ]
    )
