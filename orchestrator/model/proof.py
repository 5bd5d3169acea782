"""What the gateway's record proves about an agent's memory: which calls carried the injected bytes, and where.

A public document of one attempt. It names slices by JSON pointer (RFC 6901), offset and SHA-256 and holds
no text of a conversation. Reads and writes nothing.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text
from orchestrator.model.usage import Api

CallKind = Literal["main", "side", "compaction"]
ProofResult = Literal["shown", "served", "absent", "no_call", "unprompted", "lost", "foreign"]


class Slice(Closed):
    """Where the injected bytes stand in a request. `offset` counts characters of the decoded string."""

    pointer: str
    offset: int = Field(ge=0)
    sha256: Sha256


class ProvenCall(Closed):
    """One admitted call. `tools` is a place in the list of tool lists; `compacted` follows a compaction."""

    ordinal: int = Field(ge=0)
    api: Api
    kind: CallKind
    compacted: bool
    model: Text
    tools: int = Field(ge=0)
    request_sha256: Sha256
    slices: tuple[Slice, ...]


class SeenAnswer(Closed):
    """Where an answer of the memory's tools was first seen in a call; nulls where it never was."""

    seq: int = Field(ge=0)
    tool: Text
    ordinal: int | None
    pointer: str | None


class Foreign(Closed):
    """A sign of memory that the arm does not declare."""

    ordinal: int = Field(ge=0)
    pointer: str
    sign: Text


class InjectionProof(Document):
    """The finding for one attempt.

    `shown`: the bytes stood, whole and once, in call 1 and in every main call until a recorded compaction.
    `served`: the arm's tools answered a handshake and stood, all of them and no others, in the first and in
    every main call; `answers` says which of their answers came before the model.
    `absent`: the arm declares none and no sign of any was seen. `no_call`: the agent never asked a model,
    which is its own affair. `unprompted`: it asked, and no call carried the task. `lost`: a main call
    lacked the bytes, or had them more than once. `foreign`: there was memory that nobody declared.
    `steering` names the checkout's files that steer agents; a line of one in a request is foreign.
    Signs in side calls and after a compaction are `noted` and decide nothing: there the model's own
    words, made of what it was rightly told, stand where the agent's would.
    """

    trial: Text
    attempt: int = Field(ge=0)
    condition_id: Slug
    channel: Slug
    expected_sha256: Sha256
    expected_bytes: int = Field(ge=0)
    result: ProofResult
    detail: str
    tool_lists: tuple[tuple[str, ...], ...]
    calls: tuple[ProvenCall, ...]
    foreign: tuple[Foreign, ...]
    noted: tuple[Foreign, ...] = ()
    steering: tuple[Text, ...] = ()
    answers: tuple[SeenAnswer, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the harness kept its promise about the arm's memory."""
        return self.result in {"shown", "served", "absent", "no_call"}
