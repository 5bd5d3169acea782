"""The spend book of a live run: one for each approval, in the operator's corner, copied into the record.

A folder can be copied or emptied, so what an approval has left is never read from a folder. Reads and writes
`spend/NONCE.jsonl` below the operator's corner; the gateway's process, which appends to it, holds its lock.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.attest import layout
from orchestrator.core.errors import ApprovalRefused, DocumentError, IntegrityError
from orchestrator.core.files import read_confined, write_atomic
from orchestrator.core.pae import from_base64
from orchestrator.gateway.accounts import SPEND_FILE, TRAFFIC_FILE, read_accounts
from orchestrator.gateway.gateway import SPEND
from orchestrator.gateway.record import TRAFFIC
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
        book: the approval's spend book; not there yet before the first gateway.
        record: the folder of the run's gateway: its traffic, and the copy of the book that an earlier part of a
            local run left.

    Raises:
        ApprovalRefused: the book was cut, changed or removed, or what the record says of calls is broken.
    """
    # In this order: a gateway that still runs has written the book before the traffic.
    copy, traffic = _read(record / SPEND), _read(record / TRAFFIC)
    found = _read(book)
    known = _whole(copy or b"")
    if not (found or b"").startswith(known):
        raise _behind(
            book,
            f"at least the {len(known)} bytes that {record / SPEND} has of it",
            f"{len(found or b'')} or other bytes",
        )
    if traffic is None:
        return
    try:
        accounts = read_accounts({SPEND_FILE: found, TRAFFIC_FILE: traffic}.get)
        _ = accounts and accounts.spending
    except (IntegrityError, DocumentError) as error:
        raise _behind(
            book, f"a charge for every call in {record / TRAFFIC}", f"({error.message})"
        ) from error


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _behind(book: Path, expected: str, found: str) -> ApprovalRefused:
    return ApprovalRefused(
        "spend-book-behind",
        f"{book}: expected {expected}, found {found}",
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
