"""Appends to a ledger whose file may not grow beyond a limit, for each limit in turn; run by test_full_disk.

Arguments: folder, first limit, last limit (bytes). Prints one JSON object: for each limit how many appends
were acknowledged, the errors of the others, and what a reopened ledger holds.
"""

from __future__ import annotations

import errno
import json
import resource
import sys
from pathlib import Path

from orchestrator.core.errors import MemtrialError
from orchestrator.ledger.chain import Ledger
from orchestrator.model.record import AttemptStarted

APPENDS = 4


def allow(limit_bytes: int) -> None:
    """Sets how large this process may make a file; like a full disk it cuts a write off in the middle."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))


def under_limit(path: Path, limit_bytes: int) -> dict[str, object]:
    """Appends under a limit, then once more without it, and reads the ledger again."""
    ledger = Ledger.create(path)
    acknowledged, errors = [], []
    allow(limit_bytes)
    for number in range(APPENDS):
        try:
            ledger.append(AttemptStarted(trial=f"trial-{number}", attempt=1))
            acknowledged.append(f"trial-{number}")
        except OSError as error:
            errors.append(errno.errorcode[error.errno or 0])
        except MemtrialError as error:
            errors.append(error.reference)
    allow(resource.RLIM_INFINITY)
    size_bytes = path.stat().st_size
    ledger.append(AttemptStarted(trial="afterwards", attempt=1))
    acknowledged.append("afterwards")
    ledger.close()
    reopened, entries, torn_bytes = Ledger.open_for_append(path)
    reopened.close()
    found = [e.body.trial for e in entries if isinstance(e.body, AttemptStarted)]
    return {
        "limit_bytes": limit_bytes,
        "size_bytes": size_bytes,
        "acknowledged": acknowledged,
        "errors": errors,
        "found": found,
        "torn_bytes": torn_bytes,
    }


def main() -> None:
    """Works all limits off."""
    folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    told = [under_limit(folder / f"{limit}.jsonl", limit) for limit in range(first, last + 1)]
    print(json.dumps(told))


if __name__ == "__main__":
    main()
