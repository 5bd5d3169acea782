"""A scripted model: which turn it takes is read off the request itself, so a retry gets the same answer.

A scenario applies when role, model, task and all wanted facts fit; the first that applies is played.
The turn is the number of turns that the model has already taken in the request.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json
from orchestrator.model.base import Closed, Document, Slug, Text
from orchestrator.model.exchange import Role
from orchestrator.model.usage import Usage


class ScriptedCall(Closed):
    """A tool call. `arguments` is JSON text, or free text for a `custom` tool; `namespace` is its server's."""

    name: Text
    namespace: Text | None = None
    arguments: Text
    custom: bool = False

    @model_validator(mode="after")
    def _arguments_are_json(self) -> Self:
        if not self.custom:
            try:
                value = parse_json(self.arguments.encode(), where="arguments")
            except DocumentError as error:
                raise ValueError(f"arguments must be a JSON object: {error}") from error
            if not isinstance(value, dict):
                raise ValueError("arguments must be a JSON object")
        return self


class ScriptedTurn(Closed):
    """One turn: text, tool calls, or an error of the given status. Usage is counted unless given."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    fail_status: int | None = Field(default=None, ge=400, le=599)
    usage: Usage | None = None


class Wanted(Closed):
    """A fact that must stand in the request: one alternative whose parts all occur, layout and case folded."""

    any_of: tuple[tuple[Text, ...], ...] = Field(min_length=1)


class Scenario(Closed):
    """Turns for the requests that fit. After the last turn `closing` is said. `offers` names a tool that the
    request must offer.
    """

    name: Slug
    role: Role | None = None
    model: Text | None = None
    task_id: Slug | None = None
    offers: Text | None = None
    wanted: tuple[Wanted, ...] = ()
    turns: tuple[ScriptedTurn, ...] = Field(min_length=1)
    closing: Text = "Done."


class ScriptedEmbeddings(Closed):
    """How texts become vectors: `hash` is arithmetic over words, `minilm` a real small model."""

    kind: Literal["hash", "minilm"]
    dimensions: int = Field(gt=0, le=4096)

    @field_validator("dimensions")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 8:
            raise ValueError("dimensions must be a multiple of 8")
        return value


class Script(Document):
    """Everything that a scripted model says."""

    scenarios: tuple[Scenario, ...] = ()
    embeddings: ScriptedEmbeddings | None = None
