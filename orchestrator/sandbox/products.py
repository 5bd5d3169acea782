"""The image layer of a third-party memory product, and the image that its bridge program runs in.

Recipes: images/memory/<product>/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from orchestrator.core.gittree import FileEntry
from orchestrator.model.products import ProductRecipe
from orchestrator.sandbox.extras import Extra, Say
from orchestrator.sandbox.languages import image_of
from orchestrator.sandbox.layers import ImageSpec, Layer

PRODUCTS = Extra(folder="memory", prefix="memory", called="memory product")
ProductFiles = Callable[[ProductRecipe], Iterable[FileEntry]]


def read_product_recipe(images: Path, product: str) -> ProductRecipe:
    """Reads the recipe of a product.

    Raises:
        EnvironmentMissing: there is none, so this installation cannot make its image.
    """
    data = PRODUCTS.recipe_bytes(images, product)
    return ProductRecipe.parse(data, where=f"images/{PRODUCTS.folder}/{product}/recipe.json")


def product_recipe_sha256(images: Path, product: str) -> str:
    """Returns the digest over everything that a product's layer is made of, its locks included.

    Raises:
        EnvironmentMissing: there is no such recipe.
    """
    return PRODUCTS.recipe_sha256(images, product)


def product_layer(images: Path, cache: Path, product: str, files: ProductFiles, say: Say) -> Layer:
    """Returns the layer of a product, from the cache or made from its pinned packages.

    Raises:
        EnvironmentMissing: its recipe is for another architecture, or a package cannot be had.
        IntegrityError: a package has other bytes than the recipe says.
    """
    recipe = read_product_recipe(images, product)
    PRODUCTS.check_architecture(product, recipe.architecture)
    told = (product, recipe.version)
    return PRODUCTS.layer(images, cache, told, lambda: files(recipe), say)


def with_product(agent: ImageSpec, layer: Layer) -> ImageSpec:
    """Returns the agents' image, without a checkout, with a product's layer on top."""
    return image_of((*agent.layers, layer))
