"""What an earlier seal signed of a run's ledger. Reads checkpoint and key of a run's folder."""

from __future__ import annotations

from pathlib import Path

from orchestrator.attest import layout
from orchestrator.core.keys import PublicKey
from orchestrator.core.notes import parse_checkpoint
from orchestrator.ledger.chain import Prefix


def signed_prefix(folder: Path) -> Prefix | None:
    """Returns what the checkpoint of an earlier seal says of a run's ledger, or None if there is none.

    Raises:
        DocumentError: checkpoint or key are malformed.
        IntegrityError: the checkpoint is not signed by the key beside it.
    """
    note, key = folder / layout.CHECKPOINT, folder / layout.KEY
    if not note.is_file() or not key.is_file():
        return None
    signed = parse_checkpoint(note.read_bytes(), where=note.name)
    signed.verify(PublicKey.parse_pem(key.read_bytes(), where=key.name), where=note.name)
    return Prefix(signed.checkpoint.size, signed.checkpoint.root)
