"""What the gateway's record proves about an agent's memory: which calls carried the injected bytes, and where.

A public document of one attempt, bounded whatever an agent asks: of a list that is longer than its bound it holds
the first entries, and the number and digest of the others. It names slices by JSON pointer (RFC 6901), offset and
SHA-256 and holds no text of a conversation. Reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.model.base import Closed, Document, Sha256, Slug, Text
from orchestrator.model.usage import Api

CallKind = Literal["main", "side", "compaction"]
ProofResult = Literal[
    "shown",
    "served",
    "absent",
    "no_call",
    "unprompted",
    "lost",
    "foreign",
    "unconnected",
    "dropped",
]
Blame = Literal["arm", "agent", "harness"]

PROOF = "injection-proof"
"""The name of a proof among the artifacts of an attempt."""

MAX_LISTS = 16
MAX_NAMES = 200
MAX_CALLS_TOLD = 2_000
MAX_SLICES = 4
MAX_SIGNS = 100
MAX_STEERING = 1_000
MAX_NAME_CHARS = 120
"""The most characters of a pointer or a name: a longer one is cut, with its digest."""

CONNECTED = "connected"
UNSAID = "unsaid"
"""The statement of a client that states which servers it reached, and said nothing of the arm's."""


def short(text: str) -> str:
    """Returns a name from a request as a proof may hold it: whole, or its beginning and its digest."""
    if len(text) <= MAX_NAME_CHARS:
        return text
    return f"{text[:20]}... of {len(text)} characters, sha256 {sha256_hex(text.encode('utf-8', 'surrogatepass'))}"


class Rest(Closed):
    """What a list left out: how many entries, and the SHA-256 of the RFC 8785 bytes of all of them, in order."""

    count: int = Field(gt=0)
    sha256: Sha256

    @classmethod
    def of(cls, left_out: Sequence[Closed | str | tuple[str, ...]]) -> Self | None:
        """Returns the account of some entries; None for none."""
        if not left_out:
            return None
        plain = [i.model_dump(mode="json") if isinstance(i, Closed) else i for i in left_out]
        return cls(count=len(plain), sha256=digest_sha256(plain))


class Slice(Closed):
    """Where the injected bytes stand in a request. `offset` counts characters of the decoded string."""

    pointer: str
    offset: int = Field(ge=0)
    sha256: Sha256


class ProvenCall(Closed):
    """One admitted call. `tools` is a place in the list of tool lists; `compacted` follows a compaction.

    `more_slices` counts further places of the bytes; more than one is never right.
    """

    ordinal: int = Field(ge=0)
    api: Api
    kind: CallKind
    compacted: bool
    model: Text
    tools: int = Field(ge=0)
    request_sha256: Sha256
    slices: tuple[Slice, ...] = Field(max_length=MAX_SLICES)
    more_slices: int = Field(default=0, ge=0)


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

    @property
    def told(self) -> str:
        """The sign in words."""
        return f"call {self.ordinal}, {self.pointer}: {self.sign}"


class InjectionProof(Document):
    """The finding for one attempt.

    `shown`: the bytes stood, whole and once, in call 1 and in every main call until a recorded compaction.
    `served`: the arm's tools answered a handshake and stood, all of them and no others, in the first and in
    every main call; `answers` says which of their answers came before the model.
    `absent`: the arm declares none and no sign of any was seen. `no_call`: the agent never asked a model,
    which is its own affair. `unprompted`: it asked, and no call carried the task. `lost`: a main call
    lacked the bytes, or had them more than once; of tools, the first one lacked some. `foreign`: there was memory
    that nobody declared. `unconnected`: before its first call the client itself stated another status of the arm's
    server than connected (`stated`; null for a client that states none). `dropped`: the tools stood in the first
    main call, and not in a later one.
    `blame` says by whose evidence tools were lost, dropped or unconnected: the arm's memory system broke while it
    served, else the harness's own door failed, else the agent dropped what it had been given.
    `files` are lines of the checkout's files that steer agents (`steering`); in a request they are foreign.
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
    blame: Blame | None = None
    stated: Text | None = None
    tool_lists: tuple[tuple[str, ...], ...] = Field(max_length=MAX_LISTS)
    more_tool_lists: Rest | None = None
    calls: tuple[ProvenCall, ...] = Field(max_length=MAX_CALLS_TOLD)
    more_calls: Rest | None = None
    foreign: tuple[Foreign, ...] = Field(max_length=MAX_SIGNS)
    more_foreign: Rest | None = None
    noted: tuple[Foreign, ...] = Field(default=(), max_length=MAX_SIGNS)
    more_noted: Rest | None = None
    files: tuple[Foreign, ...] = Field(default=(), max_length=MAX_SIGNS)
    more_files: Rest | None = None
    noted_files: tuple[Foreign, ...] = Field(default=(), max_length=MAX_SIGNS)
    more_noted_files: Rest | None = None
    steering: tuple[Text, ...] = Field(default=(), max_length=MAX_STEERING)
    more_steering: Rest | None = None
    answers: tuple[SeenAnswer, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the harness kept its promise about the arm's memory."""
        return self.result in {"shown", "served", "absent", "no_call"} or (
            self.blame is not None and self.blame != "harness"
        )
