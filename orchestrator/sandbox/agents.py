"""The image layer of a real agent, and the image of a task with that layer in it.

Recipes: images/agents/<name>/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from orchestrator.core.gittree import FileEntry
from orchestrator.model.agents import AgentIdentity, AgentRecipe
from orchestrator.sandbox.extras import Extra, Say
from orchestrator.sandbox.languages import image_of
from orchestrator.sandbox.layers import ImageSpec, Layer

AGENTS = Extra(folder="agents", prefix="agent", called="agent")
AgentFiles = Callable[[AgentRecipe], Iterable[FileEntry]]


def read_agent_recipe(images: Path, name: str) -> AgentRecipe:
    """Reads the recipe of an agent.

    Raises:
        EnvironmentMissing: there is none, so this installation cannot make its image.
    """
    return AgentRecipe.parse(
        recipe_bytes(images, name), where=f"images/{AGENTS.folder}/{name}/recipe.json"
    )


def recipe_bytes(images: Path, name: str) -> bytes:
    """Returns the bytes of an agent's recipe: they pin every file of its layer.

    Raises:
        EnvironmentMissing: there is none, so this installation cannot make its image.
    """
    return AGENTS.recipe_bytes(images, name)


def agent_recipe_sha256(images: Path, name: str) -> str:
    """Returns the digest over everything that an agent's layer is made of."""
    return AGENTS.recipe_sha256(images, name)


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
    AGENTS.check_architecture(name, recipe.architecture)
    told = (name, recipe.package.version)
    return AGENTS.layer(images, cache, told, lambda: files(recipe), say)


def with_agent(task_agent: ImageSpec, layer: Layer) -> ImageSpec:
    """Returns a task's agent image with an agent's layer below the checkout, which stays the last layer."""
    return image_of((*task_agent.layers[:-1], layer, task_agent.layers[-1]))
