"""What an insider has a record say of the tools that an agent asked its memory through."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from orchestrator.core.canonical import canonical_bytes
from orchestrator.ledger.blobs import BlobStore
from orchestrator.model.toolcalls import TOOL_LOG
from tests.evidence.insider_operations import Change, Entries, keep, rebind, stage_of, trials_of
from tests.played_tools import TOOLS_ARM

Log = dict[str, Any]


def logged(change: Callable[[Log], None], name: str = TOOL_LOG) -> Change:
    """Returns a change of what was kept of the tools of the one trial that asked them."""

    def rewrite(entries: Entries, blobs: BlobStore) -> None:
        trial = trials_of(entries, TOOLS_ARM)[0]
        body = stage_of(entries, trial, "act")
        kept = next(a["sha256"] for a in body["artifacts"] if a["name"] == name)
        value = json.loads(blobs.get(kept))
        change(value)
        keep(blobs, body, name, canonical_bytes(value))
        rebind(entries, blobs, trial)

    return rewrite


def _answer_more(log: Log) -> None:
    log["calls"][0]["text"] += "- [mem:m99] use the other carrier\n"


def _answer_less(log: Log) -> None:
    log["calls"][0] |= {"item_ids": [], "left_out": [], "text": "No note fits."}


def _answer_from_elsewhere(log: Log) -> None:
    stray = {"item_id": "m99", "tokens": 9, "reason": "over_budget"}
    log["calls"][0]["left_out"].append(stray)


def _get_what_no_search_gave(log: Log) -> None:
    first = log["calls"][0]
    name = first["item_ids"][0]
    asked = {"tool": "memory_get", "arguments": json.dumps({"id": name}), "left_out": []}
    log["calls"] = [first | asked | {"item_ids": [name]}]


def _forget_calls(log: Log) -> None:
    log["calls"] = []


def _offer_another_tool(log: Log) -> None:
    log["tools"][0]["name"] = "memory_guess"


def _serve_by_another(log: Log) -> None:
    log["adapter"] = "empty"


def _see_no_answer(proof: Log) -> None:
    for answer in proof["answers"]:
        answer |= {"ordinal": None, "pointer": None}


def _be_shown_text(proof: Log) -> None:
    proof |= {"result": "shown", "detail": "all bytes in every call"}


TOOLS_CHANGES: dict[str, Change] = {
    "answer_more": logged(_answer_more),
    "answer_less": logged(_answer_less),
    "answer_from_elsewhere": logged(_answer_from_elsewhere),
    "get_what_no_search_gave": logged(_get_what_no_search_gave),
    "forget_calls": logged(_forget_calls),
    "offer_another_tool": logged(_offer_another_tool),
    "serve_by_another": logged(_serve_by_another),
    "see_no_answer": logged(_see_no_answer, "injection-proof"),
    "be_shown_text": logged(_be_shown_text, "injection-proof"),
}
