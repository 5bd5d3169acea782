"""What a bill of materials is made from, beside plan and image lock: `materials.json` of a bundle.

The environment is the sealing machine's word; recipes are named by digest and lie among the blobs. Reads
and writes nothing.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from orchestrator.model.base import Closed, Document, Sha256, Text


class Installed(Closed):
    """A Python distribution that was installed where the run was sealed. `requires` names others of them."""

    name: Text
    version: Text
    licence: Text | None
    record_sha256: Sha256 | None
    requires: tuple[Text, ...] = ()


class RecipeFile(Closed):
    """A recipe or lock of an image layer: its path below `images/`, and its digest."""

    path: Text
    sha256: Sha256


class Materials(Document):
    """The environment, and the recipes of the layers that the plan's images have."""

    environment: tuple[Installed, ...]
    recipes: tuple[RecipeFile, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        for what, names in (
            ("environment", [item.name for item in self.environment]),
            ("recipes", [item.path for item in self.recipes]),
        ):
            if names != sorted(set(names)):
                raise ValueError(f"{what} must be sorted and unique")
        return self
