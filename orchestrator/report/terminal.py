"""The terminal table of a report, as plain text; the same text goes to `report.txt`."""

from __future__ import annotations

from orchestrator.model.outcome import Outcome
from orchestrator.model.report import ArmRow, Count, RunReport

HEADERS = ("agent", "condition", "resolved", "F2P", "memory F2P", "P2P", "memory tokens", "wall s")


def render_table(report: RunReport) -> str:
    """Returns the table of arms, one row per agent and condition."""
    rows = [
        (
            arm.agent,
            arm.condition_id,
            _resolved(arm),
            _count(arm.fail_to_pass),
            _count(arm.fail_to_pass_memory),
            _count(arm.pass_to_pass),
            str(arm.memory_tokens_median),
            f"{arm.wall_ms_median / 1000:.1f}",
        )
        for arm in report.arms
    ]
    widths = [max(len(row[i]) for row in (HEADERS, *rows)) for i in range(len(HEADERS))]
    lines = [_line(HEADERS, widths), _line(tuple("-" * width for width in widths), widths)]
    previous = None
    for row in rows:
        shown = row if row[0] != previous else ("", *row[1:])
        previous = row[0]
        lines.append(_line(shown, widths))
    return "\n".join(lines)


def _resolved(arm: ArmRow) -> str:
    counted = arm.trials - arm.dropped
    left = counted - arm.verdicts
    notes = [f"{left} open"] * bool(left) + [f"{arm.dropped} dropped"] * bool(arm.dropped)
    return f"{arm.resolved.passed}/{counted}" + (f" ({', '.join(notes)})" if notes else "")


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
                f"  {arm.agent} under {arm.condition_id}: {', '.join(told)} of {arm.attempts} attempts"
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
            f"{used.forks_refused} forks refused" if used.forks_refused else "",
        ]
        if any(told):
            lines.append(
                f"  {arm.agent} under {arm.condition_id}: {', '.join(filter(None, told))}; of {used.measured} attempts, peak {used.memory_peak_bytes / 1024**2:.0f} MiB"
            )
    return "Held up by their limits:\n" + "\n".join(lines) if lines else ""


def render_blocks(report: RunReport) -> str:
    """Returns the dropped blocks with their reasons; else nothing."""
    lines = [
        f"  {block.task_id} e{block.epoch}: {text}"
        for block in report.inadmissible_blocks
        for text in block.because
    ]
    return (
        "Inadmissible, so dropped from the rates of every arm:\n" + "\n".join(lines)
        if lines
        else ""
    )


def render_report(report: RunReport) -> str:
    """Returns table, reasons of unresolved trials worth a look, and what the run does not show."""
    parts = [render_table(report)]
    told = [
        t
        for t in report.trials
        if t.status == "no_verdict"
        or (t.status == "unresolved" and t.agent != "noop" and t.condition_id != "no_memory")
    ]
    if told:
        parts.append(
            "Unresolved with memory, or without a verdict:\n"
            + "\n".join(f"  {t.trial}: {t.why}" for t in told)
        )
    sections = (render_outcomes(report), render_blocks(report), render_resources(report))
    parts += [text for text in sections if text]
    per_trial = report.wall_ms * report.workers
    if report.container_ms:
        parts.append(
            f"Wall {report.wall_ms / 1000:.1f} s with {report.workers} workers; bare container steps {report.container_ms / report.workers / 1000:.1f} s; "
            f"ratio {per_trial / report.container_ms:.2f}"
        )
    parts.append(
        "What this run does not show:\n" + "\n".join(f"  - {text}" for text in report.limitations)
    )
    return "\n\n".join(parts) + "\n"


def _count(count: Count) -> str:
    return f"{count.passed}/{count.of}"


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    left = [cell.ljust(width) for cell, width in zip(cells[:2], widths[:2], strict=True)]
    right = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)]
    return "  ".join((*left, *right)).rstrip()
