"""What keeping memory took people, arm by arm, from the logs that the plan pins; without a log nobody knows.

A curated file has its curator's minutes, an end-to-end arm the answers to what it held back. A comparison needs both.
"""

from __future__ import annotations

from orchestrator.core.words import counted
from orchestrator.model.condition import Condition
from orchestrator.model.plan import Plan
from orchestrator.model.report import MaintenanceRow, RunReport
from orchestrator.model.review import ReviewPin


def maintenance_of(plan: Plan) -> tuple[MaintenanceRow, ...]:
    """Returns a row for each primary arm with memory, in the order of the plan."""
    return tuple(
        _of_file(condition, plan) if _is_file(condition) else _of_reviews(condition, plan)
        for condition in _kept(plan)
    )


def _kept(plan: Plan) -> tuple[Condition, ...]:
    return tuple(c for c in plan.conditions if c.role == "primary" and c.budget is not None)


def _is_file(condition: Condition) -> bool:
    return condition.adapter == "curated"


def _of_file(condition: Condition, plan: Plan) -> MaintenanceRow:
    known = [pin.maintenance_s for pin in plan.curated if pin.maintenance_s is not None]
    without = len(plan.curated) - len(known)
    return MaintenanceRow(
        condition_id=condition.id,
        seconds=None if without else sum(known),
        why=f"{counted(without, 'file')} kept by a program"
        if without
        else f"the curators' logs of {counted(len(known), 'file')}",
    )


def _of_reviews(condition: Condition, plan: Plan) -> MaintenanceRow:
    # Tasks with one history share a store, and may share the log of the one person who answered on it.
    pins = list({pin.log_sha256: pin for pin in _reviews(condition, plan)}.values())
    spent, waiting = sum(p.seconds_spent for p in pins), sum(p.held - p.resolved for p in pins)
    whole = (
        f"{counted(len(pins), 'review log')}, {counted(sum(p.resolved for p in pins), 'answer')}"
    )
    if not pins:
        return MaintenanceRow(
            condition_id=condition.id,
            seconds=None,
            why="no log of the answers to what it held back",
        )
    return MaintenanceRow(
        condition_id=condition.id,
        seconds=None if waiting else spent,
        why=f"{counted(waiting, 'held candidate')} still without an answer" if waiting else whole,
    )


def _reviews(condition: Condition, plan: Plan) -> tuple[ReviewPin, ...]:
    return tuple(pin for pin in plan.reviews if pin.condition_id == condition.id)


def render_maintenance(report: RunReport) -> str:
    """Returns the minutes of every arm, and whether they can be compared; nothing where none is known."""
    rows = report.maintenance
    if all(row.seconds is None for row in rows):
        return ""
    lines = [
        f"  {row.condition_id}: "
        + ("unknown" if row.seconds is None else f"{row.seconds / 60:.1f} minutes")
        + f" ({row.why})"
        for row in rows
    ]
    unknown = [row.condition_id for row in rows if row.seconds is None]
    if unknown or len(rows) < 2:
        why = f"unknown for {', '.join(unknown)}" if unknown else "one arm alone"
        lines.append(f"  comparison: INSUFFICIENT ({why})")
    return "Maintenance by people, over all tasks:\n" + "\n".join(lines)


def maintenance_limits(plan: Plan) -> tuple[str, ...]:
    """Returns what a run cannot say of maintenance."""
    without = [c.id for c in _kept(plan) if not _is_file(c) and not _reviews(c, plan)]
    if not without:
        return ()
    return (
        f"No review log of what {', '.join(without)} held back: the minutes that it costs people are unknown, and a comparison of them is INSUFFICIENT.",
    )
