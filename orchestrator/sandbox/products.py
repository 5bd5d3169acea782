"""The image layer of a third-party memory product, and the image that its bridge program runs in.

A layer lies in the cache under the digest of its recipe and is made once per machine; it is an extra:
no ordinary image needs it and images/lock.json does not name it. Recipes: images/memory/<product>/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.errors import EnvironmentMissing
from orchestrator.core.files import write_atomic
from orchestrator.core.gittree import FileEntry
from orchestrator.model.products import ProductRecipe
from orchestrator.sandbox.images import RECIPE_SUFFIXES, architecture
from orchestrator.sandbox.languages import image_of
from orchestrator.sandbox.layers import ImageSpec, Layer, write_layer
from orchestrator.sandbox.toolchain import CachedLayer, CachedLayers, cached_layers, layer_tar

FOLDER = "memory"
Say = Callable[[str], None]
ProductFiles = Callable[[ProductRecipe], Iterable[FileEntry]]


def read_product_recipe(images: Path, product: str) -> ProductRecipe:
    """Reads the recipe of a product.

    Raises:
        EnvironmentMissing: there is none, so this installation cannot make its image.
    """
    path = images / FOLDER / product / "recipe.json"
    where = f"images/{FOLDER}/{product}/recipe.json"
    if not path.is_file():
        raise EnvironmentMissing(
            "product-recipe-missing",
            f"expected a recipe of the memory product {product} in {where}, found none",
            hint="restore it, or choose another arm: `memtrial list conditions`",
        )
    return ProductRecipe.parse(path.read_bytes(), where=where)


def product_recipe_sha256(images: Path, product: str) -> str:
    """Returns the digest over everything that a product's layer is made of, its locks included.

    Raises:
        EnvironmentMissing: there is no such recipe.
    """
    read_product_recipe(images, product)
    files = {
        path.name: sha256_hex(path.read_bytes())
        for path in sorted((images / FOLDER / product).iterdir())
        if path.is_file() and path.suffix in RECIPE_SUFFIXES
    }
    return digest_sha256({"files": files})


def product_layer(images: Path, cache: Path, product: str, files: ProductFiles, say: Say) -> Layer:
    """Returns the layer of a product, from the cache or made from its pinned packages.

    Raises:
        EnvironmentMissing: its recipe is for another architecture, or a package cannot be had.
        IntegrityError: a package has other bytes than the recipe says.
    """
    recipe = read_product_recipe(images, product)
    if recipe.architecture != architecture():
        raise EnvironmentMissing(
            "product-not-for-architecture",
            f"expected the memory product {product} for {architecture()}, found a recipe for {recipe.architecture} only",
            hint="choose another arm, or use an x86-64 machine",
        )
    stem = cache / "images" / f"memory-{product}-{product_recipe_sha256(images, product)[:16]}"
    found = cached_layers(stem)
    if found is not None:
        return found[0]
    say(f"images: making the layer of {product} {recipe.version} (once per machine)")
    made = write_layer(layer_tar(stem, 0), files(recipe))
    note = CachedLayers(layers=(CachedLayer(diff_id=made.diff_id, bytes=made.size_bytes),))
    write_atomic(stem.with_suffix(".json"), note.canonical())
    return made


def with_product(agent: ImageSpec, layer: Layer) -> ImageSpec:
    """Returns the agents' image, without a checkout, with a product's layer on top."""
    return image_of((*agent.layers, layer))
