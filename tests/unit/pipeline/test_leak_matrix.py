"""Promise: a planted literal is found in every place and every encoding; one test per cell."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable

import pytest

from orchestrator.core.gittree import FileEntry
from orchestrator.model.plan import TaskPin
from orchestrator.pipeline.isolation import isolate, screen
from orchestrator.protocols import Launch
from orchestrator.sandbox.account import exposed_by
from orchestrator.sandbox.layers import make_layer
from orchestrator.sandbox.leaks.layers import examine
from orchestrator.sandbox.leaks.scanner import Literal, Scanner
from tests.fakes.planting import ENCODINGS, loose_object
from tests.fakes.sandbox import ARM, FakeSandbox, FakeWorkspace, guard_over

HIDDEN = Literal(
    "hidden",
    '    assert quota("Blue/Green & Co", 17) == {"left": "über 12+5"}'.encode(),
    strong=True,
)
LAUNCH = Launch(argv=("agent",), environment=(("LANG", "C.UTF-8"),), stdin=b'{"prompt": "do it"}')
Plant = Callable[[bytes, TaskPin], list[str]]


def text(planted: bytes) -> str:
    """Planted bytes where only text can stand."""
    return planted.decode("utf-8", "surrogateescape")


def _layer(entry: FileEntry) -> list[str]:
    layer = make_layer([FileEntry("etc/motd", "100644", b"hello"), entry])
    assert isinstance(layer.data, bytes)
    findings, _ = examine(layer.data, layer.diff_id, Scanner([HIDDEN]))
    return [finding.place.partition(": ")[2] for finding in findings]


def in_layer_file(planted: bytes, task: TaskPin) -> list[str]:
    found = _layer(FileEntry("usr/share/doc/notes", "100644", b"some words " + planted + b" more"))
    return [place for place in found if place == "/usr/share/doc/notes"]


def in_git_of_the_checkout(planted: bytes, task: TaskPin) -> list[str]:
    path = "opt/memtrial/checkout/.git/objects/ab/cdef"
    found = _layer(FileEntry(path, "100644", loose_object(b"note: " + planted)))
    return [place for place in found if place == f"/{path}"]


def _isolated(task: TaskPin, **more) -> list[str]:
    guard = guard_over((HIDDEN,))
    workspace = FakeWorkspace(task, "t", FakeSandbox())
    for name in ("contents", "exposed"):
        if name in more:
            setattr(workspace, name, more.pop(name))
    sandbox_inventory = more.pop("inventory", None)
    workspace.sandbox.inventory = sandbox_inventory
    proof = isolate(
        guard=guard,
        trial="t",
        task=task,
        condition=ARM,
        workspace=workspace,
        launch=more.pop("launch", LAUNCH),
        keep=lambda name, data: "",
    )
    return [finding.place for finding in proof.findings]


def in_label(planted: bytes, task: TaskPin) -> list[str]:
    described = {"Name": "/x", "Config": {"Labels": {"note": text(planted)}}}
    return _isolated(task, exposed=exposed_by(described))


def in_home_file(planted: bytes, task: TaskPin) -> list[str]:
    return _isolated(task, contents=(("/home/agent/.notes", b"from last time: " + planted),))


def in_payload(planted: bytes, task: TaskPin) -> list[str]:
    return _isolated(task, launch=Launch(LAUNCH.argv, LAUNCH.environment, b"words " + planted))


def _screened(**more: bytes) -> list[str]:
    given = {"output": b"", "diff": b"", "harvest": b"{}", **more}
    found = screen(guard=guard_over((HIDDEN,)), trial="t", launch=LAUNCH, **given)
    assert all(finding.caused_by == "agent" for finding in found.findings)
    return [finding.place for finding in found.findings]


def in_transcript(planted: bytes, task: TaskPin) -> list[str]:
    return _screened(output=b'{"kind": "message"}\n' + planted + b"\nbye\n")


def in_diff(planted: bytes, task: TaskPin) -> list[str]:
    lines = planted.split(b"\n")
    body = b"".join(b"+" + line + b"\n" for line in lines)
    head = b"--- /dev/null\n+++ b/x\n@@ -0,0 +1,%d @@\n" % len(lines)
    return _screened(diff=b"diff --git a/x b/x\nnew file mode 100644\n" + head + body)


def in_binary_file_of_the_diff(planted: bytes, task: TaskPin) -> list[str]:
    deflated = zlib.compress(b"\0\1" + planted)
    lines = [deflated[at : at + 52] for at in range(0, len(deflated), 52)]
    coded = b"".join(
        bytes([len(line) + (64 if len(line) <= 26 else 70)])
        + base64.b85encode(line, pad=True)
        + b"\n"
        for line in lines
    )
    head = b"diff --git a/x b/x\nnew file mode 100644\nGIT binary patch\nliteral %d\n" % (
        len(planted) + 2
    )
    return _screened(diff=head + coded + b"\nliteral 0\nHcmV?d00001\n\n")


PLACES: dict[str, Plant] = {
    "layer file": in_layer_file,
    ".git of the checkout": in_git_of_the_checkout,
    "label": in_label,
    "file in HOME": in_home_file,
    "payload": in_payload,
    "transcript": in_transcript,
    "diff": in_diff,
    "binary file of the diff": in_binary_file_of_the_diff,
}
# A label is text: compressed bytes cannot stand there.
BINARY = {"gzip", "zlib", "zlib, stored", "xz", "bzip2", "tar", "zip", "git object", "gzip of tar", "gzip of base64", "xz of gzip", "UTF-16 little-endian", "UTF-16 big-endian"}  # fmt: skip
CELLS = [
    (place, encoding)
    for place in PLACES
    for encoding in ENCODINGS
    if place != "label" or encoding not in BINARY
]


@pytest.fixture
def task(make_plan) -> TaskPin:
    pin: TaskPin = make_plan(tasks=("depotfeed-returns",)).tasks[0]
    return pin


def test_the_matrix_is_large_enough():
    assert len(CELLS) >= 60


@pytest.mark.parametrize(("place", "encoding"), CELLS, ids=[f"{p}, {e}" for p, e in CELLS])
def test_a_planted_literal_is_found(place, encoding, task):
    planted = ENCODINGS[encoding](HIDDEN.data)
    assert PLACES[place](planted, task), f"{encoding} in {place} was not found"


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_found_where_nothing_was_planted(place, task):
    assert PLACES[place](b"an honest line of the project, long enough to be searched", task) == []
