"""The shared images of each language beside Python: base, toolchain layers, and our programs on top.

The layers of the base and of our programs are the very ones of the Python images, so an engine holds
them once. Writes what `Maker` writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.sandbox.base import Base
from orchestrator.sandbox.config import container_config
from orchestrator.sandbox.images import (
    architecture,
    program_layer,
    recipe_sha256,
)
from orchestrator.sandbox.layers import ImageSpec, Layer, make_image
from orchestrator.sandbox.toolchain import Maker, read_recipe


@dataclass(frozen=True, slots=True)
class LanguageImages:
    """Toolchain, agent's and verifier's image of one language."""

    name: str
    toolchain: ImageSpec
    agent: ImageSpec
    verifier: ImageSpec

    def named(self) -> dict[str, ImageSpec]:
        """Returns the images by name."""
        return {
            self.name: self.toolchain,
            f"{self.name}-agent": self.agent,
            f"{self.name}-verifier": self.verifier,
        }


def image_of(layers: tuple[Layer, ...]) -> ImageSpec:
    """Returns the image of some layers. A language adds no environment: what an arm holds is declared."""
    return make_image(layers, architecture=architecture(), container=container_config())


def assemble_language(base: Base, images: Path, name: str, maker: Maker) -> LanguageImages:
    """Puts the images of a language together.

    Raises:
        EnvironmentMissing: its recipe is for another architecture, or its layers cannot be made here.
    """
    recipe = read_recipe(images, name)
    if recipe.architecture != architecture():
        raise EnvironmentMissing(
            "language-not-for-architecture",
            f"expected the {name} toolchain for {architecture()}, found one for {recipe.architecture} only",
            hint="leave tasks of this language out with --task, or use an x86-64 machine",
        )
    layers = (base.layer, *maker.layers(name, recipe_sha256(images, name), (base.layer,)))
    return LanguageImages(
        name=name,
        toolchain=image_of(layers),
        agent=image_of((*layers, program_layer(images, "agent"))),
        verifier=image_of((*layers, program_layer(images, "verifier"))),
    )
