"""The image layer of a real agent, and the image of a task with that layer in it.

A layer lies in the cache under the digest of its recipe and is made once per machine; it is an extra:
no ordinary image needs it and images/lock.json does not name it. Recipes: images/agents/<name>/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.errors import EnvironmentMissing
from orchestrator.core.files import write_atomic
from orchestrator.core.gittree import FileEntry
from orchestrator.model.agents import AgentIdentity, AgentRecipe
from orchestrator.sandbox.images import RECIPE_SUFFIXES, architecture
from orchestrator.sandbox.languages import image_of
from orchestrator.sandbox.layers import ImageSpec, Layer, write_layer
from orchestrator.sandbox.toolchain import CachedLayer, CachedLayers, cached_layers, layer_tar

FOLDER = "agents"
Say = Callable[[str], None]
AgentFiles = Callable[[AgentRecipe], Iterable[FileEntry]]


def read_agent_recipe(images: Path, name: str) -> AgentRecipe:
    """Reads the recipe of an agent.

    Raises:
        EnvironmentMissing: there is none, so this installation cannot make its image.
    """
    return AgentRecipe.parse(
        recipe_bytes(images, name), where=f"images/{FOLDER}/{name}/recipe.json"
    )


def recipe_bytes(images: Path, name: str) -> bytes:
    """Returns the bytes of an agent's recipe: they pin every file of its layer.

    Raises:
        EnvironmentMissing: there is none, so this installation cannot make its image.
    """
    path = images / FOLDER / name / "recipe.json"
    if not path.is_file():
        raise EnvironmentMissing(
            "agent-recipe-missing",
            f"expected a recipe of agent {name} in images/{FOLDER}/{name}, found none",
            hint="restore it, or choose another agent",
        )
    return path.read_bytes()


def agent_recipe_sha256(images: Path, name: str) -> str:
    """Digest over everything that an agent's layer is made of."""
    files = {
        path.name: sha256_hex(path.read_bytes())
        for path in sorted((images / FOLDER / name).iterdir())
        if path.is_file() and path.suffix in RECIPE_SUFFIXES
    }
    return digest_sha256({"files": files})


def identity_of(images: Path, name: str) -> AgentIdentity:
    """Returns the identity of an agent as a plan pins it."""
    recipe = read_agent_recipe(images, name)
    return AgentIdentity(
        package=recipe.package,
        program=f"/{recipe.program}",
        program_sha256=recipe.program_sha256,
        recipe_sha256=agent_recipe_sha256(images, name),
    )


def agent_layer(images: Path, cache: Path, name: str, files: AgentFiles, say: Say) -> Layer:
    """Returns the layer of an agent, from the cache or made from its pinned packages.

    Raises:
        EnvironmentMissing: its recipe is for another architecture, or a package cannot be had.
        IntegrityError: a package has other bytes than the recipe says.
    """
    recipe = read_agent_recipe(images, name)
    if recipe.architecture != architecture():
        raise EnvironmentMissing(
            "agent-not-for-architecture",
            f"expected agent {name} for {architecture()}, found a recipe for {recipe.architecture} only",
            hint="choose another agent, or use an x86-64 machine",
        )
    stem = cache / "images" / f"agent-{name}-{agent_recipe_sha256(images, name)[:16]}"
    found = cached_layers(stem)
    if found is not None:
        return found[0]
    say(f"images: making the layer of {name} {recipe.package.version} (once per machine)")
    made = write_layer(layer_tar(stem, 0), files(recipe))
    note = CachedLayers(layers=(CachedLayer(diff_id=made.diff_id, bytes=made.size_bytes),))
    write_atomic(stem.with_suffix(".json"), note.canonical())
    return made


def with_agent(task_agent: ImageSpec, layer: Layer) -> ImageSpec:
    """Returns a task's agent image with an agent's layer below the checkout, which stays the last layer."""
    return image_of((*task_agent.layers[:-1], layer, task_agent.layers[-1]))
