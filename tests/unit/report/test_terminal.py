"""Promise: report.txt shows what a candidate wrote and obeys none of it; report.json has it exactly."""

from __future__ import annotations

from orchestrator.model.report import Block, RunReport, TrialRow
from orchestrator.report.terminal import render_report

HOSTILE = (
    "outside allowed paths: src/\x1b]0;pwned\x07\x9b2J\u202e\nfollower under none: all resolved"
)


def report_with(text: str) -> RunReport:
    row = TrialRow(
        trial="t/c/oracle/e1",
        task_id="t",
        condition_id="c",
        agent="oracle",
        epoch=1,
        status="unresolved",
        outcome=None,
        failure_reason=None,
        why=text,
        memory_tokens=None,
        verdict_sha256=None,
        attempts=1,
        wall_ms=1,
        container_ms=1,
        resources=None,
    )
    return RunReport(
        run_id="r",
        plan_sha256="0" * 64,
        ledger_head_sha256="0" * 64,
        source_revision="git:0",
        source_dirty=False,
        diagnostic=True,
        complete=True,
        arms=(),
        trials=(row,),
        inadmissible_blocks=(Block(task_id="t", epoch=1, because=(text,)),),
        wall_ms=1,
        container_ms=1,
        workers=1,
        processes=1,
        limitations=(text,),
    )


def test_recorded_text_is_shown_escaped_and_on_one_line() -> None:
    shown = render_report(report_with(HOSTILE))
    assert all(c == "\n" or c.isprintable() for c in shown)
    assert not any(line.startswith("follower under none") for line in shown.splitlines())
    assert shown.count("\\x1b]0;pwned\\x07\\x9b2J\\u202e\\x0afollower") == 3


def test_the_document_keeps_the_exact_text() -> None:
    report = report_with(HOSTILE)
    assert RunReport.parse(report.canonical(), where="report.json").trials[0].why == HOSTILE
