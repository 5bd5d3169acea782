"""What a memory's tool server did in one attempt: who connected, which tools it listed, every call with its answer.

Reads and writes nothing.
"""

from __future__ import annotations

from pydantic import Field

from orchestrator.model.base import Closed, Document, Sha256, Slug, Text

TOOL_LOG = "tool-log"
"""The name of the log among the artifacts of an attempt."""


class ServedTool(Closed):
    """A tool by its name and the digest of its whole description, schemas included."""

    name: Text
    sha256: Sha256


class ServedCall(Closed):
    """One call. `arguments` is its JSON text; `text` is what the agent was answered."""

    seq: int = Field(ge=0)
    tool: Text
    arguments: str
    item_ids: tuple[Slug, ...]
    text: str


class ToolLog(Document):
    """The account of a server. `connected` counts handshakes, `listed` answers to a question for its tools.

    `refused` counts lines that were no request of the protocol, and calls that no tool takes.
    """

    server: Slug
    adapter: Slug
    tools: tuple[ServedTool, ...]
    connected: int = Field(ge=0)
    listed: int = Field(ge=0)
    calls: tuple[ServedCall, ...]
    refused: int = Field(ge=0)
