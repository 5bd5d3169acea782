"""Where the base layer comes from: the cache, a bootstrap, or an image that the operator pins by digest.

`images/lock.json` says what the base must be. When the distribution's packages have moved on, the
difference is said, an ignored local lock is written, and work goes on; official runs refuse.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import APIError, ImageNotFound

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, EnvironmentMissing, IntegrityError
from orchestrator.core.files import write_atomic
from orchestrator.model.images import ImageLock, LockedPackage
from orchestrator.sandbox.bootstrap import BaseRecipe, bootstrap, packages_of
from orchestrator.sandbox.engine import Say
from orchestrator.sandbox.layers import Layer, layer_of_file

BASE_IMAGE = "MEMTRIAL_BASE_IMAGE"


@dataclass(frozen=True, slots=True)
class Base:
    """The base layer with where it came from and what is in it."""

    layer: Layer
    origin: str
    packages: tuple[LockedPackage, ...]


def read_lock(path: Path) -> ImageLock | None:
    """Reads a lock; None if there is no such file.

    Raises:
        DocumentError: the file is not a lock.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return ImageLock.parse(data, where=path.name)


def ensure_base(
    client: docker.DockerClient | None,
    images: Path,
    cache: Path,
    local_lock: Path,
    say: Say,
    *,
    official: bool = False,
) -> Base:
    """Returns the base layer, making it if the cache does not hold it.

    Args:
        client: an engine, needed only for MEMTRIAL_BASE_IMAGE.
        images: the image recipes with lock.json.
        cache: where base layers are kept, by recipe.
        local_lock: where a differing base is written down.
        say: progress lines.
        official: refuse a base that is not the locked one.

    Raises:
        IntegrityError: official, and the base is not the locked one.
        EnvironmentMissing: the base cannot be made here.
    """
    lock = read_lock(images / "lock.json")
    named = os.environ.get(BASE_IMAGE)
    if named:
        return _from_registry(client, named, cache, say)
    recipe_bytes = (images / "base" / "recipe.json").read_bytes()
    recipe = BaseRecipe.parse(recipe_bytes, where="images/base/recipe.json")
    path = cache / "images" / f"base-{sha256_hex(recipe_bytes)[:16]}.tar"
    layer = _cached(path)
    if layer is None:
        bootstrap(recipe, path, say)
        layer = layer_of_file(path)
        write_atomic(path.with_suffix(".diff-id"), layer.diff_id.encode())
    base = Base(layer, f"debian {recipe.suite} packages", packages_of(path))
    _compare(lock, base, local_lock, say, official=official)
    return base


def _cached(path: Path) -> Layer | None:
    """Returns the cached layer. Its bytes are hashed again when the engine needs them, not on every start."""
    try:
        diff_id = path.with_suffix(".diff-id").read_text(encoding="ascii").strip()
        size = path.stat().st_size
    except FileNotFoundError:
        return None
    return Layer(diff_id, size, path)


def _compare(
    lock: ImageLock | None, base: Base, local_lock: Path, say: Say, *, official: bool
) -> None:
    locked = next((image for image in lock.images if image.name == "base"), None) if lock else None
    if locked is not None and locked.diff_ids == (base.layer.diff_id,):
        return
    differences = package_difference(lock.packages if lock else (), base.packages)
    if official:
        raise IntegrityError(
            "base-differs",
            f"expected the locked base, found {base.layer.diff_id}: {', '.join(differences) or 'same packages, other bytes'}",
            hint="use the machine or cache that made the lock, or review and re-lock the images",
        )
    if not local_lock.exists():
        say(
            "images: the distribution's packages differ from images/lock.json; going on with a local lock"
        )
        for difference in differences[:40]:
            say(f"  {difference}")


def package_difference(old: tuple[LockedPackage, ...], new: tuple[LockedPackage, ...]) -> list[str]:
    """Returns one line for each package that differs: `name old -> new`."""
    before = {package.name: package.version for package in old}
    after = {package.name: package.version for package in new}
    return [
        f"{name} {before.get(name, 'absent')} -> {after.get(name, 'absent')}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _from_registry(client: docker.DockerClient | None, named: str, cache: Path, say: Say) -> Base:
    """Pulls and pins an image by digest and takes its layers as one base layer."""
    if "@sha256:" not in named:
        raise DocumentError(
            "base-not-pinned",
            f"{BASE_IMAGE}: expected NAME@sha256:DIGEST, found {named!r}",
            hint="pin the base by digest",
        )
    path = cache / "images" / f"base-{sha256_hex(named.encode())[:16]}.tar"
    layer = _cached(path)
    if layer is None:
        if client is None:
            raise EnvironmentMissing(
                "base-not-made",
                f"expected the base {named} in the cache, found none",
                hint="run `memtrial images`",
            )
        say(f"images: pulling the base {named}")
        _export(client, named, path)
        layer = layer_of_file(path)
        write_atomic(path.with_suffix(".diff-id"), layer.diff_id.encode())
    return Base(layer, named, packages_of(path))


def _export(client: docker.DockerClient, named: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        repository, _, digest = named.partition("@")
        client.api.pull(repository, tag=digest)
        made = client.api.create_container(
            named, command=["true"], labels={"memtrial": "base"}, network_disabled=True
        )["Id"]
        try:
            with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
                for piece in client.api.export(made):
                    file.write(piece)
            Path(file.name).replace(path)
        finally:
            client.api.remove_container(made, force=True)
    except (APIError, ImageNotFound, tarfile.TarError) as error:
        raise EnvironmentMissing(
            "base-not-pulled",
            f"expected to pull {named}, found: {error}",
            hint=f"check the registry, or unset {BASE_IMAGE}",
        ) from error
