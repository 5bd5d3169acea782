"""Where the base layer comes from: engine or cache, a bootstrap, or an image that the operator pins by digest.

`images/lock.json` says what the base must be. When the distribution's packages have moved on, the
difference is said, an ignored local lock is written, and work goes on; official runs refuse.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import docker
from docker.errors import DockerException, ImageNotFound
from pydantic import Field
from requests import RequestException

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, EnvironmentMissing, IntegrityError
from orchestrator.core.files import write_atomic
from orchestrator.model.base import Document, ImageId
from orchestrator.model.images import ImageLock, LockedImage, LockedPackage
from orchestrator.sandbox.bootstrap import BaseRecipe, bootstrap, packages_of
from orchestrator.sandbox.engine import Say
from orchestrator.sandbox.layers import MTIME_S, Layer, layer_of_file

BASE_IMAGE = "MEMTRIAL_BASE_IMAGE"
MAX_DIFFERENCES_SHOWN = 40
ENGINE_FILES = frozenset({".dockerenv", "etc/hostname", "etc/hosts", "etc/mtab", "etc/resolv.conf"})


@dataclass(frozen=True, slots=True)
class Base:
    """The base layer with where it came from and what is in it."""

    layer: Layer
    origin: str
    packages: tuple[LockedPackage, ...]


class CachedBase(Document):
    """What lies beside a cached base layer, so that no start has to read the layer itself."""

    diff_id: ImageId
    bytes: int = Field(gt=0)
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
    """Returns the base layer, making it if neither the engine nor the cache holds a locked one.

    Args:
        client: an engine; None computes with what lock and cache say.
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
        base = _from_registry(client, named, cache, say)
    else:
        recipe_bytes = (images / "base" / "recipe.json").read_bytes()
        recipe = BaseRecipe.parse(recipe_bytes, where="images/base/recipe.json")
        origin = f"debian {recipe.suite} packages, recipe {sha256_hex(recipe_bytes)[:16]}"
        path = cache / "images" / f"base-{sha256_hex(recipe_bytes)[:16]}.tar"
        locks = [x for x in (lock, None if official else read_lock(local_lock)) if x]
        base = (
            _at_hand(client, locks, origin, path)
            or (_unbacked(locks, origin, path) if client is None else None)
            or _kept(path, origin, lambda made: _make(client, recipe, made, say))
        )
    _compare(lock, base, local_lock, say, official=official)
    return base


def _make(client: docker.DockerClient | None, recipe: BaseRecipe, target: Path, say: Say) -> None:
    if client is None:
        raise EnvironmentMissing(
            "base-not-made",
            f"expected the base of {recipe.suite} in lock or cache, found none, and without an engine none is made",
            hint="run `memtrial images`",
        )
    bootstrap(recipe, target, say)


def _at_hand(
    client: docker.DockerClient | None, locks: list[ImageLock], origin: str, path: Path
) -> Base | None:
    """Returns the first locked base that the cache or the engine holds."""
    cached = _read_cached(path)
    for lock in locks:
        image = _base_of(lock)
        if image is None or lock.base_origin != origin:
            continue
        in_cache = cached is not None and cached.diff_id == image.diff_ids[0]
        if in_cache or (client is not None and _engine_has(client, image)):
            return Base(Layer(image.diff_ids[0], image.bytes, path), origin, lock.packages)
    return None


def _unbacked(locks: list[ImageLock], origin: str, path: Path) -> Base | None:
    """Returns the base of this machine's lock, else of the committed one, without its bytes.

    Without an engine only ids are computed, and for those a lock is enough.
    """
    for lock in reversed(locks):
        image = _base_of(lock)
        if image is not None and lock.base_origin == origin:
            return Base(Layer(image.diff_ids[0], image.bytes, path), origin, lock.packages)
    return None


def _base_of(lock: ImageLock | None) -> LockedImage | None:
    return next((image for image in lock.images if image.name == "base"), None) if lock else None


def _engine_has(client: docker.DockerClient, image: LockedImage) -> bool:
    try:
        found = client.images.get(image.image_id).attrs
    except ImageNotFound:
        return False
    return tuple(found["RootFS"]["Layers"]) == image.diff_ids


def _kept(path: Path, origin: str, make: Callable[[Path], None]) -> Base:
    """Returns the cached base, made first if it is missing.

    Its bytes are hashed again when an engine is given them, not on every start.
    """
    cached = _read_cached(path)
    if cached is None:
        make(path)
        layer = layer_of_file(path)
        cached = CachedBase(
            diff_id=layer.diff_id, bytes=layer.size_bytes, packages=packages_of(path)
        )
        write_atomic(path.with_suffix(".json"), cached.canonical())
    return Base(Layer(cached.diff_id, cached.bytes, path), origin, cached.packages)


def _read_cached(path: Path) -> CachedBase | None:
    try:
        note = path.with_suffix(".json").read_bytes()
        size = path.stat().st_size
    except FileNotFoundError:
        return None
    cached = CachedBase.parse(note, where=path.with_suffix(".json").name)
    return cached if cached.bytes == size else None


def _compare(
    lock: ImageLock | None, base: Base, local_lock: Path, say: Say, *, official: bool
) -> None:
    locked = _base_of(lock)
    if locked is not None and locked.diff_ids == (base.layer.diff_id,):
        # A local lock of an earlier, differing base has had its day.
        if not _is_noted(local_lock, base):
            local_lock.unlink(missing_ok=True)
        return
    differences = package_difference(lock.packages if lock else (), base.packages)
    if official:
        raise IntegrityError(
            "base-differs",
            f"expected the locked base {locked.diff_ids[0] if locked else ''}, found {base.layer.diff_id}: {', '.join(differences) or 'same packages, other bytes'}",
            hint="use the machine or cache that made the lock, or review and re-lock the images with `memtrial images --write-lock`",
        )
    if _is_noted(local_lock, base):
        return
    if lock is None:
        say("images: there is no images/lock.json to compare with; going on with a local lock")
        return
    reason = "packages differ" if differences else "bytes differ, packages do not"
    say(
        f"images: the base is not the one of images/lock.json ({reason}); going on with a local lock"
    )
    for difference in differences[:MAX_DIFFERENCES_SHOWN]:
        say(f"  {difference}")
    if len(differences) > MAX_DIFFERENCES_SHOWN:
        say(f"  and {len(differences) - MAX_DIFFERENCES_SHOWN} more")


def _is_noted(local_lock: Path, base: Base) -> bool:
    noted = _base_of(read_lock(local_lock))
    return noted is not None and noted.diff_ids == (base.layer.diff_id,)


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
    """Pulls and pins an image by digest and takes its files as one base layer."""
    if "@sha256:" not in named:
        raise DocumentError(
            "base-not-pinned",
            f"{BASE_IMAGE}: expected NAME@sha256:DIGEST, found {named!r}",
            hint="pin the base by digest",
        )
    path = cache / "images" / f"base-{sha256_hex(named.encode())[:16]}.tar"

    def make(target: Path) -> None:
        if client is None:
            raise EnvironmentMissing(
                "base-not-made",
                f"expected the base {named} in the cache, found none",
                hint="run `memtrial images`",
            )
        say(f"images: pulling the base {named}")
        _export(client, named, target)

    return _kept(path, named, make)


def _export(client: docker.DockerClient, named: str, path: Path) -> None:
    try:
        client.images.pull(named)
        flatten(client, named, path)
    except (DockerException, RequestException, tarfile.TarError) as error:
        raise EnvironmentMissing(
            "base-not-pulled",
            f"expected to pull {named}, found: {error}",
            hint=f"check the registry, or unset {BASE_IMAGE}",
        ) from error


def flatten(client: docker.DockerClient, image: str, path: Path) -> None:
    """Writes an image's files as one layer, the same bytes on every engine.

    The engine adds files of its own to what it exports, with the time of the export; they and all times
    are left out, as are the rights that the bootstrapped base does not give either.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    made = client.containers.create(
        image, command=["true"], labels={"memtrial": "base"}, network_disabled=True
    )
    try:
        with tempfile.TemporaryFile(dir=path.parent) as raw:
            raw.writelines(cast("Iterator[bytes]", made.export()))
            raw.seek(0)
            with (
                tarfile.open(fileobj=raw, mode="r:") as old,
                tarfile.open(path.with_suffix(".new"), "w", format=tarfile.PAX_FORMAT) as new,
            ):
                for member in old:
                    _copy_member(old, new, member)
        path.with_suffix(".new").replace(path)
    finally:
        path.with_suffix(".new").unlink(missing_ok=True)
        made.remove(force=True)


def _copy_member(old: tarfile.TarFile, new: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    if member.name in ENGINE_FILES or member.isdev():
        return
    member.mtime, member.pax_headers, member.uname, member.gname = MTIME_S, {}, "", ""
    if member.isdir():
        member.mode &= ~0o1002
    elif member.isreg():
        member.mode &= ~0o6000
    new.addfile(member, old.extractfile(member) if member.isreg() else None)
