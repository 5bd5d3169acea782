"""The terminal table of a report, as plain text; the same text goes to `report.txt`.

Texts of the record may hold what a candidate wrote: they are shown with all unseen characters escaped.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.core import words
from orchestrator.core.printable import printable
from orchestrator.model.outcome import Outcome
from orchestrator.model.report import ArmRow, Count, RunReport
from orchestrator.report.bill import render_spending
from orchestrator.report.charges import render_charges
from orchestrator.report.explain import NOT_RUN
from orchestrator.report.maintenance import render_maintenance

HEADERS = ("agent", "condition", "resolved", "F2P", "memory F2P", "P2P", "memory tokens", "wall s")
# What a narrow terminal goes without, in this order: columns by their place in HEADERS.
DROPPED = (7, 6, 5, 4, 3)
EMPTY = "-"


def render_table(report: RunReport, width: int | None = None) -> str:
    """Returns the table of arms, one row per agent and condition.

    Args:
        report: of the run.
        width: columns of the terminal; a wider table goes without some figures and says so.
    """
    rows = [
        (
            arm.agent,
            arm.condition_id,
            _resolved(arm),
            _count(arm.fail_to_pass),
            _count(arm.fail_to_pass_memory),
            _count(arm.pass_to_pass),
            str(arm.memory_tokens_median) if arm.verdicts else EMPTY,
            f"{arm.wall_ms_median / 1000:.1f}" if arm.verdicts else EMPTY,
        )
        for arm in report.arms
    ]
    widths = [max(len(row[i]) for row in (HEADERS, *rows)) for i in range(len(HEADERS))]
    kept = _fitting(widths, width)
    lines = [_line(HEADERS, widths, kept), _line(["-" * w for w in widths], widths, kept)]
    previous = None
    for row in rows:
        shown = row if row[0] != previous else ("", *row[1:])
        previous = row[0]
        lines.append(_line(shown, widths, kept))
    gone = [HEADERS[i] for i in range(len(HEADERS)) if i not in kept]
    if gone:
        lines.append(f"(too narrow for {', '.join(gone)}: see report.txt)")
    return "\n".join(lines)


def _fitting(widths: list[int], width: int | None) -> list[int]:
    """Returns the places of the columns that fit."""
    kept = list(range(len(widths)))
    for place in DROPPED:
        if width is None or sum(widths[i] + 2 for i in kept) - 2 <= width:
            break
        kept.remove(place)
    return kept


def _resolved(arm: ArmRow) -> str:
    counted = arm.trials - arm.dropped
    left = counted - arm.verdicts
    notes = [f"{left} open"] * bool(left) + [f"{arm.dropped} dropped"] * bool(arm.dropped)
    shown = f"{arm.resolved.passed}/{counted}" if arm.verdicts else EMPTY
    return shown + (f" ({', '.join(notes)})" if notes else "")


def render_outcomes(report: RunReport) -> str:
    """Returns one line for each arm with an attempt that did not simply complete; else nothing."""
    lines = []
    for arm in report.arms:
        told = [
            f"{count.attempts} {count.outcome.value}"
            for count in arm.outcomes
            if count.outcome is not Outcome.COMPLETED
        ]
        if told:
            lines.append(
                f"  {arm.agent} under {arm.condition_id}: {', '.join(told)} of {words.counted(arm.attempts, 'attempt')}"
            )
    return "Attempts that did not simply complete:\n" + "\n".join(lines) if lines else ""


def render_resources(report: RunReport) -> str:
    """Returns one line for each arm that ran out of memory, CPU time or processes; else nothing."""
    lines = []
    for arm in report.arms:
        used = arm.resources
        told = [
            f"{used.oom_attempts} out of memory" if used.oom_attempts else "",
            f"{used.throttled_attempts} throttled ({used.throttled_ms} ms of {used.cpu_ms} ms CPU time)"
            if used.throttled_ms
            else "",
            f"{words.counted(used.forks_refused, 'fork')} refused" if used.forks_refused else "",
        ]
        if any(told):
            lines.append(
                f"  {arm.agent} under {arm.condition_id}: {', '.join(filter(None, told))}; of {words.counted(used.measured, 'attempt')}, peak {used.memory_peak_bytes / 1024**2:.0f} MiB"
            )
    return "Held up by their limits:\n" + "\n".join(lines) if lines else ""


def render_blocks(report: RunReport) -> str:
    """Returns the dropped blocks with their reasons; else nothing."""
    lines = [
        f"  {block.task_id} e{block.epoch}: {printable(text)}"
        for block in report.inadmissible_blocks
        for text in block.because
    ]
    return (
        "Inadmissible, so dropped from the rates of every arm:\n" + "\n".join(lines)
        if lines
        else ""
    )


def render_report(report: RunReport, width: int | None = None) -> str:
    """Returns table, reasons of unresolved trials worth a look, and what the run does not show.

    Args:
        report: of the run.
        width: columns of the terminal for the table; None for no bound.
    """
    parts = [render_table(report, width)]
    sections = (
        _trials_to_look_at(report),
        render_charges(report),
        render_maintenance(report),
        render_outcomes(report),
        render_blocks(report),
        render_resources(report),
        render_spending(report),
        render_times(report),
    )
    parts += [text for text in sections if text]
    parts.append(
        "What this run does not show:\n"
        + "\n".join(f"  - {printable(text)}" for text in report.limitations)
    )
    return "\n\n".join(parts) + "\n"


def _trials_to_look_at(report: RunReport) -> str:
    told = [
        t
        for t in report.trials
        if t.status == "no_verdict"
        or (t.status == "unresolved" and t.agent != "noop" and t.condition_id != "no_memory")
    ]
    lines = [f"  {t.trial}: {printable(t.why)}" for t in told if t.why != NOT_RUN]
    if waiting := len(told) - len(lines):
        lines.append(f"  {words.counted(waiting, 'trial')} {NOT_RUN}")
    title = "Unresolved with memory, or without a verdict:\n"
    return title + "\n".join(lines) if lines else ""


def render_times(report: RunReport) -> str:
    """Returns wall time and, where it means something, its ratio to the bare container steps.

    A run that was stopped repeats work, and one with few trials leaves workers idle: no ratio then.
    """
    if not report.wall_ms:
        return ""
    at_once = min(report.workers, len(report.trials))
    told = f"Wall {report.wall_ms / 1000:.1f} s with {words.counted(report.workers, 'worker')}"
    cancelled = any(c.outcome is Outcome.CANCELLED for arm in report.arms for c in arm.outcomes)
    interrupted = cancelled or report.processes > 1 or not report.complete
    if interrupted or len(report.trials) < 2 * report.workers or not report.container_ms:
        return told
    bare_s = report.container_ms / at_once / 1000
    return (
        f"{told}; bare container steps {bare_s:.1f} s (per worker, with at least one container step under way); "
        f"ratio {report.wall_ms / 1000 / bare_s:.2f} (wall to steps: what memtrial adds)"
    )


def _count(count: Count) -> str:
    return f"{count.passed}/{count.of}" if count.of else EMPTY


def _line(cells: Sequence[str], widths: list[int], kept: list[int]) -> str:
    shown = [cells[i].ljust(widths[i]) if i < 2 else cells[i].rjust(widths[i]) for i in kept]
    return "  ".join(shown).rstrip()
