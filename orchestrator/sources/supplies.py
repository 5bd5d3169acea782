"""What toolchain images are made of, from cache or index: unpacked files of pinned packages.

Nothing of a package is run. Reads and fills the download cache.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from pathlib import Path

from orchestrator.core.errors import DocumentError
from orchestrator.core.gittree import FileEntry
from orchestrator.model.images import PackageLock, PinnedPackage
from orchestrator.sources.archive import read_archive
from orchestrator.sources.deb import DebPin, fetch_debs, unpacked
from orchestrator.sources.npm import NpmPin, fetch_npm


def package_files(lock: PackageLock, exclude: tuple[str, ...], cache: Path) -> Iterator[FileEntry]:
    """Yields the files of a lock's packages: npm tarballs at their `path`, Debian packages at their own places.

    npm's `node_modules` lies at the root of the file system, where every way of resolving a module
    reaches it from any folder.

    Raises:
        DocumentError: an entry of the lock has neither a path nor suite and architecture.
    """
    tarballs = [package for package in lock.packages if package.path is not None]
    debs = [_deb_pin(package) for package in lock.packages if package.path is None]
    pins = [NpmPin(p.name, p.version, p.sha256) for p in tarballs]
    for package, path in zip(tarballs, fetch_npm(pins, cache), strict=True):
        files, _ = read_archive(path.read_bytes(), strip=1, where=path.name)
        for inner, entry in files.items():
            if not any(fnmatch.fnmatchcase(inner, pattern) for pattern in exclude):
                yield FileEntry(f"{package.path}/{inner}", entry.mode, entry.data)
    for pin, path in zip(debs, fetch_debs(debs, cache), strict=True):
        yield from unpacked(path.read_bytes(), where=pin.filename, exclude=exclude)


def _deb_pin(package: PinnedPackage) -> DebPin:
    suite = _given(package, package.suite, "suite")
    architecture = _given(package, package.architecture, "architecture")
    return DebPin(suite, package.name, package.version, architecture, package.sha256)


def _given(package: PinnedPackage, value: str | None, what: str) -> str:
    if value is None:
        raise DocumentError(
            "package-lock-invalid",
            f"{package.name}: expected its {what} in the lock, found none",
            hint="renew the lock with tools/relock.py",
        )
    return value
