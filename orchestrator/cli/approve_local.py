"""Allows one run of one plan of phase local: your own key (made on first use), a cap, a window."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.approval_file import approval_beside
from orchestrator.cli.command import shown_path


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    parser.add_argument("plan", type=Path, metavar="PLAN", help="plan file with a live model")
    parser.add_argument(
        "--max-usd", required=True, metavar="N", help="the most that the run may spend, in dollars"
    )
    parser.add_argument(
        "--hours",
        type=int,
        default=24,
        metavar="H",
        help="how long it holds (default 24, at most 336)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: beside the plan")


def run(arguments: argparse.Namespace) -> int:
    """Signs the approval of one local run with the operator's own key."""
    from orchestrator.core.clock import unix_time_s
    from orchestrator.core.files import write_atomic
    from orchestrator.core.places import local_home
    from orchestrator.model.approval import LOCAL_TYPE
    from orchestrator.pipeline.run import read_plan
    from orchestrator.trust.approvals import draft_local, in_plain_words, usd_micros, window_of
    from orchestrator.trust.envelope import sign_new
    from orchestrator.trust.home import make_home

    plan = read_plan(arguments.plan)
    cap = usd_micros(arguments.max_usd, option="--max-usd")
    window = window_of(int(unix_time_s()), arguments.hours)
    # What cannot be approved is refused before a key is made for it.
    draft_local(plan, root_sha256="0" * 64, max_usd_micros=cap, window=window)
    home = make_home(local_home())
    approval = draft_local(plan, root_sha256=home.roles.sha256, max_usd_micros=cap, window=window)
    key = home.key()
    out = arguments.out or approval_beside(arguments.plan)
    write_atomic(out, sign_new(approval.canonical(), (key,), payload_type=LOCAL_TYPE) + b"\n")
    words = in_plain_words(plan, max_usd_micros=cap, window=window)
    if arguments.json:
        render.document(
            {
                "approval": str(out),
                "approval_id": approval.approval_id,
                "allows": list(words),
                "keyid": key.public.keyid,
                "root_sha256": home.roles.sha256,
                "plan_sha256": approval.plan_sha256,
                "max_usd_micros": approval.max_usd_micros,
                "expires_s": approval.window.expires_s,
            }
        )
        return 0
    render.text("you allowed ONE run:")
    for line in words:
        render.row(f"  {line}")
    render.text(f"signed by your key {key.public.keyid[:16]}, roles sha256 {home.roles.sha256}")
    named = "" if arguments.out is None else f" --approval {shlex.quote(shown_path(out))}"
    plan_name = shlex.quote(shown_path(arguments.plan))
    render.text(f"next: memtrial run {plan_name} --live{named}")
    return 0
