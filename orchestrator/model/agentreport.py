"""What a check of agents on this machine found: one row for each agent and arm. Reads and writes nothing."""

from __future__ import annotations

from pydantic import Field

from orchestrator.model.agents import AgentIdentity
from orchestrator.model.base import Closed, Document, Slug, Text
from orchestrator.model.proof import ProofResult


class AgentRow(Closed):
    """One trial of an agent. Times in milliseconds, sizes in bytes; null where it was not measured."""

    agent: Slug
    condition_id: Slug
    outcome: Text
    resolved: bool | None
    calls: int = Field(ge=0)
    proof: ProofResult | None
    lookups: tuple[str, ...]
    wall_ms: int = Field(ge=0)
    memory_peak_bytes: int | None
    turns: int | None
    wrong: tuple[str, ...]


class AgentsReport(Document):
    """A smoke run of agents: a task solved by each with its own tools, with memory and without."""

    run_id: Slug
    task_id: Slug
    rows: tuple[AgentRow, ...]
    sound: bool


class AgentCheck(Document):
    """One agent alone: what it asked for, wrote and read. Paths are the container's own."""

    agent: Slug
    identity: AgentIdentity | None
    task_id: Slug
    ended: Text
    exit_code: int | None
    wall_ms: int = Field(ge=0)
    memory_peak_bytes: int | None
    models: tuple[str, ...]
    calls: tuple[tuple[str, int], ...]
    tools: tuple[str, ...]
    refused: tuple[str, ...]
    lookups: tuple[str, ...]
    wrote_outside: tuple[str, ...]
    changed: tuple[str, ...]
    read: tuple[str, ...]
    version: str | None
    stop_reason: str | None
    turns: int = Field(ge=0)
    proof: ProofResult
    detail: str
    wrong: tuple[str, ...]
