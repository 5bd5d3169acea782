"""The operator's copy of a supervised run's record, kept to what the supervisor's own files say.

Appends what the supervisor's files have more, through descriptors that it handed over. Before the first byte is
added, and again at the end, the copy is compared whole: a folder that was cut, edited or that belongs to another
run is found, and nothing is ever appended to it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from orchestrator.core.errors import IntegrityError
from orchestrator.model.dispatch import RECORD_FILES

PIECE_BYTES = 1 << 20


class RecordCopy:
    """The files of one run's folder. Nothing is held open between calls."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder if it is not there."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._copied: dict[str, int] = {}

    def follow(self, handles: Sequence[int], *, compare: bool = False) -> None:
        """Appends what the supervisor's record has more than the copy.

        Args:
            handles: descriptors of the supervisor's files, in the order of RECORD_FILES.
            compare: whether to compare every byte; it is done the first time in any case.

        Raises:
            IntegrityError: the copy is not what the supervisor has.
        """
        for name, handle in zip(RECORD_FILES, handles, strict=True):
            with (self._folder / name).open("a+b") as target:
                size = target.seek(0, os.SEEK_END)
                known = self._copied.get(name)
                if known is not None and size != known:
                    raise self._differs(name, f"the {known} bytes that were copied", f"{size}")
                if known is None or compare:
                    self._compare(name, target.fileno(), handle, size)
                while piece := os.pread(handle, PIECE_BYTES, size):
                    target.write(piece)
                    size += len(piece)
                self._copied[name] = size

    def _compare(self, name: str, mine: int, theirs: int, size: int) -> None:
        """Refuses a copy of which the supervisor's file is no continuation."""
        at = 0
        while at < size:
            piece = os.pread(mine, min(PIECE_BYTES, size - at), at)
            if not piece or os.pread(theirs, len(piece), at) != piece:
                raise self._differs(
                    name, "what the supervisor wrote", f"other bytes from {at} of {size} on"
                )
            at += len(piece)

    def _differs(self, name: str, expected: str, found: str) -> IntegrityError:
        return IntegrityError(
            "record-not-the-supervisors",
            f"{self._folder / name}: expected {expected}, found {found}",
            hint=f"move {name} away and run `memtrial resume`, which copies it whole again",
        )
