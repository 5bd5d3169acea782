"""What goes between an operator and the supervisor when a run of phase smoke or official is dispatched.

One line of JSON each way over a Unix socket; the plan's bytes follow the first one. Reads and writes nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from orchestrator.model.base import Closed, Document, Sha256, Slug
from orchestrator.model.record import RunApproved
from orchestrator.model.statement import Base64

MAX_PLAN_BYTES = 64 * 1024 * 1024
# The gateway's record as it grows; the supervisor hands out descriptors of these, in this order.
RECORD_FILES = ("traffic.jsonl", "bodies.pack", "spend.jsonl")


class DispatchAsked(Closed):
    """An operator asks that a run be dispatched, or go on, under a published approval.

    `sealing_keyid` names the key that will seal the run.
    """

    kind: Literal["dispatch"] = "dispatch"
    approval_id: Slug
    run_id: Slug
    sealing_keyid: Sha256
    plan_sha256: Sha256
    plan_bytes: Annotated[int, Field(gt=0, le=MAX_PLAN_BYTES)]


class Dispatched(Document):
    """The supervisor's yes: what the run's ledger is to say, and the files that lie beside it."""

    entry: RunApproved
    envelope: Base64
    roles: Base64
