"""Real agents as documents: the recipe of their image layer, and the identity that goes into a plan.

`images/agents/<name>/recipe.json` is the recipe; every byte that it lays into an image is pinned by a
SHA-256. Reads and writes nothing.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text


class AgentPackage(Closed):
    """The package that an agent is published as. `integrity` is the registry's own (SRI, or sha256)."""

    registry: Literal["npm", "pypi"]
    name: Text
    version: Text
    sha256: Sha256
    integrity: Text


class AgentMember(Closed):
    """One file of an npm package, and where it lies in the image."""

    member: Text
    to: Text
    sha256: Sha256
    executable: bool = False


class AgentWheel(Closed):
    """One wheel, unpacked into the agent's own folder of modules."""

    project: Text
    version: Text
    filename: Text
    sha256: Sha256


class AgentRecipe(Document):
    """What the layer of an agent is made of. `published` is false where its licence forbids handing it on.

    `left_out` names projects that the package asks for and the command line never imports.
    """

    agent: Slug
    architecture: Literal["amd64"]
    package: AgentPackage
    licence: Text
    published: bool
    members: tuple[AgentMember, ...] = ()
    wheels: tuple[AgentWheel, ...] = ()
    site: Text | None = None
    left_out: tuple[Text, ...] = ()
    program: Text
    program_sha256: Sha256
    note: Text = Field(default="none")


class AgentIdentity(Closed):
    """Which agent it is, to the byte: package, program file, and the recipe of everything beside them."""

    package: AgentPackage
    program: Text
    program_sha256: Sha256
    recipe_sha256: Sha256
