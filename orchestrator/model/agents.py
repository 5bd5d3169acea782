"""Real agents as documents: the recipe of an image layer, the identity in a plan, an agent as a small file.

`images/agents/<name>/recipe.json` is the recipe; every byte that it lays into an image is pinned by a
SHA-256. Reads and writes nothing.
"""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text
from orchestrator.model.transcript import TranscriptFormat
from orchestrator.model.usage import Api

_PLACE = re.compile(r"\{([^{}]*)\}")


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


class CommandAgent(Document):
    """Any command line as an agent. `{base_url}` and `{model}` stand for the gateway's address and the model.

    `{token}` may stand in a value of the environment, `{prompt}` in an argument if `prompt` is `argument`.
    `layer` names the packaged agent whose image layer holds the program. The last four fields say how a
    scripted model is understood: wire format, shell tool, its argument, a command that ends the work.
    """

    agent: Slug
    argv: tuple[Text, ...] = Field(min_length=1)
    environment: tuple[tuple[Text, str], ...] = ()
    prompt: Literal["stdin", "argument"] = "stdin"
    events: TranscriptFormat = "lines"
    layer: Slug | None = None
    model: Text
    api: Api
    tool: Text
    argument: Text
    farewell: Text | None = None

    @model_validator(mode="after")
    def _places_are_known(self) -> Self:
        in_argument = {"base_url", "model"} | ({"prompt"} if self.prompt == "argument" else set())
        words = [(word, in_argument) for word in self.argv]
        words += [(value, {"base_url", "model", "token"}) for _, value in self.environment]
        for word, allowed in words:
            for place in _PLACE.findall(word):
                if place not in allowed:
                    raise ValueError(
                        f"{{{place}}} cannot stand in {word[:60]!r}; known there: {sorted(allowed)}"
                    )
        names = [name for name, _ in self.environment]
        if len(set(names)) != len(names):
            raise ValueError("environment names each variable once")
        return self

    @model_validator(mode="after")
    def _prompt_and_token_arrive(self) -> Self:
        if self.prompt == "argument" and not any("{prompt}" in word for word in self.argv):
            raise ValueError("prompt is to be an argument, and no argument has {prompt}")
        if not any("{token}" in value for _, value in self.environment):
            raise ValueError(
                "no variable of the environment has {token}: it could not ask the gateway"
            )
        return self
