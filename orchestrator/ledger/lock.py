"""Tells whether a process works on a run at this moment; takes no lock that it keeps, writes nothing."""

from __future__ import annotations

import fcntl
from pathlib import Path


def is_worked_on(ledger: Path) -> bool:
    """Tells whether another process holds the ledger; a file that cannot be opened is held by nobody."""
    try:
        with ledger.open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
