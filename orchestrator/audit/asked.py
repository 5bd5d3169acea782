"""What an agent asked its memory's tools and was answered, checked against the store as it was frozen. Pure.

That a question was asked, and which notes a search ranked for it, is the record's own word: a search is not made
again. What an answer says follows from its notes, and the notes from the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.audit.attempts import Attempted
from orchestrator.core.canonical import digest_sha256
from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json
from orchestrator.memory.compile import framed, render, render_item
from orchestrator.memory.sessions import PROJECT
from orchestrator.memory.tools.server import ARGUMENT_OF, NOTHING, SERVER, TOOLS
from orchestrator.model.lifecycle import MAX_K, RankedItem, StoredMemory, StoreDump
from orchestrator.model.memory import Remembered
from orchestrator.model.record import Stage
from orchestrator.model.toolcalls import ServedCall


def check_asked(seen: Attempted) -> None:
    """Checks every answer of the arm's tools.

    Raises:
        MemtrialError: an answer says what its notes do not, or a note is none that could be given.
    """
    log = seen.tool_log()
    if log is None:
        return
    seen.require("tool server", (SERVER, seen.condition.adapter), (log.server, log.adapter))
    tools = [(str(tool["name"]), digest_sha256(tool)) for tool in TOOLS]
    seen.require("tools", tools, [(tool.name, tool.sha256) for tool in log.tools])
    seen.require("answers in order", list(range(len(log.calls))), [c.seq for c in log.calls])
    notes = _notes(seen)
    ranked: set[str] = set()
    for call in log.calls:
        _check_call(seen, call, notes, ranked)
        if call.tool == "memory_search":
            ranked |= set(call.ranked_ids)


def _notes(seen: Attempted) -> Mapping[str, StoredMemory]:
    """Returns what a search of the frozen store may show: what is active in this project.

    Nothing where the memory system broke its contract.
    """
    data = seen.found(Stage.REMEMBER, "dump")
    if data is None or seen.document(Stage.REMEMBER, Remembered).failure is not None:
        return {}
    dump = StoreDump.parse_canonical(data, where=f"dump of {seen.trial.key}")
    return {
        memory.memory_id: memory
        for memory in dump.memories
        if memory.status == "active" and memory.scope == PROJECT
    }


def _check_call(
    seen: Attempted, call: ServedCall, notes: Mapping[str, StoredMemory], ranked: set[str]
) -> None:
    asked = _argument(seen, call)
    given = list(call.ranked_ids)
    where = f"answer {call.seq}"
    seen.require(f"notes of {where}, each once", sorted(set(given)), sorted(given))
    if call.tool == "memory_get":
        # Only what a search of this attempt ranked has a way out by its id.
        seen.require(f"notes of {where}", [asked] if asked in ranked else [], given)
    if len(given) > (seen.condition.retrieve_k or MAX_K):
        raise seen.differs(f"fewer notes in {where}", f"{len(given)}")
    unknown = [name for name in given if name not in notes]
    seen.require(f"notes of {where} that the frozen store does not show", [], unknown)
    for dropped in call.left_out:
        line = render_item(_item(notes[dropped.item_id]))
        seen.require(f"tokens of {dropped.item_id}", seen.counter.count(line), dropped.tokens)
    text = render(_item(notes[name]) for name in call.item_ids)
    seen.require(f"text of {where}", text or NOTHING, call.text)
    budget = seen.condition.budget
    if budget is not None and seen.counter.count(framed(text)) > budget.max_tokens:
        raise seen.differs(f"an {where} of at most {budget.max_tokens} tokens", "more")


def _argument(seen: Attempted, call: ServedCall) -> str:
    """Returns what was asked: the one argument that the tool takes."""
    try:
        given = parse_json(call.arguments.encode(), where="arguments")
    except DocumentError as error:
        raise seen.differs("arguments in JSON", error.message) from error
    argument = ARGUMENT_OF.get(call.tool)
    value = given.get(argument) if isinstance(given, dict) and len(given) == 1 else None
    if not isinstance(value, str):
        raise seen.differs(f"the one argument of {call.tool}", call.arguments)
    return value


def _item(memory: StoredMemory) -> RankedItem:
    return RankedItem(memory_id=memory.memory_id, text=memory.text)
