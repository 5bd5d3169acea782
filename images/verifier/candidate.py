"""The candidate's own process: imports the code under test and does what the examiner asks of it.

Runs under a uid that can neither read the hidden tests nor touch the examiner or its report. Nothing that
it says is believed beyond the values that it returns: once candidate code is loaded, this process is the
candidate's. Reads and writes one Unix socket, whose path is its argument.
"""

from __future__ import annotations

import importlib
import operator
import os
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from wire import Broken, Line, decode, encode

# Types whose subclasses carry a plain value of their own: named tuples, string enums and the like.
BASES = (bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset)


def base_of(value: Any) -> type | None:
    """Returns the plain type that an object's class derives from."""
    return next((base for base in BASES if isinstance(value, base)), None)


def plain(value: Any) -> Any:
    """Returns the plain value of an object whose class derives from a plain one."""
    base = base_of(value)
    return value if base is None else base(value)


OPERATIONS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(operator, name)
        for name in (
            *("eq", "ne", "lt", "le", "gt", "ge", "contains", "getitem", "setitem", "delitem"),
            *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_"),
            *("xor", "lshift", "rshift", "neg", "pos", "abs", "invert", "index"),
        )
    },
    **{
        f.__name__: f
        for f in (str, repr, len, bool, hash, int, float, complex, bytes, iter, next, reversed)
    },
    **{f.__name__: f for f in (round, format, divmod, dir, getattr, setattr, delattr, callable)},
    "plain": plain,
    "own": lambda owner, name: [vars(owner)[name]] if name in vars(owner) else [],
    "isinstance": isinstance,
    "issubclass": issubclass,
    "import": importlib.import_module,
    "call": lambda target, args, kwargs: target(*args, **kwargs),
    "enter": lambda manager: type(manager).__enter__(manager),
    "exit": lambda manager: type(manager).__exit__(manager, None, None, None),
}


class Callback:
    """A callable of the examiner's, given as an argument."""

    def __init__(self, host: Host, number: int) -> None:
        self._host = host
        self.number = number

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Has the examiner run it."""
        return self._host.ask(self.number, args, kwargs)


class Host:
    """Keeps the objects that the examiner knows by number, and serves its requests."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, value: Any) -> int:
        """Returns the number of an object; it is kept, so its identity stays its own."""
        known = self._numbers.get(id(value))
        if known is None:
            known = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return known

    def refer(self, value: Any) -> Any:
        """Describes an object that does not cross by value."""
        if isinstance(value, Callback):
            return ["callback", value.number]
        if isinstance(value, type) and issubclass(value, BaseException):
            return ["exception", self.lineage(value)]
        if isinstance(value, types.ModuleType):
            return ["module", self.number(value), value.__name__]
        base = base_of(value)
        return ["object", self.number(value), type(value).__name__, base and base.__name__]

    def lineage(self, kind: type) -> list[Any]:
        """Describes an exception class by its ancestors: own ones by number and name, built-in ones by name."""
        return [
            k.__name__ if k.__module__ == "builtins" else [self.number(k), k.__name__]
            for k in kind.__mro__
            if issubclass(k, BaseException)
        ]

    def form(self, value: Any) -> Any:
        """Returns the JSON form of a value."""
        return encode(value, self.refer)

    def value(self, form: Any) -> Any:
        """Returns the value of a JSON form."""
        return decode(form, self.resolve)

    def resolve(self, form: list[Any]) -> Any:
        """Returns our object of a number, or a stand-in for one of the examiner's callables."""
        if form[0] == "callback":
            return Callback(self, form[1])
        return self._objects[form[1]]

    def failure(self, error: BaseException) -> list[Any]:
        """Describes a raised exception."""
        return [
            "raised",
            self.lineage(type(error)),
            self.number(error),
            self.form(error.args),
            str(error),
        ]

    def serve(self, message: list[Any]) -> list[Any]:
        """Does one request; whatever candidate code raises becomes an answer."""
        try:
            operation = OPERATIONS[message[0]]
            return ["value", self.form(operation(*(self.value(form) for form in message[1:])))]
        except (Broken, SystemError):
            raise
        except BaseException as error:  # noqa: BLE001 - candidate code may raise anything
            return self.failure(error)

    def ask(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a callable of the examiner's; serves its requests until it answers."""
        self._line.send(["call", number, self.form(args), self.form(kwargs)])
        while True:
            message = self._line.receive()
            if message[0] == "returned":
                return self.value(message[1])
            if message[0] == "failed":
                raise RuntimeError(str(message[1]))
            self._line.send(self.serve(message))

    def run(self) -> None:
        """Serves until the examiner is gone."""
        while True:
            self._line.send(self.serve(self._line.receive()))


def main() -> int:
    """Listens, takes one connection and serves it."""
    os.umask(0)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(1)
    connection, _ = listener.accept()
    os.umask(0o022)
    # The script's own folder came first for its imports; from here on only the candidate's paths count.
    sys.path.pop(0)
    try:
        Host(Line(connection)).run()
    except Broken:
        return 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
