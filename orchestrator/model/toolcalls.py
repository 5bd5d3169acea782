"""What a memory's tool server did in one attempt: who connected, which tools it listed, every call with its answer.

A log is bounded by construction, so that what an agent asks can make no record that nobody reads.
Reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text
from orchestrator.model.lifecycle import ContractFailure, DroppedItem, Said
from orchestrator.model.memory import Injection

TOOL_LOG = "tool-log"
"""The name of the log among the artifacts of an attempt."""

MAX_CALLS = 500
"""The most questions that are answered in one attempt."""

MAX_CALLS_BYTES = 8 * 1024 * 1024
"""The most that all calls of a log may take, in RFC 8785 bytes: half of what a document's reader takes."""


class ServedTool(Closed):
    """A tool by its name and the digest of its whole description, schemas included."""

    name: Text
    sha256: Sha256


class ServedCall(Closed):
    """One call that was answered. `arguments` is its JSON text; `text` is what the agent was answered.

    `item_ids` are the memories in the answer, `left_out` those that were ranked for it and are not in it, and why.
    """

    seq: int = Field(ge=0)
    tool: Text
    arguments: str
    item_ids: tuple[Slug, ...]
    left_out: tuple[DroppedItem, ...] = ()
    text: str

    @property
    def ranked_ids(self) -> tuple[str, ...]:
        """The memories that were ranked for it: those in the answer, then those left out of it."""
        return (*self.item_ids, *(item.item_id for item in self.left_out))


class ToolLog(Document):
    """The account of a server. `connected` counts handshakes, `listed` answers to a question for its tools.

    `refused` counts lines that were no request of the protocol, and calls that no tool takes; a sound call that a
    broken memory system or a bound left unanswered is told by `failure` and `bound_met`. `bound_met` names
    the bound that a question went beyond: from then on none was answered. `failure` says how the memory system
    broke its contract while it served, `door` the first fault of the way to it, which is the harness's own.
    """

    server: Slug
    adapter: Slug
    tools: tuple[ServedTool, ...]
    connected: int = Field(ge=0)
    listed: int = Field(ge=0)
    calls: tuple[ServedCall, ...] = Field(max_length=MAX_CALLS)
    refused: int = Field(ge=0)
    bound_met: Literal["calls", "bytes"] | None = None
    failure: ContractFailure | None = None
    door: Said | None = None

    @property
    def shown_ids(self) -> frozenset[str]:
        """The memories that stood in any answer."""
        return frozenset(item for call in self.calls for item in call.item_ids)


def read_log(found: Callable[[str], bytes | None], *, where: str = TOOL_LOG) -> ToolLog | None:
    """Returns what the tools of an attempt's arm did; None for an arm without any, or before its agent acted.

    Args:
        found: gives an artifact of stage `act` by its name.
        where: what the log is called where it is refused.

    Raises:
        DocumentError: the artifact is no log.
    """
    data = found(TOOL_LOG)
    return None if data is None else ToolLog.parse_canonical(data, where=where)


def given_ids(injection: Injection, log: ToolLog | None) -> frozenset[str]:
    """Returns the ids of the memories that an agent was given, in its prompt or by an answer of its tools."""
    injected = frozenset(item.item_id for item in injection.included)
    return injected if log is None else injected | log.shown_ids
