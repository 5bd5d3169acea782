"""How an answer of a memory system crosses into the harness: within its time, typed, bounded, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from orchestrator.core.errors import DocumentError
from orchestrator.memory.faults import AdapterFault
from orchestrator.memory.watchdog import Watchdog
from orchestrator.model.base import Document

D = TypeVar("D", bound=Document)


def answered(
    watchdog: Watchdog, kind: type[D], run: Callable[[], D], *, limit_s: float, max_bytes: int
) -> D:
    """Calls a system and reads its answer again from its own bytes: what it holds is data alone.

    Args:
        watchdog: the thread of its life.
        kind: what it must answer.
        run: the call.
        limit_s: how long it may take, in seconds.
        max_bytes: how large its canonical bytes may be.

    Raises:
        AdapterFault: it took too long, raised, or answered anything else.
    """

    def told() -> bytes:
        answer: object = run()
        if not isinstance(answer, kind):
            raise AdapterFault(
                "answer_invalid",
                "typed-answer",
                f"expected a {kind.__name__}, found {type(answer).__name__}",
            )
        return kind.canonical(answer)

    data = watchdog.call(told, limit_s)
    if len(data) > max_bytes:
        raise AdapterFault(
            "flooded",
            "answer-bounded",
            f"expected an answer of at most {max_bytes} bytes, found {len(data)}",
        )
    try:
        return kind.parse_canonical(data, where=kind.__name__, max_bytes=max_bytes)
    except DocumentError as error:
        raise AdapterFault("answer_invalid", "valid-answer", error.message) from error
