"""One connection of a tool server: lines of JSON-RPC 2.0 in, lines out, by the strict rule. Opens nothing itself.

Format: JSON-RPC 2.0 as the Model Context Protocol, revision 2025-06-18, narrows it: an id is a string or a whole
number, never null, and no id comes twice in a session; parameters are an object. Not safe for threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json

MAX_LINE_BYTES: Final = 1024 * 1024
MAX_REQUESTS: Final = 10_000
MAX_ID_CHARS: Final = 200
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL_ERROR = (
    -32700,
    -32600,
    -32601,
    -32602,
    -32603,
)
_ID: Final = "id"
Given = dict[str, object]
Method = Callable[[Given], Given]


class Refused(Exception):
    """A request that is not answered with a result. Holds a code of JSON-RPC 2.0."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Unanswered(Refused):
    """A sound call that gets no answer, because of the memory system or of a bound; nobody who asked is at fault."""


class Session:
    """What one client asks over one connection."""

    def __init__(self, methods: Mapping[str, Method], note_refusal: Callable[[], None]) -> None:
        """Takes the methods by name.

        Args:
            methods: each takes the parameters and returns the result, or raises `Refused`.
            note_refusal: is told of what is no request of the protocol, and of a call that no tool takes; neither of
                a method that is not there nor of a sound call that goes unanswered.
        """
        self._methods = methods
        self._note_refusal = note_refusal
        self._seen: set[str | int] = set()

    def answer(self, line: bytes) -> bytes | None:
        """Answers one message; None for a notification."""
        number: str | int | None = None
        try:
            message = _message(line)
            if _ID not in message:
                return None
            number = self._number(message[_ID])
            answer: dict[str, object] = {"result": self._result(message)}
        except Refused as refused:
            # Agents try newer methods first: a method that is not there is no fault.
            if refused.code != NO_METHOD and not isinstance(refused, Unanswered):
                self._note_refusal()
            answer = {"error": {"code": refused.code, "message": str(refused)}}
        return json.dumps({"jsonrpc": "2.0", _ID: number, **answer}).encode() + b"\n"

    def _number(self, given: object) -> str | int:
        """Takes the id of a request, once."""
        if isinstance(given, bool) or not isinstance(given, str | int):
            raise Refused(INVALID_REQUEST, "expected an id that is a string or a whole number")
        if isinstance(given, str) and len(given) > MAX_ID_CHARS:
            raise Refused(INVALID_REQUEST, f"expected an id of at most {MAX_ID_CHARS} characters")
        if given in self._seen:
            raise Refused(INVALID_REQUEST, "expected an id of its own for each request of a session, found one again")  # fmt: skip
        if len(self._seen) >= MAX_REQUESTS:
            raise Refused(INVALID_REQUEST, f"expected at most {MAX_REQUESTS} requests in a session")
        self._seen.add(given)
        return given

    def _result(self, message: Given) -> Given:
        name, given = message.get("method"), message.get("params", {})
        if not isinstance(name, str):
            raise Refused(INVALID_REQUEST, "expected the name of a method")
        if name not in self._methods:
            raise Refused(NO_METHOD, f"no method {name[:100]}")
        if not isinstance(given, dict):
            raise Refused(INVALID_PARAMS, "expected parameters that are an object")
        return self._methods[name](given)


def _message(line: bytes) -> Given:
    try:
        message = parse_json(line, where="message", max_bytes=MAX_LINE_BYTES)
    except DocumentError as error:
        raise Refused(PARSE_ERROR, error.message) from error
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Refused(INVALID_REQUEST, "expected a message of JSON-RPC 2.0")
    return message
