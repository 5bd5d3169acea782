"""Files of packages of agents and memory products, from cache or registry: chosen members of an npm tarball, unpacked wheels.

No script of a package runs and nothing is installed. Every member has a pinned SHA-256; a wheel's file
has that of its archive. Reads and fills the download cache.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.core.files import safe_relative
from orchestrator.core.gittree import FileEntry
from orchestrator.model.agents import AgentMember, AgentRecipe
from orchestrator.model.products import ProductRecipe
from orchestrator.sources.fetch import PinnedFile, fetch
from orchestrator.sources.npm import NpmPin, fetch_npm

MAX_MEMBER_BYTES = 512 * 1024 * 1024
# Parts of a wheel that are laid beside the modules (binary distribution format, "The .data directory").
LIBRARIES = ("purelib", "platlib")


def agent_files(recipe: AgentRecipe, cache: Path) -> Iterator[FileEntry]:
    """Yields the files of an agent's layer.

    Raises:
        EnvironmentMissing: a package is not in the cache and no registry can be reached.
        IntegrityError: a package or a file of it has other bytes than the recipe says.
        DocumentError: the recipe is at odds with itself.
    """
    if recipe.members:
        package = recipe.package
        pin = NpmPin(package.name, package.version, package.sha256)
        yield from members_of(fetch_npm([pin], cache)[0], recipe.members)
    for wheel in recipe.wheels:
        path = fetch(PinnedFile(wheel.project, (wheel.sha256,), wheel.filename), cache)
        yield from wheel_modules(path, _site(recipe))


def product_wheels(recipe: ProductRecipe, cache: Path) -> Iterator[FileEntry]:
    """Yields the modules of a memory product's wheels.

    Raises:
        EnvironmentMissing: a wheel is not in the cache and no registry can be reached.
        IntegrityError: a wheel has other bytes than the recipe says.
    """
    for wheel in recipe.wheels:
        path = fetch(PinnedFile(wheel.project, (wheel.sha256,), wheel.filename), cache)
        yield from wheel_modules(path, recipe.site or "")


def _site(recipe: AgentRecipe) -> str:
    if recipe.site is None:
        raise DocumentError(
            "agent-recipe-invalid",
            f"{recipe.agent}: expected `site`, the folder that its wheels go to, found none",
            hint="renew the recipe with tools/relock_agent.py",
        )
    return recipe.site


def members_of(path: Path, wanted: tuple[AgentMember, ...]) -> Iterator[FileEntry]:
    """Yields the wanted members of a gzip-compressed tarball; everything else in it is left alone.

    Raises:
        IntegrityError: a member is missing, too large, or has other bytes.
    """
    left = {member.member: member for member in wanted}
    with tarfile.open(path, mode="r:gz") as archive:
        for found in archive:
            member = left.pop(found.name, None) if found.isreg() else None
            if member is None:
                continue
            stream = archive.extractfile(found) if found.size <= MAX_MEMBER_BYTES else None
            data = stream.read() if stream is not None else b""
            if sha256_hex(data) != member.sha256:
                raise _changed(path, found.name, f"{len(data)} bytes with {sha256_hex(data)}")
            yield FileEntry(member.to, "100755" if member.executable else "100644", data)
    for name in left:
        raise _changed(path, name, "no such member")


def _changed(path: Path, name: str, found: str) -> IntegrityError:
    return IntegrityError(
        "agent-package-changed",
        f"{path.name}, {name}: expected the pinned bytes, found {found}",
        hint="do not use this package; check the recipe",
    )


def wheel_modules(path: Path, site: str) -> Iterator[FileEntry]:
    """Yields the modules and the metadata of a wheel below `site`; its scripts and headers are left out."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith("/"):
                continue
            first, _, rest = name.partition("/")
            if first.endswith(".data"):
                part, _, inner = rest.partition("/")
                if part not in LIBRARIES:
                    continue
                name = inner  # noqa: PLW2901 - the part of the name that is kept
            kept = safe_relative(name, where=path.name)
            yield FileEntry(
                f"{site}/{kept}", "100644", archive.read(f"{first}/{rest}" if rest else first)
            )
