"""The ladder: charges a failed trial to the first stage at which a fact was lost, or says why to none.

Pure: a trace, a verdict and what the oracle arm came to. First match, in this order: another reason than
memory; the arm that hands the evidence over fails as well; a broken contract, also where the tests pass; no memory
test fails; then capture, extraction,
consolidation, retrieval, compilation, reader. Over several facts the earliest stage counts, then the key's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.model.attribution import STAGE_OF, Charge, Failure, PathStage
from orchestrator.model.lifecycle import ContractFailure, Observed, Step
from orchestrator.model.trace import FactTrace, MemoryTrace, ToolsAsked
from orchestrator.model.verdict import FailureReason, Verdict

# Reasons that a lost fact does not explain: there is no finished work whose tests could tell.
OTHER_REASONS = frozenset(
    {
        FailureReason.TIMEOUT,
        FailureReason.WRONG_FILE_MODIFIED,
        FailureReason.COMPILE_FAILURE,
        FailureReason.ORACLE_INCONCLUSIVE,
    }
)
# Where a broken contract is charged: the stage whose work the step does.
_FAILURE_OF_STEP: dict[Step, Failure] = {
    Step.DESCRIBE: Failure.EVIDENCE_NOT_CAPTURED,
    Step.OPEN: Failure.EVIDENCE_NOT_CAPTURED,
    Step.INGEST: Failure.EVIDENCE_NOT_CAPTURED,
    Step.SETTLE: Failure.DURABLE_FACT_MISSED,
    Step.FREEZE: Failure.UPDATE_NOT_APPLIED,
    Step.RETRIEVE: Failure.RELEVANT_MEMORY_MISSING,
    Step.COMPILE: Failure.CONTEXT_BUDGET_DROPPED,
}
STAGES = tuple(PathStage)


@dataclass(frozen=True, slots=True)
class _Rung:
    """What one stage did to one fact."""

    stage: PathStage
    state: Literal["kept", "lost", "hidden"]
    failure: Failure | None = None
    subreason: str | None = None
    evidence: str = ""


def charge(trace: MemoryTrace, verdict: Verdict, oracle: bool | None) -> Charge:
    """Charges one failed trial of a memory-bearing arm.

    Args:
        trace: where the facts went.
        verdict: unresolved, or resolved although the memory system broke its contract.
        oracle: whether the arm that hands the evidence to the same agent solves this task; None if that is
            not known.
    """
    return (
        (None if verdict.resolved else _not_memory(verdict, oracle))
        or _broken(trace.failure)
        or _passes(verdict)
        or _lost(trace, verdict, oracle)
        or _reader(trace, verdict, oracle)
    )


def _not_memory(verdict: Verdict, oracle: bool | None) -> Charge | None:
    told = None
    if verdict.misconduct:
        told = "the agent did what no agent may"
    elif verdict.failure_reason in OTHER_REASONS and verdict.failure_reason is not None:
        told = f"the trial failed for another reason: {verdict.failure_reason.value}"
    elif oracle is False:
        told = "with the evidence in its hands the same agent fails this task as well"
    return Charge(to="not_memory", evidence=(told,)) if told else None


def _passes(verdict: Verdict) -> Charge | None:
    memory = verdict.fail_to_pass_memory
    if memory.passed < memory.expected or not verdict.patterns_ok:
        return None
    return Charge(to="not_memory", evidence=("every test that needs a fact passes",))


def _broken(failure: ContractFailure | None) -> Charge | None:
    """A memory system that did not deliver has failed at the step at which it broke."""
    if failure is None:
        return None
    found = _FAILURE_OF_STEP[failure.step]
    return Charge(
        to="stage",
        stage=STAGE_OF[found],
        failure=found,
        subreason=f"contract-{failure.kind.replace('_', '-')}",
        evidence=(f"{failure.step.value}: {failure.rule}: {failure.detail}",),
    )


def _lost(trace: MemoryTrace, verdict: Verdict, oracle: bool | None) -> Charge | None:
    """Charges the earliest stage that lost a fact; None if every fact reached the agent unspoilt."""
    first: tuple[int, FactTrace, _Rung, list[_Rung]] | None = None
    for fact in trace.facts:
        rungs = rungs_of(trace, fact)
        for place, rung in enumerate(rungs):
            if rung.state == "lost" and (first is None or place < first[0]):
                first = (place, fact, rung, rungs)
                break
    if first is None:
        return None
    place, fact, rung, rungs = first
    if oracle is None and _does_not_do_the_job(verdict):
        return Charge(
            to="undetermined_no_oracle",
            fact_id=fact.fact_id,
            evidence=(
                rung.evidence,
                "tests that need no fact fail as well, and no oracle_evidence trial tells whether the agent can do the job",
            ),
        )
    hidden = _hidden_before(rungs, place)
    if hidden:
        return Charge(
            to="stage_opaque",
            fact_id=fact.fact_id,
            possible=(*hidden, rung.stage),
            evidence=(
                rung.evidence,
                f"the system does not show {', '.join(stage.value for stage in hidden)}",
            ),
        )
    return Charge(
        to="stage",
        stage=rung.stage,
        failure=rung.failure,
        subreason=rung.subreason,
        fact_id=fact.fact_id,
        evidence=(rung.evidence,),
    )


def _does_not_do_the_job(verdict: Verdict) -> bool:
    tallies = (verdict.fail_to_pass_capability, verdict.pass_to_pass)
    return any(tally.passed < tally.expected for tally in tallies)


def _hidden_before(rungs: list[_Rung], place: int) -> tuple[PathStage, ...]:
    """Returns the stages right before a loss that nothing is known of; a later sighting clears them."""
    hidden: list[PathStage] = []
    for rung in rungs[:place]:
        hidden = [*hidden, rung.stage] if rung.state == "hidden" else []
    return tuple(hidden)


def rungs_of(trace: MemoryTrace, fact: FactTrace) -> list[_Rung]:
    """Returns what each stage before the reader did to a fact, in order."""
    if fact.delivered:
        kept = [_Rung(stage, "kept") for stage in STAGES[:-1]]
        followed = any(stale.followed for stale in fact.stale)
        spoilt = _spoilt(trace, fact) if followed else None
        if spoilt is not None:
            kept[STAGES.index(PathStage.CONSOLIDATION)] = spoilt
        return kept
    return [
        _capture(trace, fact),
        _extraction(trace, fact),
        _consolidation(trace, fact),
        _retrieval(trace, fact),
        _compilation(trace, fact),
        *_asking(trace, fact),
    ]


def _capture(trace: MemoryTrace, fact: FactTrace) -> _Rung:
    stage = PathStage.CAPTURE
    if trace.information != "raw" or Observed.CAPTURE not in trace.shows:
        return _Rung(stage, "hidden")
    if fact.survived:
        return _Rung(stage, "kept")
    missing = [event for event in fact.supporting if event not in fact.captured]
    lost = ", ".join(missing) or "what was cut off their ends"
    return _Rung(
        stage,
        "lost",
        Failure.EVIDENCE_NOT_CAPTURED,
        evidence=f"{fact.fact_id} rests on {', '.join(fact.supporting)}; not captured: {lost}",
    )


def _extraction(trace: MemoryTrace, fact: FactTrace) -> _Rung:
    stage = PathStage.EXTRACTION
    current = [m for m in fact.memories if m.status == "active" and m.own_scope]
    if current:
        return _Rung(stage, "kept")
    if trace.information != "raw" or Observed.EXTRACTION not in trace.shows:
        return _Rung(stage, "hidden")
    found = _missed(trace, fact) or _misplaced(fact) or _claimed(fact) or _unpromoted(fact)
    if found is None:
        return _Rung(stage, "kept")
    failure, subreason, evidence = found
    return _Rung(stage, "lost", failure, subreason, evidence)


Found = tuple[Failure, str | None, str]


def _missed(trace: MemoryTrace, fact: FactTrace) -> Found | None:
    if fact.candidates or not trace.extracts or fact.memories:
        return None
    instead = f"; in its place stands {', '.join(fact.unsupported)}" if fact.unsupported else ""
    return (
        Failure.DURABLE_FACT_MISSED,
        "claim-in-its-place" if fact.unsupported else None,
        f"{fact.fact_id} was captured ({', '.join(fact.captured)}), and no candidate holds it{instead}",
    )


def _misplaced(fact: FactTrace) -> Found | None:
    elsewhere = [m.memory_id for m in fact.memories if not m.own_scope]
    elsewhere += [c.candidate_id for c in fact.candidates if not c.own_scope]
    at_home = any(m.own_scope for m in fact.memories) or any(c.own_scope for c in fact.candidates)
    if not elsewhere or at_home:
        return None
    return (
        Failure.WRONG_SCOPE,
        None,
        f"{fact.fact_id} was saved under another scope: {', '.join(elsewhere)}",
    )


def _claimed(fact: FactTrace) -> Found | None:
    if not fact.unsupported:
        return None
    return (
        Failure.UNSUPPORTED_CLAIM_SAVED,
        None,
        f"in the place of {fact.fact_id} stands {', '.join(fact.unsupported)}, which no cited event supports",
    )


def _unpromoted(fact: FactTrace) -> Found | None:
    """A fact that was proposed and not taken; where an old value stands instead, consolidation is charged."""
    if any(c.decision == "promote" for c in fact.candidates) or not fact.candidates:
        return None
    if any(stale.active for stale in fact.stale) or fact.memories:
        return None
    last = fact.candidates[-1]
    return (
        Failure.DURABLE_FACT_MISSED,
        "held" if last.decision == "hold" else "rejected",
        f"{fact.fact_id} was proposed as {last.candidate_id} and not promoted ({last.decision}, rule {last.rule})",
    )


def _consolidation(trace: MemoryTrace, fact: FactTrace) -> _Rung:
    stage = PathStage.CONSOLIDATION
    if Observed.STORE not in trace.shows:
        return _Rung(stage, "hidden")
    if any(m.status == "active" and m.own_scope for m in fact.memories):
        return _spoilt(trace, fact) or _Rung(stage, "kept")
    old = [memory_id for stale in fact.stale for memory_id in stale.active]
    inactive = [m.memory_id for m in fact.memories]
    told = f"no active memory holds {fact.fact_id}"
    if inactive:
        told += f"; {', '.join(inactive)} holds it and is {fact.memories[0].status}"
    if old:
        told += f"; the old value is active in {', '.join(old)}"
    return _Rung(
        stage,
        "lost",
        Failure.UPDATE_NOT_APPLIED,
        None if old else "wrongly-superseded" if inactive else "not-stored",
        told,
    )


def _spoilt(trace: MemoryTrace, fact: FactTrace) -> _Rung | None:
    """The new value is active and the old one too, and the old one went to the agent.

    A system that keeps raw events as they are has no stage that could have noticed.
    """
    for stale in fact.stale:
        if stale.included and trace.has(PathStage.CONSOLIDATION.value):
            old = ", ".join(stale.included)
            new = ", ".join(memory.memory_id for memory in fact.memories)
            failure = (
                Failure.STALE_MEMORY_NOT_INVALIDATED
                if stale.linked
                else Failure.CONFLICT_NOT_DETECTED
            )
            how = "knows of the conflict" if stale.linked else "does not know of the conflict"
            return _Rung(
                PathStage.CONSOLIDATION,
                "lost",
                failure,
                evidence=f"{old} (old) and {new} (new, {fact.fact_id}) are both active and the old one was injected; the store {how}",
            )
    return None


def _retrieval(trace: MemoryTrace, fact: FactTrace) -> _Rung:
    stage = PathStage.RETRIEVAL
    if fact.ranked or _never_asked(trace):
        return _Rung(stage, "kept")
    if Observed.RETRIEVAL not in trace.shows:
        return _Rung(stage, "hidden")
    if trace.asked is not None:
        return _not_found(trace.asked, fact)
    crowded = trace.ranked == trace.k and trace.ranked > 0 and 2 * trace.clusters <= trace.ranked
    if crowded:
        return _Rung(
            stage,
            "lost",
            Failure.IRRELEVANT_MEMORY_SELECTED,
            "duplicate-crowding",
            f"{fact.fact_id} is not among the {trace.ranked} ranked items, which hold {trace.clusters} distinct ones",
        )
    return _Rung(
        stage,
        "lost",
        Failure.RELEVANT_MEMORY_MISSING,
        evidence=f"{fact.fact_id} is not among the {trace.ranked} ranked items (k = {trace.k})",
    )


def _never_asked(trace: MemoryTrace) -> bool:
    return trace.asked is not None and trace.asked.questions == 0


def _not_found(asked: ToolsAsked, fact: FactTrace) -> _Rung:
    """No question of the agent brought the fact up; the prompt, asked as it is, might have."""
    by_prompt = fact.fact_id in asked.by_prompt
    told = f"{fact.fact_id} was ranked for none of {asked.questions} questions of the agent"
    told += (
        "; the task's prompt would have found it" if by_prompt else "; nor for the task's prompt"
    )
    return _Rung(
        PathStage.RETRIEVAL,
        "lost",
        Failure.RELEVANT_MEMORY_MISSING,
        "asked-otherwise" if by_prompt else None,
        told,
    )


def _asking(trace: MemoryTrace, fact: FactTrace) -> list[_Rung]:
    """What an agent with tools did: it may ask nothing, and its client may not hand an answer on."""
    if trace.asked is None:
        return []
    if _never_asked(trace):
        how, told = "never-asked", "the agent asked its memory nothing"
    else:
        how = "not-handed-on"
        told = f"{fact.fact_id} was in an answer ({', '.join(fact.included)}), and none of it that came before the model holds it"
    return [_Rung(PathStage.READER_USE, "lost", Failure.RETRIEVED_BUT_IGNORED, how, told)]


def _compilation(trace: MemoryTrace, fact: FactTrace) -> _Rung:
    if trace.asked is not None and (fact.included or _never_asked(trace)):
        return _Rung(PathStage.CONTEXT_COMPILATION, "kept")
    reasons = sorted({drop.reason for drop in fact.dropped})
    told = ", ".join(f"{drop.item_id} ({drop.reason})" for drop in fact.dropped)
    return _Rung(
        PathStage.CONTEXT_COMPILATION,
        "lost",
        Failure.CONTEXT_BUDGET_DROPPED,
        reasons[0].replace("_", "-") if reasons and reasons != ["over_budget"] else None,
        f"{fact.fact_id} was retrieved ({', '.join(fact.ranked)}) and is not in {'an answer' if trace.asked else 'the injected text'}"
        + (f": dropped {told}" if told else ""),
    )


def _reader(trace: MemoryTrace, verdict: Verdict, oracle: bool | None) -> Charge:
    """Every fact was in the injected text and the task failed."""
    where = "an answer that came before the model" if trace.asked else "the injected text"
    told = f"every fact ({', '.join(fact.fact_id for fact in trace.facts)}) was in {where}"
    if oracle is None:
        return Charge(
            to="undetermined_no_oracle",
            evidence=(
                told,
                "no oracle_evidence trial of this task tells whether the agent can use them",
            ),
        )
    forbidden = [v.subject for v in verdict.violations if v.rule == "forbidden_pattern_added"]
    misapplied = [*trace.stale_followed, *forbidden]
    found = Failure.MEMORY_MISAPPLIED if misapplied else Failure.RETRIEVED_BUT_IGNORED
    how = (
        f"the change holds {', '.join(misapplied)}"
        if misapplied
        else "with the evidence in its hands the agent solves the task"
    )
    return Charge(to="stage", stage=STAGE_OF[found], failure=found, evidence=(told, how))
