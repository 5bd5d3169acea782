"""How the memory contract of an arm of tools was kept, in its life and while it served. Pure over blobs."""

from __future__ import annotations

from orchestrator.ledger.blobs import BlobReader
from orchestrator.ledger.history import AttemptRecord
from orchestrator.model.lifecycle import DESCRIPTION, ContractFailure, Description, Information
from orchestrator.model.memory import Remembered
from orchestrator.model.record import Stage
from orchestrator.model.toolcalls import TOOL_LOG, ToolLog


def contract_of_tools(
    attempt: AttemptRecord, blobs: BlobReader, *, where: str
) -> tuple[ContractFailure | None, Information | None]:
    """Returns how the contract was broken, if it was, and what the system said that it learns from."""
    done = attempt.stages[Stage.REMEMBER]
    said = _named(attempt, Stage.REMEMBER, DESCRIPTION, blobs)
    log = _named(attempt, Stage.ACT, TOOL_LOG, blobs)
    failure = Remembered.parse(blobs.get(done.document_sha256), where=where).failure
    if failure is None and log is not None:
        failure = ToolLog.parse_canonical(log, where=where).failure
    return failure, None if said is None else Description.parse(said, where=where).information


def _named(attempt: AttemptRecord, stage: Stage, name: str, blobs: BlobReader) -> bytes | None:
    done = attempt.stages.get(stage)
    found = [item.sha256 for item in done.artifacts if item.name == name] if done else []
    return blobs.get(found[0]) if found else None
