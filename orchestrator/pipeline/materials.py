"""Stores the recipes of a plan's image layers among a run's blobs, and lists them beside the environment."""

from __future__ import annotations

from pathlib import Path

from orchestrator.attest.sbom import installed_distributions
from orchestrator.attest.software import PACKAGES, PYTHON_LOCK, RECIPE, image_languages, layer_of
from orchestrator.core.errors import IntegrityError
from orchestrator.ledger.blobs import BlobStore
from orchestrator.model.materials import Materials, RecipeFile
from orchestrator.model.plan import Plan
from orchestrator.sandbox.images import RECIPE_SUFFIXES


def collect_materials(plan: Plan, blobs: BlobStore, images: Path) -> Materials:
    """Returns what the bill of materials of a run is made from; tasks' cards are stored already.

    Raises:
        IntegrityError: a recipe is missing.
    """
    paths: set[Path] = set()
    for language in set(image_languages(plan, blobs.get).values()):
        if language == "python":
            paths.add(images / PYTHON_LOCK)
            continue
        paths.add(images / language / RECIPE)
        packages = images / language / PACKAGES
        paths |= {packages} if packages.is_file() else set()
    for layer in {layer_of(agent) for agent in plan.agents} - {None}:
        folder = images / "agents" / str(layer)
        paths |= {p for p in folder.glob("*") if p.is_file() and p.suffix in RECIPE_SUFFIXES}
    recipes = {path.relative_to(images).as_posix(): _stored(path, blobs) for path in paths}
    return Materials(
        environment=installed_distributions(),
        recipes=tuple(RecipeFile(path=path, sha256=recipes[path]) for path in sorted(recipes)),
    )


def _stored(path: Path, blobs: BlobStore) -> str:
    if not path.is_file():
        raise IntegrityError(
            "inputs-changed",
            f"expected the recipe {path.name} of an image of the plan, found none at {path}",
            hint="restore images/ as it was when the plan was made, then run `memtrial seal`",
        )
    return blobs.put(path.read_bytes())
