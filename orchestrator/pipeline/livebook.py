"""The spend book of a live run: one for each approval, in the operator's corner, copied into the record.

A folder can be copied or emptied, so what an approval has left is never read from a folder. Reads and writes
`spend/NONCE.jsonl` below the operator's corner; the gateway's process, which appends to it, holds its lock.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.attest import layout
from orchestrator.core.errors import ApprovalRefused
from orchestrator.core.files import read_confined, write_atomic
from orchestrator.core.pae import from_base64
from orchestrator.gateway.gateway import SPEND
from orchestrator.model.approval import LocalApproval
from orchestrator.trust.envelope import parse_envelope

BOOKS = "spend"
GATEWAY = "gateway"
MAX_APPROVAL_BYTES = 1024 * 1024


def book_of(home: Path, nonce: str) -> Path:
    """Returns where everything is written down that is spent under an approval."""
    return home / BOOKS / f"{nonce}.jsonl"


def check_book(book: Path, record: Path) -> None:
    """Refuses a record that knows of money which the approval's own book does not.

    Args:
        book: the approval's spend book; not there yet before the first call.
        record: the folder of the run's gateway, with the copy that an earlier part of the run left.

    Raises:
        ApprovalRefused: the book was cut, changed or removed.
    """
    copy = record / SPEND
    known = _whole(copy.read_bytes()) if copy.is_file() else b""
    found = book.read_bytes() if book.is_file() else b""
    if not found.startswith(known):
        raise ApprovalRefused(
            "spend-book-behind",
            f"{book}: expected at least the {len(known)} bytes that {copy} has of it, found {len(found)} or other bytes",
            hint="restore the spend book from a copy; until then this approval allows no call",
        )


def keep_book(folder: Path, home: Path) -> None:
    """Copies the approval's spend book into a run's record, once the gateway has ended.

    Args:
        folder: the run's folder, whose approval has passed the gate.
        home: the operator's corner.
    """
    data = read_confined(folder, layout.APPROVAL, max_bytes=MAX_APPROVAL_BYTES)
    payload = from_base64(parse_envelope(data, where=layout.APPROVAL).payload, where="payload")
    approval = LocalApproval.parse_canonical(payload, where=layout.APPROVAL)
    book = book_of(home, approval.nonce)
    if book.is_file():
        write_atomic(folder / GATEWAY / SPEND, _whole(book.read_bytes()))


def _whole(data: bytes) -> bytes:
    """Returns the whole lines: what a killed process left torn is no part of the book."""
    return data[: data.rfind(b"\n") + 1]
