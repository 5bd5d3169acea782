"""Which places of a module can be changed, and the module with one of them changed.

A place is one comparison, condition, operator, bound, truth, raise or call that stands alone. Annotations,
the bounds of slices, what f-strings hold and how an error of the system is worded are passed over: no program
notices the first, and the others make texts for people.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# What is asked for its truth as it stands: a name, an attribute, an item or a call.
BARE = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
MODULE = "<module>"


@dataclass(frozen=True, slots=True)
class Place:
    """One place: its module (path in the repository), number among the module's places, and what it says.

    No two places of a module have line, column, kind and change in common.

    `scope` is the qualified name of the function or class around it, `span` the first and last line of the
    changed expression, `statement` those of the statement around it; `names` are the names that a place
    outside functions decides about; `inside` says whether it is in a function's body; `nth` which it is of how many
    that read alike (same function, line and change).
    """

    module: str
    number: int
    column: int
    scope: str
    kind: str
    text: str
    before: str
    after: str
    span: tuple[int, int]
    statement: tuple[int, int]
    names: tuple[str, ...]
    inside: bool
    nth: tuple[int, int] = (1, 1)

    @property
    def line(self) -> int:
        return self.span[0]

    @property
    def key(self) -> str:
        """Names the place among all places of the room, as long as its module is the same."""
        return f"{self.module}:{self.line}:{self.column} {self.kind} {self.after}"


@dataclass(frozen=True, slots=True)
class _Change:
    """A change to make: the node, the kind, and what makes the new node of the old one."""

    node: ast.AST
    kind: str
    make: Callable[[Any], ast.AST]


def _swapped_operation(at: int) -> Callable[[Any], ast.AST]:
    def make(node: ast.Compare) -> ast.AST:
        swapped: Any = SWAPS[type(node.ops[at])]()
        node.ops[at] = swapped
        return node

    return make


def _swapped(node: Any) -> ast.AST:
    node.op = SWAPS[type(node.op)]()
    made: ast.AST = node
    return made


def _more(node: ast.Constant) -> ast.AST:
    assert isinstance(node.value, int)
    node.value = node.value + 1
    return node


def _contrary(node: ast.Constant) -> ast.AST:
    node.value = not node.value
    return node


def _negated(node: ast.expr) -> ast.AST:
    return ast.copy_location(ast.UnaryOp(ast.Not(), node), node)


def _operand(node: ast.UnaryOp) -> ast.AST:
    return node.operand


def _nothing(node: ast.AST) -> ast.AST:
    return ast.copy_location(ast.Pass(), node)


def _changes(tree: ast.Module) -> Iterator[_Change]:
    """Yields every change, in the order of the tree."""
    passed_over, asked = _passed_over(tree), _asked(tree)
    for node in ast.walk(tree):
        if id(node) in passed_over:
            continue
        if id(node) in asked:
            yield _Change(node, "condition", _negated)
        yield from _changes_of(node)


# What is changed as a whole: its type, its kind, which of them, and how.
WHOLE: tuple[tuple[type[ast.AST], str, Callable[[Any], bool], Callable[[Any], ast.AST]], ...] = (
    (ast.BoolOp, "and or", lambda node: True, _swapped),
    (ast.BinOp, "operator", lambda node: type(node.op) in SWAPS, _swapped),
    (ast.UnaryOp, "negation", lambda node: isinstance(node.op, ast.Not), _operand),
    (ast.Constant, "number", lambda node: type(node.value) is int, _more),
    (ast.Constant, "truth", lambda node: type(node.value) is bool, _contrary),
    (ast.Raise, "raise", lambda node: node.exc is not None, _nothing),
    (ast.Expr, "call", lambda node: isinstance(node.value, ast.Call), _nothing),
)


def _changes_of(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Compare):
        for at, operation in enumerate(node.ops):
            if type(operation) in SWAPS:
                yield _Change(node, "comparison", _swapped_operation(at))
    for of, kind, fits, make in WHOLE:
        if isinstance(node, of) and fits(node):
            yield _Change(node, kind, make)


def _passed_over(tree: ast.Module) -> set[int]:
    parts: list[ast.AST] = []
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            hint = getattr(node, name, None)
            parts += [hint] if isinstance(hint, ast.AST) else []
        if isinstance(node, ast.Slice | ast.JoinedStr) or _words_an_error(node):
            parts.append(node)
    return {id(node) for part in parts for node in ast.walk(part)}


def _words_an_error(node: ast.AST) -> bool:
    """Whether a node is `error.strerror or ...`."""
    return (
        isinstance(node, ast.BoolOp)
        and isinstance(node.values[0], ast.Attribute)
        and node.values[0].attr == "strerror"
    )


def _asked(tree: ast.Module) -> set[int]:
    """The bare conditions, and the bare parts of `and` and `or`."""
    found: set[int] = set()
    for node in ast.walk(tree):
        tests: list[ast.expr] = []
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            tests = [node.test]
        elif isinstance(node, ast.comprehension):
            tests = node.ifs
        elif isinstance(node, ast.BoolOp):
            tests = node.values[:-1]
        found |= {id(test) for test in tests if isinstance(test, BARE)}
    return found


@dataclass(frozen=True, slots=True)
class _Around:
    scope: str
    statement: ast.stmt | None
    names: tuple[str, ...]
    inside: bool


def _surroundings(tree: ast.Module) -> dict[int, _Around]:
    """Returns for every node the scope, the statement and the names around it."""
    found: dict[int, _Around] = {}

    def visit(node: ast.AST, around: _Around) -> None:
        if isinstance(node, ast.stmt):
            names = around.names if around.inside else (*around.names, *_bound(node))
            around = _Around(around.scope, node, names, around.inside)
        found[id(node)] = around
        within = _within(node, around)
        body = {id(part) for part in _body(node)}
        for child in ast.iter_child_nodes(node):
            visit(child, within if id(child) in body else around)

    visit(tree, _Around(MODULE, None, (), inside=False))
    return found


def _body(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Lambda):
        return [node.body]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return list(node.body)
    return []


def _within(node: ast.AST, around: _Around) -> _Around:
    if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return around
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    scope = name if around.scope == MODULE else f"{around.scope}.{name}"
    inside = around.inside or isinstance(node, FUNCTIONS)
    return _Around(scope, around.statement, around.names, inside)


def _bound(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return (node.name,)
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return tuple(target.id for target in targets if isinstance(target, ast.Name))


def places(module: str, source: str) -> list[Place]:
    """Returns the places of a module's text, in order."""
    tree = ast.parse(source)
    lines, around = source.splitlines(), _surroundings(tree)
    found = []
    for number, change in enumerate(_changes(tree)):
        node: Any = change.node
        of = around[id(node)]
        statement = of.statement if of.statement is not None else node
        fresh = copy.deepcopy(node)
        found.append(
            Place(
                module=module,
                number=number,
                column=node.col_offset,
                scope=of.scope,
                kind=change.kind,
                text=lines[node.lineno - 1].strip(),
                before=ast.unparse(node),
                after=ast.unparse(change.make(fresh)),
                span=(node.lineno, node.end_lineno or node.lineno),
                statement=(statement.lineno, _last_line(statement)),
                names=of.names,
                inside=of.inside,
            )
        )
    return _numbered(found)


def _numbered(found: list[Place]) -> list[Place]:
    """Gives each place its number among those that read alike."""
    alike = Counter(_reads(place) for place in found)
    seen: Counter[tuple[str, ...]] = Counter()
    numbered = []
    for place in found:
        seen[_reads(place)] += 1
        numbered.append(replace(place, nth=(seen[_reads(place)], alike[_reads(place)])))
    return numbered


def _reads(place: Place) -> tuple[str, ...]:
    return place.scope, place.text, place.before, place.after


def _last_line(statement: Any) -> int:
    """The last line of a statement, of a compound one's head."""
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        return int(max(statement.lineno, body[0].lineno - 1))
    return int(statement.end_lineno)


def changed(source: str, number: int) -> ast.Module:
    """Returns the module with its place of that number changed."""
    tree = ast.parse(source)
    change = next(change for at, change in enumerate(_changes(tree)) if at == number)
    holder, name, index = _holder(tree, change.node)
    new = change.make(change.node)
    if index is None:
        setattr(holder, name, new)
    else:
        getattr(holder, name)[index] = new
    return ast.fix_missing_locations(tree)


def _holder(tree: ast.Module, wanted: ast.AST) -> tuple[ast.AST, str, int | None]:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if value is wanted:
                return node, name, None
            if isinstance(value, list):
                for index, item in enumerate(value):
                    if item is wanted:
                        return node, name, index
    raise LookupError("the node is not in the tree")
