"""One entry point by its exact name, with its provenance: who provides it, and the digest of its code.

Loads nothing until asked for by name, and then from the source that the digest is over: bytecode that lies
beside it is never run. Reads the metadata and files of installed packages; adds a finder to the import system.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
from typing import cast

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.errors import EnvironmentMissing, UsageError

MEMORY_GROUP = "memtrial.memory"
_CACHE = "__pycache__"
_BYTECODE = frozenset({".pyc", ".pyo"})


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point and where it comes from; `root` is the folder (or lone file) that the digest is over, `files` its parts."""

    name: str
    distribution: str
    version: str
    sha256: str
    root: Path
    files: Mapping[Path, str]
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
    root = _root_of(entry)
    files = _files_of(name, root)
    return Plugin(
        name=name,
        distribution=entry.dist.name if entry.dist else "unknown",
        version=entry.dist.version if entry.dist else "unknown",
        sha256=digest_sha256(
            sorted([path.relative_to(root.parent).as_posix(), part] for path, part in files.items())
        ),
        root=root,
        files=files,
        entry=entry,
    )


def _root_of(entry: EntryPoint) -> Path:
    """Returns the folder of the top package that the entry point is in, or the file of a lone module."""
    top = entry.module.partition(".")[0]
    # Where the installation has it, not where an earlier look of ours found it.
    finders = [finder for finder in sys.meta_path if not isinstance(finder, _FromSource)]
    specs = (finder.find_spec(top, None) for finder in finders)
    spec = next((spec for spec in specs if spec is not None), None)
    if spec is not None and spec.origin is None:
        raise EnvironmentMissing(
            "plugin-without-root",
            f"entry point {entry.name}: expected a package with an __init__.py, found the namespace {top}",
            hint="give the entry point a top package of its own: a namespace has no folder that could be pinned",
        )
    if spec is None or spec.origin is None:
        raise EnvironmentMissing(
            "plugin-broken",
            f"entry point {entry.name}: expected a module {top}, found none",
            hint="install the package again",
        )
    origin = Path(spec.origin)
    if origin.suffix in _BYTECODE:
        raise EnvironmentMissing(
            "plugin-without-source",
            f"entry point {entry.name}: expected {top} with its source, found bytecode alone",
            hint="install the package with its source, or bring it as a program (docs/how-to/plug-in-a-memory.md)",
        )
    return origin.parent if origin.name == "__init__.py" else origin


def _files_of(name: str, root: Path) -> dict[Path, str]:
    """Returns the SHA-256 of all that can be loaded from a package: every file but the interpreter's own cache."""
    lone: Iterable[tuple[str, list[str], list[str]]] = [(str(root.parent), [], [root.name])]
    found = {}
    for folder, folders, files in os.walk(str(root)) if root.is_dir() else lone:
        linked = [inner for inner in folders if (Path(folder) / inner).is_symlink()]
        if linked:
            raise EnvironmentMissing(
                "plugin-linked",
                f"entry point {name}: expected folders of its own, found the link {Path(folder) / linked[0]}",
                hint="install the package as a copy, not as links to another place",
            )
        for file in files:
            path = Path(folder) / file
            cached = path.parent.name == _CACHE and path.suffix in _BYTECODE
            if path.is_file() and not cached:
                found[path] = sha256_hex(path.read_bytes())
    return found


def load_plugin(plugin: Plugin) -> object:
    """Loads what an entry point names, with its package taken from source.

    Raises:
        EnvironmentMissing: its package is loaded already, in another way.
    """
    top = plugin.entry.module.partition(".")[0]
    finder = _FromSource(top, plugin.root, tuple(sorted(plugin.files.items())))
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)
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
    """Compiles the pinned source each time; bytecode beside it is neither read nor written."""

    def __init__(self, pinned: Mapping[Path, str], fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self._pinned = pinned

    def get_code(self, fullname: str) -> CodeType:
        """Returns the module's code."""
        path = self.get_filename(fullname)
        data = self.get_data(path)
        require_pinned(self._pinned, Path(path), data)
        return self.source_to_code(data, path)


def require_pinned(pinned: Mapping[Path, str], path: Path, data: bytes) -> None:
    """Refuses bytes that are not those that the package was pinned by.

    Raises:
        ImportError: they are others.
    """
    if pinned.get(path) != sha256_hex(data):
        raise ImportError(f"expected {path} as it was pinned, found other bytes")


@dataclass(frozen=True)
class _FromSource:
    """Finds one top package and all below it by its source (or its compiled extensions), and only below its root."""

    top: str
    root: Path
    files: tuple[tuple[Path, str], ...]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns where a module of the package is.

        Raises:
            ModuleNotFoundError: the package has it as bytecode only, elsewhere, or not at all.
        """
        if fullname.partition(".")[0] != self.top:
            return None
        pinned = dict(self.files)
        # A finder makes its loaders by calling what it is given with a name and a path.
        source = cast("type[SourceFileLoader]", partial(_Source, pinned))
        kinds = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (source, SOURCE_SUFFIXES))
        for folder in [str(self.root.parent)] if path is None else path:
            spec = FileFinder(folder or ".", *kinds).find_spec(fullname)
            if spec is not None and spec.loader is not None and self._pinned(spec.origin):
                if isinstance(spec.loader, ExtensionFileLoader):
                    binary = Path(spec.loader.path)
                    require_pinned(pinned, binary, binary.read_bytes())
                return spec
        raise ModuleNotFoundError(f"no source of {fullname} below {self.root}", name=fullname)

    def _pinned(self, origin: str | None) -> bool:
        """Whether a file is one that the digest is over: a package may point its path at other folders."""
        found = Path(origin or "").absolute()
        return found == self.root or found.is_relative_to(self.root)
