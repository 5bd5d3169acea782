"""Shows proposals and approvals: who signed them, what of them still holds, and what to do next.

Whether one was used is in the nonce book, which only root and the supervisor's user can read.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.cli.trust_options import add_repository, add_system, approvals_of, onward

if TYPE_CHECKING:
    from orchestrator.trust.proposals import Standing

PROPOSE = "memtrial approve propose PLAN --id NAME --commit HEX --max-input-tokens N --max-output-tokens N"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the word."""
    add_repository(parser)
    add_system(parser)


def run(arguments: argparse.Namespace) -> int:
    """Lists the proposals."""
    from orchestrator.core.clock import unix_time_s, utc_text_of
    from orchestrator.trust.proposals import standings

    now_s = int(unix_time_s())
    found = standings(approvals_of(arguments), now_s=now_s)
    used = uses(arguments.system)
    if arguments.json:
        render.document(
            {
                "approvals": [_plain(s, used, now_s) for s in found],
                "uses_known": used is not None,
            }
        )
        return 0
    for s in found:
        missing = max(0, s.needed - len(s.signers))
        signers = ", ".join(keyid[:16] for keyid in s.signers) or "nobody"
        word, more = state_of(s, used, now_s)
        told = f"{s.approval_id}: {word}{more}"
        if word not in {"NOT TO BE SIGNED OR RELIED ON", "withdrawn"}:
            told += f", signed by {signers}, {missing} missing, until {utc_text_of(s.expires_s)}"
        render.row(told)
    if not found:
        render.text("no proposals")
    elif used is None:
        render.row(
            f"whether any was used cannot be seen from here: only root and the supervisor's user can read the nonce book that {arguments.system} names"
        )
    render.text(onward(arguments, _next(found, used, now_s)))
    return 0


def uses(system: Path) -> Mapping[str, str] | None:
    """Returns which run used a nonce, by nonce; None where this user or machine cannot see it."""
    from orchestrator.core.errors import MemtrialError
    from orchestrator.model.gate import GateConfig
    from orchestrator.trust.gate.before import CONFIG
    from orchestrator.trust.gate.machine import NONCES
    from orchestrator.trust.nonces import NonceBook

    try:
        config = GateConfig.parse_canonical((system / CONFIG).read_bytes(), where=CONFIG)
        lines = NonceBook(Path(config.supervisor_state) / NONCES).state().lines
    except (OSError, MemtrialError):
        return None
    return {line.nonce: line.run_id for line in lines}


def state_of(s: Standing, used: Mapping[str, str] | None, now_s: int) -> tuple[str, str]:
    """Returns what holds of an approval in a word, and what there is to say of it."""
    from orchestrator.core.clock import utc_text_of

    if s.fault is not None:
        return "NOT TO BE SIGNED OR RELIED ON", f", {s.fault}"
    if s.withdrawn is not None:
        return "withdrawn", f" {utc_text_of(s.withdrawn.withdrawn_s)}: {s.withdrawn.reason}"
    if used is not None and s.nonce in used:
        return "used", f" by run {used[s.nonce]}"
    if now_s >= s.expires_s:
        return "expired", ""
    if s.superseded:
        return "of an older root", " or older roles, so the gate refuses it"
    return ("published" if s.published else "not published"), ""


def _next(found: tuple[Standing, ...], used: Mapping[str, str] | None, now_s: int) -> str:
    """Returns the step after the first one that is under way; a new proposal where none is."""
    for s in found:
        name, word = shlex.quote(s.approval_id), state_of(s, used, now_s)[0]
        if word == "published":
            return f"memtrial gate PLAN --approval {name}"
        if word == "not published" and len(s.signers) >= s.needed:
            return f"memtrial approve sign {name} --curator CURATOR-KEY.pem"
        if word == "not published":
            return f"memtrial approve show {name}"
    return PROPOSE


def _plain(s: Standing, used: Mapping[str, str] | None, now_s: int) -> dict[str, object]:
    return {
        "id": s.approval_id,
        "state": state_of(s, used, now_s)[0].lower(),
        "signers": list(s.signers),
        "needed": s.needed,
        "published": s.published,
        "expires_s": s.expires_s,
        "expired": s.fault is None and s.withdrawn is None and now_s >= s.expires_s,
        "superseded": s.superseded,
        "used_by": (used or {}).get(s.nonce),
        "fault": s.fault,
        "withdrawn_s": s.withdrawn and s.withdrawn.withdrawn_s,
        "withdrawn_for": s.withdrawn and s.withdrawn.reason,
    }
