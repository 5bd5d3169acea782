"""Stand-ins in the examiner for the candidate's objects and exception classes.

Every use of a stand-in is one request over the bridge. Answers to questions with one kind of answer (a
length, a truth value, a text) must be plain values of that exact type.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from wire import Broken, decode

_HELD = ("_bridge", "memtrial_number", "_type", "_base")


class Requests(Protocol):
    """What stand-ins need of the bridge."""

    def request(self, operation: str, *arguments: Any) -> Any:
        """Does one thing over there."""

    def plain(self, operation: str, kind: type, *arguments: Any) -> Any:
        """Does one thing whose value has one exact type."""


class NotComparable(TypeError):
    """A candidate's object was compared with a plain value that it cannot be compared with."""


def _forward(operation: str) -> Callable[..., Any]:
    def method(self: Proxy, *arguments: Any) -> Any:
        return _bridge(self).request(operation, self, *arguments)

    return method


def _reflected(operation: str) -> Callable[..., Any]:
    def method(self: Proxy, other: Any) -> Any:
        return _bridge(self).request(operation, other, self)

    return method


def _typed(operation: str, kind: type) -> Callable[..., Any]:
    def method(self: Proxy, *arguments: Any) -> Any:
        return _bridge(self).plain(operation, kind, self, *arguments)

    return method


def _compared(operation: str) -> Callable[..., Any]:
    def method(self: Proxy, other: Any) -> Any:
        if describe(other) is not None:
            return _bridge(self).plain(operation, bool, self, other)
        base = object.__getattribute__(self, "_base")
        if base is None:
            kind = object.__getattribute__(self, "_type")
            raise NotComparable(
                f"compare a candidate's {kind} with a plain value by an attribute, an item or its text"
            )
        # The object says which plain value it is, not what it equals.
        plain = _bridge(self).plain("plain", base, self)
        return getattr(plain, f"__{operation}__")(other)

    return method


class Proxy:
    """One object of the candidate's. The same object is the same stand-in."""

    def __init__(self, bridge: Requests, number: int, kind: str, base: type | None) -> None:
        for name, value in zip(_HELD, (bridge, number, kind, base), strict=True):
            object.__setattr__(self, name, value)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The plain type that the object derives from, as far as `isinstance` is concerned."""
        base: type | None = object.__getattribute__(self, "_base")
        return Proxy if base is None else base

    @property
    def __dict__(self) -> Members:  # type: ignore[override]
        """What the object holds over there."""
        return Members(_bridge(self), self)

    def __getattr__(self, name: str) -> Any:
        # Test runners probe objects by such names; the candidate has no say in how a test is run.
        if name in {"__test__", "pytestmark", "_pytestfixturefunction", "__wrapped__"}:
            raise AttributeError(name)
        return _bridge(self).request("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _bridge(self).request("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        _bridge(self).request("delattr", self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the object over there."""
        return _bridge(self).request("call", self, args, kwargs)

    def __iter__(self) -> Iterator[Any]:
        iterator = _bridge(self).request("iter", self)
        while True:
            try:
                item = _bridge(self).request("next", iterator)
            except StopIteration:
                return
            yield item

    def __next__(self) -> Any:
        return _bridge(self).request("next", self)

    def __enter__(self) -> Any:
        return _bridge(self).request("enter", self)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # An exception of the test's own is never the candidate's to swallow.
        _bridge(self).request("exit", self)

    def __instancecheck__(self, instance: object) -> bool:
        return describe(instance) is not None and bool(
            _bridge(self).plain("isinstance", bool, instance, self)
        )

    def __subclasscheck__(self, subclass: object) -> bool:
        return describe(subclass) is not None and bool(
            _bridge(self).plain("issubclass", bool, subclass, self)
        )

    def __mro_entries__(self, bases: object) -> tuple[type, ...]:
        raise TypeError("a hidden test cannot derive from a class of the candidate's")

    def __dir__(self) -> list[str]:
        return [str(name) for name in _bridge(self).plain("dir", list, self)]

    __eq__ = _compared("eq")
    __ne__ = _compared("ne")
    __lt__ = _compared("lt")
    __le__ = _compared("le")
    __gt__ = _compared("gt")
    __ge__ = _compared("ge")
    __contains__ = _typed("contains", bool)
    __hash__ = _typed("hash", int)
    __len__ = _typed("len", int)
    __bool__ = _typed("bool", bool)
    __str__ = _typed("str", str)
    __repr__ = _typed("repr", str)
    __bytes__ = _typed("bytes", bytes)
    __format__ = _typed("format", str)
    __int__ = _typed("int", int)
    __float__ = _typed("float", float)
    __complex__ = _typed("complex", complex)
    __index__ = _typed("index", int)
    __getitem__ = _forward("getitem")
    __setitem__ = _forward("setitem")
    __delitem__ = _forward("delitem")
    __reversed__ = _forward("reversed")
    __round__ = _forward("round")
    __neg__ = _forward("neg")
    __pos__ = _forward("pos")
    __abs__ = _forward("abs")
    __invert__ = _forward("invert")
    __divmod__ = _forward("divmod")
    __add__, __radd__ = _forward("add"), _reflected("add")
    __sub__, __rsub__ = _forward("sub"), _reflected("sub")
    __mul__, __rmul__ = _forward("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _forward("truediv"), _reflected("truediv")
    __floordiv__, __rfloordiv__ = _forward("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _forward("mod"), _reflected("mod")
    __pow__, __rpow__ = _forward("pow"), _reflected("pow")
    __matmul__, __rmatmul__ = _forward("matmul"), _reflected("matmul")
    __and__, __rand__ = _forward("and_"), _reflected("and_")
    __or__, __ror__ = _forward("or_"), _reflected("or_")
    __xor__, __rxor__ = _forward("xor"), _reflected("xor")
    __lshift__, __rlshift__ = _forward("lshift"), _reflected("lshift")
    __rshift__, __rrshift__ = _forward("rshift"), _reflected("rshift")


def _bridge(proxy: Proxy) -> Requests:
    found: Requests = object.__getattribute__(proxy, "_bridge")
    return found


def describe(value: object) -> int | None:
    """Returns the number by which the candidate's process knows a value, or None for one of ours."""
    look = type.__getattribute__ if isinstance(value, type) else object.__getattribute__
    try:
        found = look(value, "memtrial_number")
    except AttributeError:
        return None
    return found if type(found) is int else None


class Members(Mapping[str, Any]):
    """The attributes that an object of the candidate's holds itself; patching tools ask for them."""

    def __init__(self, bridge: Requests, owner: object) -> None:
        self._bridge = bridge
        self._owner = owner

    def __getitem__(self, name: str) -> Any:
        for value in self._bridge.plain("own", list, self._owner, name):
            return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._bridge.plain("dir", list, self._owner))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Exceptions:
    """Local classes for the candidate's exception classes, so that `pytest.raises` works."""

    def __init__(self, bridge: Requests) -> None:
        self._bridge = bridge
        self._kinds: dict[int, type[Exception]] = {}

    def kind(self, lineage: Any) -> type[BaseException]:
        """Returns the class of a lineage (the class first, its ancestors behind it).

        Raises:
            Broken: the lineage is none.
        """
        if not isinstance(lineage, list) or not lineage:
            raise Broken("not a lineage")
        first, rest = lineage[0], lineage[1:]
        if isinstance(first, str):
            found = getattr(builtins, first, None)
            if isinstance(found, type) and issubclass(found, (Exception, SystemExit)):
                return found
            # What means something to a test runner is not the candidate's to raise.
            return Exception
        if not isinstance(first, list) or [type(part) for part in first] != [int, str]:
            raise Broken("not a lineage")
        number, name = first
        if number not in self._kinds:
            parent = self.kind(rest) if rest else Exception
            members = {"memtrial_number": number, "__str__": _text, "__getattr__": self._attribute}
            self._kinds[number] = type(name[:80], (parent,), members)
        return self._kinds[number]

    def instance(self, answer: list[Any], resolve: Callable[[list[Any]], Any]) -> BaseException:
        """Returns the exception of an answer; its text is the candidate's, its class one of ours."""
        _, lineage, number, args, text = answer
        kind = self.kind(lineage)
        values = decode(args, resolve)
        if not isinstance(values, tuple) or type(number) is not int or not isinstance(text, str):
            raise Broken("not a failure")
        try:
            made = kind(*values)
        except (TypeError, ValueError):
            made = kind.__new__(kind)
            made.args = (text,)
        made.__dict__.update(memtrial_number=number, memtrial_text=text)
        return made

    @property
    def _attribute(self) -> Callable[..., Any]:
        bridge = self._bridge

        def attribute(error: BaseException, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return bridge.request("getattr", error, name)

        return attribute


def _text(error: BaseException) -> str:
    return str(error.__dict__.get("memtrial_text", "")) or " ".join(map(str, error.args))
