"""From a pin to the files that it stands for: one function per kind of source.

Reads the fixtures folder (vendored) or the download cache, fetching what the cache lacks. Nothing of a
package is run; `exclude`, `overlay` and the checks of tree and commit come afterwards, for all alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError
from orchestrator.core.files import safe_relative
from orchestrator.core.gittree import FileEntry
from orchestrator.model.source import (
    DebSource,
    GitSource,
    NpmTarballSource,
    PypiSdistSource,
    Source,
    VendoredSource,
)
from orchestrator.sources.archive import read_archive
from orchestrator.sources.deb import DebPin, data_archive, fetch_debs
from orchestrator.sources.fetch import PinnedFile, fetch
from orchestrator.sources.npm import NpmPin, fetch_npm
from orchestrator.sources.upstream import read_upstream

Files = dict[str, FileEntry]
Notes = tuple[str, ...]


def read_origin(source: Source, *, fixtures: Path, cache: Path) -> tuple[Files, Notes]:
    """Returns the files of a source by path, and notes on what was left out.

    Raises:
        EnvironmentMissing: neither cache nor index has it.
        IntegrityError: the bytes are not the pinned ones.
        DocumentError: the archive holds what no honest archive has.
    """
    match source:
        case VendoredSource():
            where = safe_relative(source.path, where=f"source {source.id}")
            return _read_folder(fixtures / where, source), ()
        case PypiSdistSource():
            pin = PinnedFile(source.name, (source.archive_sha256,), source.filename)
            data = fetch(pin, cache).read_bytes()
            return read_archive(data, strip=source.strip_components, where=source.filename)
        case NpmTarballSource():
            return _read_npm(source, cache)
        case DebSource():
            return _read_deb(source, cache)
        case GitSource():
            files, notes, _ = read_upstream(source, cache)
            return _below(files, source.subdir, source.id), notes
    assert_never(source)


def archive_of(source: Source, *, cache: Path) -> tuple[str, Path] | None:
    """Returns (SHA-256, path in the cache) of what a source was fetched as; None for a vendored one."""
    match source:
        case VendoredSource():
            return None
        case PypiSdistSource():
            pin = PinnedFile(source.name, (source.archive_sha256,), source.filename)
            return source.archive_sha256, fetch(pin, cache)
        case NpmTarballSource():
            return source.archive_sha256, fetch_npm([_npm_pin(source)], cache)[0]
        case DebSource():
            return source.archive_sha256, fetch_debs([_deb_pin(source)], cache)[0]
        case GitSource():
            from orchestrator.sources.upstream import cache_path

            _, _, packed = read_upstream(source, cache)
            return sha256_hex(packed), cache_path(source, cache)
    assert_never(source)


def _npm_pin(source: NpmTarballSource) -> NpmPin:
    return NpmPin(source.name, source.version, source.archive_sha256)


def _deb_pin(source: DebSource) -> DebPin:
    return DebPin(
        source.suite, source.name, source.version, source.architecture, source.archive_sha256
    )


def _read_npm(source: NpmTarballSource, cache: Path) -> tuple[Files, Notes]:
    data = fetch_npm([_npm_pin(source)], cache)[0].read_bytes()
    files, notes = read_archive(data, strip=source.strip_components, where=source.filename)
    return _below(files, source.subdir, source.id), notes


def _read_deb(source: DebSource, cache: Path) -> tuple[Files, Notes]:
    package = fetch_debs([_deb_pin(source)], cache)[0].read_bytes()
    where = f"{source.name} {source.version}"
    files, notes = read_archive(data_archive(package, where=where), strip=0, where=where)
    inner = _below(files, source.subdir, source.id)
    for carried in source.carry:
        if carried.path not in files:
            raise DocumentError(
                "carried-file-missing",
                f"source {source.id}: expected {carried.path} in {where}, found none",
                hint="name a file of the package in `carry`",
            )
        to = str(safe_relative(carried.to, where=f"source {source.id}"))
        inner[to] = FileEntry(to, "100644", files[carried.path].data)
    return inner, notes


def _below(files: Files, subdir: str | None, source_id: str) -> Files:
    """Returns the files below a folder, by their path inside it."""
    if subdir is None:
        return files
    prefix = f"{safe_relative(subdir, where=f'source {source_id}')}/"
    inner = {
        path.removeprefix(prefix): FileEntry(path.removeprefix(prefix), entry.mode, entry.data)
        for path, entry in files.items()
        if path.startswith(prefix)
    }
    if not inner:
        raise DocumentError(
            "subdir-missing",
            f"source {source_id}: expected files below {subdir}, found none",
            hint="name a folder of the archive in `subdir`",
        )
    return inner


def _read_folder(folder: Path, source: VendoredSource) -> dict[str, FileEntry]:
    files: dict[str, FileEntry] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if "__pycache__" in name.parts or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink() or not path.is_file() or ".git" in name.parts:
            raise DocumentError(
                "vendored-not-plain",
                f"source {source.id}: expected plain files, found {name.as_posix()}",
                hint="replace it by a regular file, or remove it",
            )
        # Only the pin knows the modes: a wheel does not keep the x bit, so vendored files are all plain.
        files[name.as_posix()] = FileEntry(name.as_posix(), "100644", path.read_bytes())
    if not files:
        raise DocumentError(
            "vendored-missing",
            f"source {source.id}: expected files below fixtures/{source.path}, found none",
            hint="restore the folder",
        )
    return files
