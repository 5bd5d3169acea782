"""Whether an attempt ended as its documents say: what they hold against harness or agent is raised again. Pure.

The pipeline's own functions raise; a reason that no document of the record gives is refused, and so is a
stage behind a document that must have ended the attempt.
"""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.audit.attempts import Attempted
from orchestrator.audit.rules import CONDEMNED, DIED
from orchestrator.core.errors import Inadmissible, MemtrialError, Misconduct, Witnessed
from orchestrator.model.gateway import Traffic
from orchestrator.model.isolation import Isolation, Screening
from orchestrator.model.outcome import Outcome, outcome_of_error
from orchestrator.model.proof import InjectionProof
from orchestrator.model.record import AttemptEnded, Prepared, Stage
from orchestrator.model.verdict import Verdict
from orchestrator.pipeline.breaches import (
    check_traffic,
    require_clean,
    require_isolated,
    require_runtime,
    require_shown,
)

NO_MODEL = "model-unavailable"
"""The one end between `act` and harvest that the gateway's record alone tells."""

OTHER_RUNTIME = "attempt ended for another container runtime"


def check_end(seen: Attempted) -> None:
    """Refuses an attempt that did not end as its documents say.

    Raises:
        IntegrityError: its outcome, its evidence or a later stage does not follow from them.
    """
    breached: Stage | None = None
    fault: MemtrialError | None = None
    for stage in seen.record.stages:
        if breached is not None and not (stage is Stage.GRADE and isinstance(fault, Misconduct)):
            raise seen.differs(f"no {stage.value} after {_said(fault)}", "one")
        found = _breach(seen, stage)
        if found is not None:
            breached, fault = stage, found
    seen.own_word(OTHER_RUNTIME, breached is Stage.PREPARE)
    condemned = seen.found(Stage.GRADE, CONDEMNED) if seen.has(Stage.GRADE) else None
    if condemned is not None:
        _check_condemned(seen, fault, condemned)
    if seen.record.ended is not None:
        _check_outcome(seen, seen.record.ended, fault)


def _breach(seen: Attempted, stage: Stage) -> MemtrialError | None:
    """Returns what the document of a stage raises; None if the attempt may go on."""
    look = _look(seen, stage)
    try:
        if look is not None:
            look()
    except MemtrialError as fault:
        return fault
    return None


def _look(seen: Attempted, stage: Stage) -> Callable[[], None] | None:
    """Reads the document of a stage, so that what reading raises is no breach, and returns what judges it."""
    if stage is Stage.PREPARE:
        prepared = seen.document(stage, Prepared)
        return lambda: require_runtime(seen.plan.runtime, prepared)
    if stage is Stage.ISOLATE:
        proof = seen.document(stage, Isolation)
        return lambda: require_isolated(proof)
    if stage is Stage.ACT:
        traffic, shown = _of_act(seen)

        def after_act() -> None:
            check_traffic(traffic)
            require_shown(shown)

        return after_act
    if stage is Stage.SCREEN:
        screening = seen.document(stage, Screening)
        return lambda: require_clean(screening)
    return None


def _of_act(seen: Attempted) -> tuple[Traffic | None, InjectionProof | None]:
    traffic, proof = seen.found(Stage.ACT, "traffic"), seen.found(Stage.ACT, "injection-proof")
    where = seen.trial.key
    return (
        None if traffic is None else Traffic.parse_canonical(traffic, where=f"traffic of {where}"),
        None if proof is None else InjectionProof.parse_canonical(proof, where=f"proof of {where}"),
    )


def _check_condemned(seen: Attempted, fault: MemtrialError | None, lines: bytes) -> None:
    """A verdict of misconduct says what the screening says, and keeps its evidence."""
    if not isinstance(fault, Misconduct):
        raise seen.differs("misconduct that the screening shows", "a verdict of misconduct alone")
    verdict = seen.document(Stage.GRADE, Verdict)
    rules = [(violation.rule, violation.subject) for violation in verdict.violations]
    seen.require("violations", [("misconduct", fault.reference)], rules)
    seen.require("lines of evidence", len(fault.evidence), lines.count(b"\n"))


def _check_outcome(seen: Attempted, ended: AttemptEnded, fault: MemtrialError | None) -> None:
    if ended.error_reference == DIED and not seen.record.goes_on:
        return
    if fault is None:
        last = next(reversed(seen.record.stages), None)
        founded = ended.outcome is not Outcome.INADMISSIBLE and not (
            ended.outcome is Outcome.BUDGET and not ended.verdict_sha256 and last is Stage.ACT
        )
        if not founded:
            raise seen.differs(
                "an end that the attempt's documents give", f"{ended.outcome.value} without one"
            )
        return
    if _without_a_model(seen, ended, fault):
        return
    expected = outcome_of_error(fault)
    stopped = ended.outcome is Outcome.CANCELLED and expected is Outcome.INFRA_ERROR
    if ended.outcome is not expected and not stopped:
        raise seen.differs(f"{expected.value}, as {_said(fault)} gives", ended.outcome.value)
    if ended.outcome is Outcome.INADMISSIBLE and isinstance(fault, Witnessed):
        seen.require("reference", fault.reference, ended.error_reference)
        evidence = seen.blobs.get(ended.evidence.sha256) if ended.evidence else b""
        seen.require("lines of evidence", len(fault.evidence), evidence.count(b"\n"))


def _without_a_model(seen: Attempted, ended: AttemptEnded, fault: MemtrialError) -> bool:
    """Whether the end is that of a model that was taken away, which is asked before the proof of memory.

    Such a model can have been shown nothing: that excuses what its proof of memory says, and nothing else.
    """
    return (
        ended.error_reference == NO_MODEL
        and ended.outcome in {Outcome.INFRA_ERROR, Outcome.CANCELLED}
        and isinstance(fault, Inadmissible)
        and next(reversed(seen.record.stages)) is Stage.ACT
    )


def _said(fault: MemtrialError | None) -> str:
    return fault.reference if fault else "nothing"
