"""What crosses between the examiner and the candidate's process: frames of JSON, plain values by value.

Plain values are those of the exact built-in types below: they carry no code, so nothing of the candidate's
runs in the examiner. Everything else crosses as a number that stands for an object of the other side.
Shared by both sides; standard library only; reads and writes one socket, nothing else.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import fractions
import json
import pathlib
import socket
import struct
import uuid
from collections.abc import Callable
from typing import Any

MAX_FRAME_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 60
_LENGTH = struct.Struct(">I")
# Tag -> (exact type, to text, from text); the text form is exact for each of them.
_TEXTS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "float": (float, float.hex, float.fromhex),
    "complex": (complex, repr, complex),
    "bytes": (bytes, lambda v: base64.b64encode(v).decode("ascii"), base64.b64decode),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "fraction": (fractions.Fraction, str, fractions.Fraction),
    "datetime": (
        datetime.datetime,
        datetime.datetime.isoformat,
        datetime.datetime.fromisoformat,
    ),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "time": (datetime.time, datetime.time.isoformat, datetime.time.fromisoformat),
    "path": (pathlib.PosixPath, str, pathlib.PosixPath),
    "uuid": (uuid.UUID, str, uuid.UUID),
}
_TEXT_OF = {kind: (tag, write) for tag, (kind, write, _) in _TEXTS.items()}
_NUMBERS: dict[str, tuple[type, tuple[str, ...]]] = {
    "timedelta": (datetime.timedelta, ("days", "seconds", "microseconds")),
    "range": (range, ("start", "stop", "step")),
}
_NUMBERS_OF = {kind: (tag, names) for tag, (kind, names) in _NUMBERS.items()}
_SEQUENCES: dict[str, type] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
_SEQUENCE_OF = {kind: tag for tag, kind in _SEQUENCES.items()}


class Broken(Exception):
    """The other side is gone or does not keep to the form."""


class Line:
    """A connected socket that carries one frame at a time: four bytes of length, then JSON."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw

    def send(self, message: list[Any]) -> None:
        """Sends one message.

        Raises:
            Broken: the other side is gone, or the message is too long.
        """
        data = json.dumps(message, allow_nan=False).encode()
        if len(data) > MAX_FRAME_BYTES:
            raise Broken(f"a message of {len(data)} bytes is above {MAX_FRAME_BYTES}")
        try:
            self._raw.sendall(_LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise Broken(str(error)) from error

    def receive(self) -> list[Any]:
        """Returns the next message, a non-empty list whose first item is a word.

        Raises:
            Broken: the other side is gone or sent something else.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length > MAX_FRAME_BYTES:
            raise Broken(f"a message of {length} bytes is above {MAX_FRAME_BYTES}")
        try:
            message = json.loads(self._exactly(length))
        except (ValueError, RecursionError) as error:
            raise Broken(f"not JSON: {error}") from error
        if not isinstance(message, list) or not message or not isinstance(message[0], str):
            raise Broken("not a message")
        return message

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                piece = self._raw.recv(count - len(data))
            except OSError as error:
                raise Broken(str(error)) from error
            if not piece:
                raise Broken("the other side is gone")
            data += piece
        return bytes(data)


def encode(value: Any, refer: Callable[[Any], Any], depth: int = 0) -> Any:
    """Returns the JSON form of a value; `refer` gives the form of whatever is not plain."""
    kind = type(value)
    if value is None or kind in {bool, str, int}:
        return value
    if kind in _TEXT_OF:
        tag, write = _TEXT_OF[kind]
        return [tag, write(value)]
    if kind in _NUMBERS_OF:
        tag, names = _NUMBERS_OF[kind]
        return [tag, *(getattr(value, name) for name in names)]
    if depth < MAX_DEPTH and kind in _SEQUENCE_OF:
        return [_SEQUENCE_OF[kind], [encode(item, refer, depth + 1) for item in value]]
    if depth < MAX_DEPTH and kind is dict:
        pairs = [
            [encode(k, refer, depth + 1), encode(v, refer, depth + 1)] for k, v in value.items()
        ]
        return ["dict", pairs]
    return refer(value)


def decode(form: Any, resolve: Callable[[list[Any]], Any]) -> Any:
    """Returns the value of a JSON form; `resolve` gives the value of whatever is not plain.

    Raises:
        Broken: the form is none that `encode` makes.
    """
    if form is None or isinstance(form, (bool, str, int)):
        return form
    try:
        return _decode(form, resolve)
    except (TypeError, ValueError, IndexError, KeyError, ArithmeticError, RecursionError) as error:
        raise Broken(f"not a value: {type(error).__name__}") from error


def _decode(form: list[Any], resolve: Callable[[list[Any]], Any]) -> Any:
    tag = form[0]
    if tag in _TEXTS:
        (text,) = form[1:]
        if not isinstance(text, str):
            raise Broken("not a value: text expected")
        return _TEXTS[tag][2](text)
    if tag in _SEQUENCES:
        (items,) = form[1:]
        return _SEQUENCES[tag](decode(item, resolve) for item in items)
    if tag == "dict":
        (pairs,) = form[1:]
        return {decode(k, resolve): decode(v, resolve) for k, v in pairs}
    if tag in _NUMBERS:
        return _NUMBERS[tag][0](*form[1:])
    return resolve(form)
