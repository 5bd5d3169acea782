"""Where an approval lies and how its file is read. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path

from orchestrator.core.errors import ApprovalRefused

SUFFIX = ".approval.dsse.json"
MAX_BYTES = 1024 * 1024


def approval_beside(plan: Path) -> Path:
    """Returns the name of a plan's approval: `plan.json` has `plan.approval.dsse.json`."""
    return plan.with_name(plan.stem + SUFFIX)


def read_approval(path: Path) -> bytes:
    """Reads an approval's exact bytes, but for one line end behind them.

    Raises:
        ApprovalRefused: there is no such regular file, or it is too large.
    """
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= MAX_BYTES else None
    except OSError:
        data = None
    if data is None:
        raise ApprovalRefused(
            "approval-missing",
            f"expected a signed approval, found none at {path}; nothing was contacted",
            hint="make one with `memtrial approve local PLAN --max-usd N`, or name one with --approval",
        )
    return data.removesuffix(b"\n")
