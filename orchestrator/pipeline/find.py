"""Finds the folder of a run by id, by path, or as `latest`. Reads folder names, writes nothing."""

from __future__ import annotations

import difflib
from pathlib import Path

from orchestrator.core.errors import UsageError

SHOWN = 3


def find_run(results: Path, name: str) -> Path:
    """Returns the folder of a run.

    Args:
        results: where runs are written.
        name: an id, a path, or `latest`.

    Raises:
        UsageError: there is none; the hint names runs that there are, or how to make the first.
    """
    for folder in (results / name, Path(name)):
        if (folder / "ledger.jsonl").is_file():
            return folder.resolve()
    known = runs(results)
    if not known and name == "latest":
        raise UsageError(
            "no-runs",
            f"expected a run below {results}, found none yet",
            hint="make one with `memtrial smoke`, or with `memtrial plan` and `memtrial run`",
        )
    if Path(name).is_dir():
        raise UsageError(
            "run-unknown",
            f"expected the folder of a run, with a ledger.jsonl, found none in {name!r}",
            hint=_others(name, known),
        )
    raise UsageError(
        "run-unknown",
        f"expected a run id, a folder or 'latest', found {name!r}",
        hint=_others(name, known),
    )


def runs(results: Path) -> list[str]:
    """Returns the ids of all runs below a folder, newest first."""
    if not results.is_dir():
        return []
    found = (p for p in results.iterdir() if not p.is_symlink() and (p / "ledger.jsonl").is_file())
    return sorted((path.name for path in found), reverse=True)


def _others(name: str, known: list[str]) -> str:
    if not known:
        return "there is no run yet: make one with `memtrial smoke`"
    close = difflib.get_close_matches(name, known, n=SHOWN)
    if close:
        return f"did you mean {', '.join(close)}?"
    return f"the newest runs: {', '.join(known[:SHOWN])}"
