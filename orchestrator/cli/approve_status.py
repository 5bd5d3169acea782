"""Shows proposals, who signed them, whether they are published, and until when they hold."""

from __future__ import annotations

import argparse

from orchestrator.cli import render
from orchestrator.cli.trust_options import add_repository, approvals_of


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    add_repository(parser)


def run(arguments: argparse.Namespace) -> int:
    """Lists the proposals."""
    from orchestrator.core.clock import unix_time_s, utc_text_of
    from orchestrator.trust.proposals import standings

    now_s = int(unix_time_s())
    found = standings(approvals_of(arguments), now_s=now_s)
    if arguments.json:
        render.document(
            {
                "approvals": [
                    {
                        "id": s.approval_id,
                        "signers": list(s.signers),
                        "needed": s.needed,
                        "published": s.published,
                        "expires_s": s.expires_s,
                        "expired": s.fault is None and s.withdrawn is None and now_s >= s.expires_s,
                        "fault": s.fault,
                        "withdrawn_s": s.withdrawn and s.withdrawn.withdrawn_s,
                        "withdrawn_for": s.withdrawn and s.withdrawn.reason,
                    }
                    for s in found
                ]
            }
        )
        return 0
    for s in found:
        if s.fault is not None:
            render.row(f"{s.approval_id}: NOT TO BE SIGNED OR RELIED ON, {s.fault}")
            continue
        if s.withdrawn is not None:
            render.row(
                f"{s.approval_id}: withdrawn {utc_text_of(s.withdrawn.withdrawn_s)}: {s.withdrawn.reason}"
            )
            continue
        state = (
            "expired" if now_s >= s.expires_s else "published" if s.published else "not published"
        )
        missing = max(0, s.needed - len(s.signers))
        signers = ", ".join(keyid[:16] for keyid in s.signers) or "nobody"
        render.row(
            f"{s.approval_id}: {state}, signed by {signers}, {missing} missing, until {utc_text_of(s.expires_s)}"
        )
    if not found:
        render.text("no proposals")
    render.text("next: memtrial approve sign ID --key YOUR-KEY.pem")
    return 0
