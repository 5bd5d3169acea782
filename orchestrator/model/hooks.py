"""A memory system that lives on the hooks of a coding agent: which commands, and what the harness asks them.

Read from `hooks.json` in a program's folder. Events and their standard input are those of Claude Code's
hooks; `images/memory/enactor.py` fires them while it does a history's tool calls again.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from orchestrator.model.base import Document, Slug
from orchestrator.model.lifecycle import Capabilities, Said

HookEvent = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "Stop",
    "SessionEnd",
]
"""The moments of a session at which a product's command is run."""

Word = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Argv = Annotated[tuple[Word, ...], Field(min_length=1, max_length=64)]
"""A command as it is run, without a shell; `{program}` at a word's start is the program's folder."""


class HookProgram(Document):
    """A product's hooks. Times are in seconds; every command has its own limit.

    `settle` waits until the product's queues are drained. `dump` prints the store, `recall` the ids of what
    it would say to a query, in rank order; without `recall`, what SessionStart and UserPromptSubmit print is
    what the product says, and the store behind it is opaque.
    """

    adapter: Slug
    version: Said
    capabilities: Capabilities
    hooks: dict[HookEvent, Argv] = Field(min_length=1)
    settle: Argv | None = None
    dump: Argv | None = None
    recall: Argv | None = None
    hook_s: int = Field(default=10, gt=0, le=60)
    command_s: int = Field(default=10, gt=0, le=60)
    degraded: tuple[Said, ...] = ()

    @model_validator(mode="after")
    def _a_recall_needs_a_dump(self) -> Self:
        if self.recall is not None and self.dump is None:
            raise ValueError("recall gives ids of what dump prints: expected dump with recall")
        return self

    @model_validator(mode="after")
    def _something_can_be_said(self) -> Self:
        saying = {"SessionStart", "UserPromptSubmit"} & set(self.hooks)
        if self.recall is None and not saying:
            raise ValueError(
                "expected recall, or a hook SessionStart or UserPromptSubmit that prints"
            )
        return self

    @model_validator(mode="after")
    def _hooks_are_said(self) -> Self:
        if not self.capabilities.hooks or self.capabilities.as_of:
            raise ValueError("expected capabilities hooks: true and as_of: false")
        return self
