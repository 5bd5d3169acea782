"""Writes a proposal: everything that the approvers of a run would sign, measured here and now."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from orchestrator.cli import render
from orchestrator.cli.arguments import fitting, whole
from orchestrator.cli.command import shown_path
from orchestrator.cli.trust_options import add_repository, add_system, approvals_of, onward


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("plan", type=Path, metavar="PLAN", help="plan of phase smoke or official")
    parser.add_argument(
        "--id",
        type=fitting(_slug, "lower-case letters, digits, dots, dashes and underscores, at most 80"),
        required=True,
        metavar="NAME",
        help="name of the approval, such as smoke-1",
    )
    parser.add_argument(
        "--commit", required=True, metavar="HEX", help="the approved commit, in full"
    )
    parser.add_argument(
        "--max-input-tokens", type=whole(1, 10**13), required=True, metavar="N", help="in all"
    )
    parser.add_argument(
        "--max-output-tokens", type=whole(1, 10**13), required=True, metavar="N", help="in all"
    )
    parser.add_argument(
        "--hours",
        type=int,
        default=72,
        metavar="H",
        help="how long it holds (default 72, at most 336)",
    )
    add_repository(parser)
    add_system(parser)


def _slug() -> Any:
    from orchestrator.model.base import Slug

    return Slug


def run(arguments: argparse.Namespace) -> int:
    """Measures, writes and says in plain words."""
    from orchestrator.core.clock import unix_time_s
    from orchestrator.pipeline.gating import Proposed, propose
    from orchestrator.pipeline.run import read_plan
    from orchestrator.trust.approvals import approval_in_words, window_of
    from orchestrator.trust.proposals import write_plan, write_proposal
    from orchestrator.trust.repository import check_commit_name

    check_commit_name(arguments.commit)
    plan = read_plan(arguments.plan)
    window = window_of(int(unix_time_s()), arguments.hours)
    approvals = approvals_of(arguments)
    asked = Proposed(
        approval_id=arguments.id,
        commit=arguments.commit,
        max_input_tokens=arguments.max_input_tokens,
        max_output_tokens=arguments.max_output_tokens,
        window=window,
    )
    approval = propose(plan, asked, approvals=approvals, system=arguments.system)
    write_plan(approvals, plan)
    path = write_proposal(approvals, approval)
    words = approval_in_words(approval, plan)
    if arguments.json:
        render.document({"proposal": str(path), "allows": list(words), "id": arguments.id})
        return 0
    render.text("a signature would allow ONE run:")
    for line in words:
        render.row(f"  {line}")
    render.text(f"proposal {shown_path(path)}")
    render.text("commit approvals/proposals and approvals/plans, for those who are to sign")
    render.text(onward(arguments, f"memtrial approve show {shlex.quote(arguments.id)}"))
    return 0
