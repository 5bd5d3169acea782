"""The software of a run, read from what its bundle holds: environment, image lock, recipes and locks of layers.

The seal and its verification read it alike. Reads blobs by digest; knows no folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orchestrator.core.canonical import digest_sha256
from orchestrator.core.errors import IntegrityError
from orchestrator.model.agents import AgentRecipe
from orchestrator.model.images import IMAGE_OF, ImageLock, PackageLock, ToolchainRecipe
from orchestrator.model.materials import Installed, Materials
from orchestrator.model.plan import AgentPin, Plan
from orchestrator.model.task import TaskCard

PYTHON_LOCK = "python/requirements.lock"
RECIPE = "recipe.json"
PACKAGES = "packages.lock.json"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What the layer of a language is made of."""

    recipe: ToolchainRecipe
    packages: PackageLock | None


@dataclass(frozen=True, slots=True)
class Software:
    """Everything that a bill of materials names."""

    environment: tuple[Installed, ...]
    lock: ImageLock | None
    languages: dict[str, str]
    python_lock: str | None
    toolchains: dict[str, Toolchain]
    agents: dict[str, AgentRecipe]


def image_languages(plan: Plan, get: Callable[[str], bytes]) -> dict[str, str]:
    """Returns the language of each task's images, from the tasks' cards."""
    found = {}
    for pin in plan.tasks:
        data = get(pin.digests.card_sha256)
        card = TaskCard.parse_canonical(data, where=f"card of {pin.digests.id}")
        found[pin.digests.id] = IMAGE_OF[card.language]
    return found


def layer_of(agent: AgentPin) -> str | None:
    """Returns the name of the layer that an agent brings, if it brings one."""
    if agent.identity is None:
        return None
    return (agent.command.layer if agent.command else None) or agent.name


def read_software(
    plan: Plan, materials: Materials, lock_sha256: str | None, get: Callable[[str], bytes]
) -> Software:
    """Reads all that `materials` names and checks it against the plan.

    Args:
        plan: the run's plan.
        materials: environment, and recipes by digest.
        lock_sha256: digest of the image lock, if the seal has one.
        get: returns a blob.

    Raises:
        IntegrityError: recipes are missing, superfluous, or not those that the plan pins.
        DocumentError: one of them is malformed.
    """
    files = {item.path: get(item.sha256) for item in materials.recipes}
    digests = {item.path: item.sha256 for item in materials.recipes}
    languages = image_languages(plan, get)
    toolchains = {
        name: _toolchain(name, files) for name in sorted(set(languages.values()) - {"python"})
    }
    layers = {layer_of(agent): agent for agent in plan.agents}
    agents = {name: _agent(name, files) for name in layers if name is not None}
    _check_known(files, languages, toolchains, agents)
    for name in agents:
        _check_agent(layers[name], f"agents/{name}/", digests)
    if digests.get(PYTHON_LOCK, plan.toolchain.python_lock_sha256) != (
        plan.toolchain.python_lock_sha256
    ):
        raise _differs("the lock of the Python runner that the plan pins", "another")
    lock = ImageLock.parse(get(lock_sha256), where="image lock") if lock_sha256 else None
    python = _need(files, PYTHON_LOCK) if "python" in languages.values() else None
    return Software(
        environment=materials.environment,
        lock=lock,
        languages=languages,
        python_lock=python.decode() if python is not None else None,
        toolchains=toolchains,
        agents=agents,
    )


def _toolchain(name: str, files: Mapping[str, bytes]) -> Toolchain:
    recipe = ToolchainRecipe.parse(_need(files, f"{name}/{RECIPE}"), where=f"recipe of {name}")
    packages = None
    if recipe.packages:
        data = _need(files, f"{name}/{PACKAGES}")
        packages = PackageLock.parse(data, where=f"packages of {name}")
    return Toolchain(recipe, packages)


def _agent(name: str, files: Mapping[str, bytes]) -> AgentRecipe:
    data = _need(files, f"agents/{name}/{RECIPE}")
    return AgentRecipe.parse(data, where=f"recipe of agent {name}")


def _check_known(
    files: Mapping[str, bytes],
    languages: Mapping[str, str],
    toolchains: Mapping[str, Toolchain],
    agents: Mapping[str, AgentRecipe],
) -> None:
    known = {PYTHON_LOCK} if "python" in languages.values() else set()
    for name, toolchain in toolchains.items():
        known |= {f"{name}/{RECIPE}"}
        known |= {f"{name}/{PACKAGES}"} if toolchain.packages else set()
    folders = tuple(f"agents/{name}/" for name in agents)
    strange = sorted(
        path for path in files if path not in known and not path.startswith(folders or ("//",))
    )
    if strange:
        raise _differs("recipes of the plan's images alone", ", ".join(strange[:3]))


def _check_agent(agent: AgentPin, folder: str, digests: Mapping[str, str]) -> None:
    """The plan pins all files of an agent's recipe together."""
    mine = {p.removeprefix(folder): sha for p, sha in digests.items() if p.startswith(folder)}
    if agent.identity is None or agent.identity.recipe_sha256 != digest_sha256({"files": mine}):
        raise _differs(f"the recipe of agent {agent.name} that the plan pins", "another")


def _need(files: Mapping[str, bytes], path: str) -> bytes:
    if path not in files:
        raise _differs(f"images/{path} among the recipes", "none")
    return files[path]


def _differs(expected: str, found: str) -> IntegrityError:
    return IntegrityError(
        "materials-differ",
        f"expected {expected}, found {found}",
        hint="restore images/ as it was when the plan was made and seal again, or get the bundle again from its source",
    )
