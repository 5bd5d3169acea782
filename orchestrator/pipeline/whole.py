"""Whether a run is finished and sealed, so that taking it up again would only break its seal. Writes nothing."""

from __future__ import annotations

from pathlib import Path

from orchestrator.attest import layout
from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.chain import read_entries
from orchestrator.pipeline.run import pending_of, recorded_plan


def is_whole(folder: Path, *, full: bool) -> bool:
    """Whether every trial of a run has ended for good and the run is sealed, so that nothing may be added.

    Args:
        folder: of the run.
        full: also read every record and every blob again.

    Raises:
        IntegrityError: `full`, and one of them is not what was recorded.
    """
    if not (folder / layout.SEAL).is_file() or pending_of(folder, recorded_plan(folder)):
        return False
    *_, torn_bytes = read_entries(folder / layout.LEDGER)
    if full:
        BlobStore(folder / "blobs").check_all()
    return not torn_bytes
