"""Layers that no ordinary image needs: an agent's, or a memory product's. Made once per machine, when asked for.

A layer lies in the cache under the digest of its recipe's folder; `images/lock.json` does not name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.errors import EnvironmentMissing
from orchestrator.core.files import write_atomic
from orchestrator.core.gittree import FileEntry
from orchestrator.sandbox.images import RECIPE_SUFFIXES, architecture
from orchestrator.sandbox.layers import Layer, write_layer
from orchestrator.sandbox.toolchain import CachedLayer, CachedLayers, cached_layers, layer_tar

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Extra:
    """A kind of extra: the folder of its recipes below `images/`, its name in the cache, how people call it."""

    folder: str
    prefix: str
    called: str

    def recipe_bytes(self, images: Path, name: str) -> bytes:
        """Returns the bytes of a recipe: they pin every file of its layer.

        Raises:
            EnvironmentMissing: there is none, so this installation cannot make its image.
        """
        where = f"images/{self.folder}/{name}/recipe.json"
        path = images / self.folder / name / "recipe.json"
        if not path.is_file():
            raise EnvironmentMissing(
                f"{self.prefix}-recipe-missing",
                f"expected a recipe of the {self.called} {name} in {where}, found none",
                hint=f"restore it, or choose another {self.called}",
            )
        return path.read_bytes()

    def recipe_sha256(self, images: Path, name: str) -> str:
        """Returns the digest over everything that a layer is made of, its locks included.

        Raises:
            EnvironmentMissing: there is no such recipe.
        """
        self.recipe_bytes(images, name)
        files = {
            path.name: sha256_hex(path.read_bytes())
            for path in sorted((images / self.folder / name).iterdir())
            if path.is_file() and path.suffix in RECIPE_SUFFIXES
        }
        return digest_sha256({"files": files})

    def check_architecture(self, name: str, recipe_architecture: str) -> None:
        """Refuses a recipe for another kind of machine.

        Raises:
            EnvironmentMissing: it is.
        """
        if recipe_architecture != architecture():
            raise EnvironmentMissing(
                f"{self.prefix}-not-for-architecture",
                f"expected the {self.called} {name} for {architecture()}, found a recipe for {recipe_architecture} only",
                hint=f"choose another {self.called}, or use an x86-64 machine",
            )

    def layer(
        self,
        images: Path,
        cache: Path,
        told: tuple[str, str],
        files: Callable[[], Iterable[FileEntry]],
        say: Say,
    ) -> Layer:
        """Returns a layer, from the cache or made from its pinned packages.

        Args:
            images: the folder of the recipes.
            cache: the user's cache.
            told: name and version.
            files: gives the layer's files, where it has to be made.
            say: shows what is being done.
        """
        name, version = told
        stem = cache / "images" / f"{self.prefix}-{name}-{self.recipe_sha256(images, name)[:16]}"
        found = cached_layers(stem)
        if found is not None:
            return found[0]
        say(f"images: making the layer of {name} {version} (once per machine)")
        made = write_layer(layer_tar(stem, 0), files())
        note = CachedLayers(layers=(CachedLayer(diff_id=made.diff_id, bytes=made.size_bytes),))
        write_atomic(stem.with_suffix(".json"), note.canonical())
        return made
