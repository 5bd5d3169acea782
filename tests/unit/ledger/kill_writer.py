"""Harness of test_kill: forks writers, kills each with SIGKILL at a random instant, and reopens the ledger.

Runs as its own single-threaded process, because it forks. Prints one JSON line with its counts.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.chain import Ledger
from orchestrator.model.record import AttemptStarted


def write(folder: Path, ledger: Ledger, start: int, pipe: int) -> None:
    """Appends for ever; a number goes into the pipe once its append has returned."""
    blobs = BlobStore(folder / "blobs")
    number = start
    while True:
        number += 1
        blobs.put(b"artifact %d " % number * 100)
        ledger.append(AttemptStarted(trial="t" * (number % 50 + 1), attempt=number))
        os.write(pipe, number.to_bytes(8, "big"))


def main(folder: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    path = folder / "ledger.jsonl"
    Ledger.create(path).close()
    counts = {"kills": 0, "acknowledged": 0, "unacknowledged": 0, "torn": 0}
    total = 0
    for _ in range(kills):
        ledger, entries, torn = Ledger.open_for_append(path, repair=True)
        assert len(entries) == total
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            write(folder, ledger, total, writing)
        ledger.close()
        os.close(writing)
        # Once it is at work (its first record is acknowledged), it dies at an instant of its next few appends.
        first = os.read(reading, 8)
        time.sleep(rng.random() * 0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as stream:
            acknowledged = len(first + stream.read()) // 8
        reopened, entries, torn = Ledger.open_for_append(path, repair=True)
        reopened.close()
        # Every acknowledged record, in order; at most the one that was under way, whole; nothing else.
        numbers = [e.body.attempt for e in entries if isinstance(e.body, AttemptStarted)]
        assert numbers == list(range(1, len(entries) + 1))
        assert 0 <= len(entries) - total - acknowledged <= 1
        counts["kills"] += 1
        counts["acknowledged"] += acknowledged
        counts["unacknowledged"] += len(entries) - total - acknowledged
        counts["torn"] += bool(torn)
        total = len(entries)
    BlobStore(folder / "blobs").check_all()
    print(json.dumps(counts))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
