"""Promise: an answer that a frozen store does not give is refused, whoever wrote it into the log of an arm's tools."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.audit.asked import check_asked
from orchestrator.core.canonical import digest_sha256
from orchestrator.core.errors import IntegrityError
from orchestrator.memory.compile import render
from orchestrator.memory.sessions import PROJECT
from orchestrator.memory.tokens import TokenCounter
from orchestrator.memory.tools.server import NOTHING, SERVER, TOOLS
from orchestrator.model.condition import MemoryBudget
from orchestrator.model.lifecycle import DroppedItem, RankedItem, StoredMemory, StoreDump
from orchestrator.model.toolcalls import ServedCall, ServedTool, ToolLog

COUNTER = TokenCounter()
FORMS: dict[str, dict[str, Any]] = {
    "m1": {},
    "m2": {},
    "old": {"status": "superseded"},
    "held": {"status": "held"},
    "other": {"scope": "elsewhere"},
}
STORE = StoreDump(
    memories=tuple(
        StoredMemory(
            **{"memory_id": name, "kind": "fact", "text": f"note {name}", "scope": PROJECT, "status": "active", **form}
        )
        for name, form in sorted(FORMS.items())
    )
)  # fmt: skip


def text_of(*names: str) -> str:
    return render(RankedItem(memory_id=name, text=f"note {name}") for name in names) or NOTHING


def call(*names: str, **change: Any) -> ServedCall:
    whole = {"seq": 0, "tool": "memory_search", "arguments": '{"query":"x"}', "item_ids": names, "text": text_of(*names)}  # fmt: skip
    return ServedCall(**{**whole, **change})


def got(asked: str, *names: str, **change: Any) -> ServedCall:
    return call(*names, tool="memory_get", arguments=f'{{"id":"{asked}"}}', **change)


def log(*calls: ServedCall, **change: Any) -> ToolLog:
    tools = tuple(ServedTool(name=str(t["name"]), sha256=digest_sha256(t)) for t in TOOLS)
    whole = {"server": SERVER, "adapter": "reference", "tools": tools, "connected": 1, "listed": 1, "calls": calls, "refused": 0}  # fmt: skip
    return ToolLog(**{**whole, **change})


def attempted(given: ToolLog | None, *, tokens: int = 700, failed: bool = False) -> Any:
    def differs(expected: str, found: str) -> Exception:
        return IntegrityError("stages-mixed-up", f"{expected} {found}", hint="none")

    def require(what: str, expected: object, found: object) -> None:
        if expected != found:
            raise differs(f"{what} {expected}", str(found))

    budget = MemoryBudget(unit="o200k_base", max_tokens=tokens)
    return SimpleNamespace(
        tool_log=lambda: given,
        has=lambda _: True,
        trial=SimpleNamespace(key="t"),
        condition=SimpleNamespace(adapter="reference", budget=budget, retrieve_k=12),
        found=lambda *_: STORE.canonical(),
        document=lambda *_: SimpleNamespace(failure=object() if failed else None),
        counter=COUNTER,
        differs=differs,
        require=require,
    )


def test_answers_that_the_store_gives_are_taken():
    tokens = COUNTER.count("- [mem:m2] note m2\n")
    left_out = (DroppedItem(item_id="m2", tokens=tokens, reason="over_budget"),)
    search = call("m1", left_out=left_out)
    check_asked(attempted(log(search, got("m2", "m2", seq=1), got("m9", seq=2))))
    check_asked(attempted(None))


@pytest.mark.parametrize(
    "changed",
    [
        log(call("old")),
        log(call("held")),
        log(call("other")),
        log(call("m9")),
        log(call("m1", text=text_of("m1").replace("note m1", "note m0"))),
        log(call("m1", text=NOTHING)),
        log(call("m1", item_ids=())),
        log(call("m1", "m1")),
        log(call("m1", left_out=(DroppedItem(item_id="m1", tokens=3, reason="over_budget"),))),
        log(call("m1", left_out=(DroppedItem(item_id="old", tokens=3, reason="superseded"),))),
        log(call("m1", left_out=(DroppedItem(item_id="m2", tokens=99, reason="over_budget"),))),
        log(call("m1", seq=1)),
        log(got("m1", "m1")),
        log(call("m1"), got("m1", "m2", seq=1)),
        log(call("m1"), got("m1", seq=1)),
        log(call("m1", arguments="x")),
        log(call("m1", arguments='{"id":"x"}')),
        log(call("m1", tool="memory_write")),
        log(call("m1"), adapter="empty"),
        log(call("m1"), server="other"),
        log(call("m1"), tools=()),
    ],
)
def test_an_answer_that_the_store_does_not_give_is_refused(changed):
    with pytest.raises(IntegrityError):
        check_asked(attempted(changed))


def test_an_answer_beyond_the_arms_budget_is_refused():
    with pytest.raises(IntegrityError, match="at most 20 tokens"):
        check_asked(attempted(log(call("m1", "m2")), tokens=20))


def test_a_memory_that_broke_its_contract_has_nothing_to_answer():
    check_asked(attempted(log(call()), failed=True))
    with pytest.raises(IntegrityError):
        check_asked(attempted(log(call("m1")), failed=True))
