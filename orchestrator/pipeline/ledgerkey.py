"""Which key may seal a run of phase smoke or official: the ledger's, by the roles that lie beside its approval.

Reads `approval.roles.json` of a run's folder; writes nothing.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.attest import layout
from orchestrator.trust.roles import check_sealing_key, load_roles


def check_ledgers_key(folder: Path, keyid: str | None) -> None:
    """Refuses to have a run sealed by another key than its approval's roles allow.

    A run without roles has no approval, and those of phase local name nobody who seals; verification
    refuses a bundle from which they were taken.

    Args:
        folder: of the run.
        keyid: of the key that would seal it; None where none was named.

    Raises:
        ApprovalRefused: the roles name another key, or are not sound.
    """
    path = folder / layout.ROLES
    if not path.is_file():
        return
    roles = load_roles(path.read_bytes(), where=layout.ROLES)
    if roles.document.kind != "local":
        check_sealing_key(roles, keyid)
