"""A third-party memory product as a document: what the image layer is made of that its bridge program stands on.

`images/memory/<product>/recipe.json`; every byte that it lays into an image is pinned by a SHA-256. Reads nothing.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.agents import AgentWheel
from orchestrator.model.base import Document, Slug, Text
from orchestrator.model.images import PinnedPackage, WheelPart


class ProductRecipe(Document):
    """Wheels laid below `site`, packages (npm tarballs at their `path`, Debian packages), parts of wheels (a runtime).

    `package` and `version` are the product's own; the lock beside the recipe has the registries' own hashes.
    """

    product: Slug
    architecture: Literal["amd64"]
    package: Text
    version: Text
    licence: Text
    wheels: tuple[AgentWheel, ...] = ()
    site: Text | None = None
    packages: tuple[PinnedPackage, ...] = ()
    parts: tuple[WheelPart, ...] = ()
    exclude: tuple[Text, ...] = ()
    note: Text = Field(default="none")

    @model_validator(mode="after")
    def _wheels_have_a_place(self) -> Self:
        if bool(self.wheels) != (self.site is not None):
            raise ValueError("site is given exactly where wheels are")
        if not (self.wheels or self.packages):
            raise ValueError("a product is made of wheels or packages, found neither")
        return self
