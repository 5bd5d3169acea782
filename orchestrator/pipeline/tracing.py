"""Makes the trace of a trial from its recorded documents, for its grade and for its verification.

One function, so that a stranger recomputes what the grade recorded. Reads blobs through its caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from orchestrator.memory.sessions import PROJECT
from orchestrator.model.base import Document
from orchestrator.model.condition import Condition
from orchestrator.model.lifecycle import (
    DESCRIPTION,
    MAX_K,
    CaptureReports,
    Description,
    ExtractionReport,
    Ranked,
    StoreDump,
)
from orchestrator.model.memory import Injection, Remembered
from orchestrator.model.proof import PROOF, InjectionProof
from orchestrator.model.record import Stage
from orchestrator.model.task import History, Key
from orchestrator.model.toolcalls import read_log
from orchestrator.model.trace import TRACE, MemoryTrace
from orchestrator.pipeline.journal import Journal
from orchestrator.scoring.given import Asked
from orchestrator.scoring.trace import Seen, Stages, trace_of

D = TypeVar("D", bound=Document)
Read = Callable[[str], bytes | None]


def is_traced(condition: Condition) -> bool:
    """Whether the trials of an arm have a trace: all but those without memory."""
    return condition.adapter != "none"


def is_audited(condition: Condition) -> bool:
    """Whether the trials of an arm have a memory audit, which is of the one context that memory put before an agent."""
    return is_traced(condition) and not condition.gives_tools


def asked_of(read: Read) -> Asked | None:
    """Reads what an agent asked tools, and which answers came before its model; None where it had no tools.

    Args:
        read: gives an artifact of stage `act` by name.
    """
    log, proof = read_log(read), read(PROOF)
    if log is None or proof is None:
        return None
    seen = InjectionProof.parse_canonical(proof, where=PROOF).answers
    heard = frozenset(answer.seq for answer in seen if answer.ordinal is not None)
    return Asked(log, heard)


def keep_trace(
    trial: str,
    condition: Condition,
    views: tuple[History, Key],
    journal: Journal,
    injection: Injection,
) -> None:
    """Records where the facts of the key went in a trial that is being graded, for an arm that has memory."""
    remembered = journal.recorded(Stage.REMEMBER, Remembered)
    if remembered is None or not is_traced(condition):
        return
    trace = trace_trial(
        trial,
        condition,
        history=views[0],
        key=views[1],
        read=lambda name: journal.found(Stage.REMEMBER, name),
        remembered=remembered,
        injection=injection,
        diff=journal.found(Stage.HARVEST, "diff") or b"",
        output=journal.found(Stage.ACT, "output") or b"",
        asked=asked_of(lambda name: journal.found(Stage.ACT, name)),
    )
    journal.keep(TRACE, trace.canonical())


def trace_trial(
    trial: str,
    condition: Condition,
    *,
    history: History,
    key: Key,
    read: Read,
    remembered: Remembered,
    injection: Injection,
    diff: bytes,
    output: bytes,
    asked: Asked | None = None,
) -> MemoryTrace:
    """Follows the facts of a trial through its recorded stages.

    Args:
        trial: its key.
        condition: its arm.
        history: of the task.
        key: of the task.
        read: gives an artifact of stage `remember` by name; None if the life did not get that far.
        remembered: the stage's document.
        injection: what was put before the agent.
        diff: the agent's change.
        output: the agent's transcript.
        asked: what it asked its memory's tools; None for an arm without them.
    """
    return trace_of(
        _stages(trial, read, remembered),
        Seen(
            trial=trial,
            history=history,
            key=key,
            injection=injection,
            diff=diff,
            output=output,
            scope=PROJECT,
            k=condition.retrieve_k or MAX_K,
            stages=condition.stages,
            asked=asked,
        ),
    )


def _stages(trial: str, read: Read, remembered: Remembered) -> Stages:
    def document(name: str, kind: type[D]) -> D | None:
        data = read(name)
        return None if data is None else kind.parse_canonical(data, where=f"{trial} {name}")

    return Stages(
        remembered=remembered,
        description=document(DESCRIPTION, Description),
        captures=document("captures", CaptureReports),
        extraction=document("extraction", ExtractionReport),
        dump=document("dump", StoreDump),
        ranked=document("ranked", Ranked),
    )
