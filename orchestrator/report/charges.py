"""Charges in words: the stage table of a report, and one trial's way from events to the agent. Pure, plain text."""

from __future__ import annotations

from orchestrator.core.printable import printable
from orchestrator.core.words import counted
from orchestrator.model.attribution import ORACLE_CONDITION, Charge, Failure, PathStage
from orchestrator.model.report import MemoryRow, RunReport, TrialRow
from orchestrator.model.trace import FactTrace, MemoryTrace

_COLUMNS: tuple[tuple[str, str], ...] = (
    *(
        (stage.value, stage.value.replace("context_", "").replace("_use", ""))
        for stage in PathStage
    ),
    ("not_memory", "not memory"),
    ("stage_opaque", "opaque"),
    ("undetermined_no_oracle", "no oracle"),
)
NONE = "."
IN_WORDS: dict[Failure, str] = {
    Failure.EVIDENCE_NOT_CAPTURED: "the events that say it were not captured, or not to their ends",
    Failure.DURABLE_FACT_MISSED: "the events were captured, and nothing was made of them that holds the fact",
    Failure.UNSUPPORTED_CLAIM_SAVED: "a claim that no event supports was saved in its place",
    Failure.WRONG_SCOPE: "it was saved where this project does not look",
    Failure.UPDATE_NOT_APPLIED: "it was proposed, and the store does not hold it as current",
    Failure.CONFLICT_NOT_DETECTED: "the old and the new value are both current, and the old one was injected",
    Failure.STALE_MEMORY_NOT_INVALIDATED: "the store knows that the old value is in conflict, keeps it current, and it was injected",
    Failure.RELEVANT_MEMORY_MISSING: "it was in the store, and the search did not bring it up",
    Failure.IRRELEVANT_MEMORY_SELECTED: "it was in the store, and others took its place in the search",
    Failure.CONTEXT_BUDGET_DROPPED: "it was found, and left out of the text for the agent",
    Failure.RETRIEVED_BUT_IGNORED: "it was in the agent's hands, and the agent did not act on it",
    Failure.MEMORY_MISAPPLIED: "it was in the agent's hands, and the agent wrote a value that must not be there",
}

OF_TOOLS = {
    "never-asked": "it was in the store, and the agent asked its memory nothing",
    "not-handed-on": "it was in an answer, and the agent's client did not give that to its model",
    "asked-otherwise": "it was in the store, and the agent's questions did not bring it up; the prompt would have",
}
"""What only an agent that asks tools can do."""


def render_charges(report: RunReport) -> str:
    """Returns the stage table of arms with failed trials, and broken contracts beside it; else nothing.

    Columns that no arm has anything in are left out.
    """
    rows = [row for row in report.memory if row.failed]
    parts = []
    if rows:
        head = ("agent", "condition", "failed", *(name for _, name in _COLUMNS))
        table = [head, *(_cells(row) for row in rows)]
        shown = [i for i in range(len(head)) if i < 3 or any(line[i] != NONE for line in table[1:])]
        cells = [[line[i] for i in shown] for line in table]
        widths = [max(len(line[i]) for line in cells) for i in range(len(shown))]
        lines = [
            "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))).rstrip()
            for line in cells
        ]  # fmt: skip
        parts.append(
            "What failed trials are charged to (each once; memtrial report --explain TRIAL):\n"
            + "\n".join(f"  {line}" for line in lines)
        )
    broken = [
        f"  {row.agent} under {row.condition_id}: {row.contract_failures} of {counted(row.contract_failures + row.verified, 'trial')}"
        for row in report.memory
        if row.contract_failures
    ]
    if broken:
        parts.append(
            "Memory contract broken (failed for its arm, whatever the verdict beside it says):\n"
            + "\n".join(broken)
        )
    return "\n\n".join(parts)


def _cells(row: MemoryRow) -> tuple[str, ...]:
    counts = {key: 0 for key, _ in _COLUMNS}
    for item in row.charges:
        counts[item.stage.value if item.stage else item.to] += item.count
    shown = (str(counts[key]) if counts[key] else NONE for key, _ in _COLUMNS)
    return (row.agent, row.condition_id, str(row.failed), *shown)


def explain_trial(row: TrialRow, trace: MemoryTrace | None) -> str:
    """Returns what became of one trial and of its facts, in plain words.

    Args:
        row: of the report.
        trace: of the trial; None for an arm without memory, or a trial without a grade.
    """
    lines = [f"{row.trial}: {row.status.replace('_', ' ')}", f"  task: {printable(row.why)}"]
    if row.charge is not None:
        lines += [f"  charge: {sentence(row.charge)}"]
        lines += [f"  because: {printable(text)}" for text in row.charge.evidence]
    if row.memory_status is not None:
        lines.append(f"  memory contract: {row.memory_status.replace('_', ' ')}")
    if trace is None:
        none = "this arm has none, or the trial was not graded"
        return "\n".join([*lines, f"  no memory: {none}"])
    if trace.asked is not None:
        asked = trace.asked
        lines.append(
            f"  asked its memory {counted(asked.questions, 'question')}; {asked.heard} of the answers came before the model"
        )
    if trace.failure is not None:
        broken = trace.failure
        lines.append(f"  broken at {broken.step.value}: {broken.rule}: {printable(broken.detail)}")
    lines += [line for fact in trace.facts for line in _fact(trace, fact)]
    if trace.cited:
        lines.append(f"  the agent cited {', '.join(trace.cited)}")
    return "\n".join(lines)


def sentence(charge: Charge) -> str:
    """Returns a charge in one sentence."""
    whose = f" ({charge.fact_id})" if charge.fact_id else ""
    if charge.failure is not None and charge.stage is not None:
        finer = f", {charge.subreason.replace('-', ' ')}" if charge.subreason else ""
        told = OF_TOOLS.get(charge.subreason or "", IN_WORDS[charge.failure])
        if charge.subreason and charge.subreason.startswith("contract-"):
            told = "the memory system did not deliver"
        return f"{charge.stage.value}, {charge.failure.value}{finer}{whose}: {told}"
    if charge.to == "stage_opaque":
        return f"hidden{whose}: lost somewhere from {charge.possible[0].value} to {charge.possible[-1].value}; the system does not show where"
    if charge.to == "not_memory":
        return "not memory"
    return f"undetermined{whose}: run the {ORACLE_CONDITION} arm of this task to tell"


def _fact(trace: MemoryTrace, fact: FactTrace) -> list[str]:
    captured = ", ".join(fact.captured) or "none"
    steps = [f"rests on {', '.join(fact.supporting)}"]
    if trace.information == "raw":
        steps.append(f"captured {captured}")
    if trace.extracts:
        steps.append(
            "proposed as "
            + ", ".join(f"{c.candidate_id} ({c.decision}, {c.rule})" for c in fact.candidates)
            if fact.candidates
            else "never proposed"
        )
    steps.append(
        "stored as "
        + ", ".join(f"{m.memory_id} ({_standing(m.status, m.own_scope)})" for m in fact.memories)
        if fact.memories
        else "not in the store"
    )
    steps.append(f"ranked {', '.join(fact.ranked)}" if fact.ranked else "not ranked")
    steps += [f"dropped {drop.item_id} ({drop.reason})" for drop in fact.dropped]
    where = "an answer that came before the model" if trace.asked else "the injected text"
    steps.append(f"in {where}" if fact.delivered else f"not in {where}")
    lines = [f"  {fact.fact_id}: {'; '.join(steps)}"]
    for stale in fact.stale:
        if stale.active:
            how = "in an answer" if trace.asked else "injected"
            how = how if stale.included else f"not {how}"
            lines.append(
                f"      old value {stale.stale_id}: current in {', '.join(stale.active)}, {how}"
                + (", and in the change" if stale.followed else "")
            )
    return lines


def _standing(status: str, own_scope: bool) -> str:
    return status if own_scope else f"{status}, other scope"
