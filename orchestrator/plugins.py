"""One entry point by its exact name, with its provenance: who provides it, and the digest of its code.

Loads nothing until asked for by name, and then from the source that the digest is over: bytecode that lies
beside it is never run. Reads the metadata and files of installed packages; adds a finder to the import system.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import CodeType, ModuleType

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.errors import EnvironmentMissing, UsageError

MEMORY_GROUP = "memtrial.memory"
_CACHE = "__pycache__"


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
    if origin.suffix in {".pyc", ".pyo"}:
        raise EnvironmentMissing(
            "plugin-without-source",
            f"entry point {entry.name}: expected {top} with its source, found bytecode alone",
            hint="install the package with its source, or bring it as a program (docs/how-to/plug-in-a-memory.md)",
        )
    root = origin.parent if origin.name == "__init__.py" else origin
    files = sorted(root.rglob("*")) if root.is_dir() else [root]
    return digest_sha256(
        [
            [path.relative_to(root.parent).as_posix(), sha256_hex(path.read_bytes())]
            for path in files
            if path.is_file() and _CACHE not in path.relative_to(root.parent).parts
        ]
    )


def load_plugin(plugin: Plugin) -> object:
    """Loads what an entry point names, with its package taken from source.

    Raises:
        EnvironmentMissing: its package is loaded already, in another way.
    """
    top = plugin.entry.module.partition(".")[0]
    if not any(isinstance(finder, _FromSource) and finder.top == top for finder in sys.meta_path):
        sys.meta_path.insert(0, _FromSource(top))
    there = sys.modules.get(top)
    if there is not None and not _is_ours(there):
        raise EnvironmentMissing(
            "plugin-loaded-already",
            f"entry point {plugin.name}: expected {top} not to be loaded yet, found it loaded by another way",
            hint="start memtrial anew, and load the package nowhere else",
        )
    found: object = plugin.entry.load()
    return found


def _is_ours(module: ModuleType) -> bool:
    spec = module.__spec__
    return spec is not None and isinstance(spec.loader, (_Source, ExtensionFileLoader))


class _Source(SourceFileLoader):
    """Compiles the source each time; bytecode beside it is neither read nor written."""

    def get_code(self, fullname: str) -> CodeType:
        """Returns the module's code."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _FromSource:
    """Finds one top package and all below it by its source (or its compiled extensions), and nothing else."""

    def __init__(self, top: str) -> None:
        self.top = top

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns where a module of the package is.

        Raises:
            ModuleNotFoundError: the package has it as bytecode only, or not at all.
        """
        if fullname.partition(".")[0] != self.top:
            return None
        kinds = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (_Source, SOURCE_SUFFIXES))
        for folder in sys.path if path is None else path:
            spec = FileFinder(folder or ".", *kinds).find_spec(fullname)
            if spec is not None and spec.loader is not None:
                return spec
        raise ModuleNotFoundError(f"no source of {fullname}", name=fullname)
