"""A memory system as a program in any language: JSON lines over standard input and output, in its own container.

Each step is one line {"step": ..., ...} and one line back: {"answer": document} or {"error": text}. What a
program does wrong is a fault of its arm; what the engine does wrong is not. Wire: docs/how-to/plug-in-a-memory.md.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from orchestrator.core.canonical import canonical_bytes, digest_sha256, sha256_hex
from orchestrator.core.errors import DocumentError
from orchestrator.core.files import safe_relative
from orchestrator.core.places import images_root
from orchestrator.core.strictjson import parse_json
from orchestrator.memory.compile import compile_context
from orchestrator.memory.faults import AdapterFault, broken
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.base import Document
from orchestrator.model.condition import MemoryBudget
from orchestrator.model.hooks import HookProgram
from orchestrator.model.lifecycle import (
    CaptureReport,
    CompiledContext,
    Description,
    ExtractionReport,
    Query,
    Ranked,
    Session,
    Snapshot,
    StoreDump,
)
from orchestrator.protocols import MemoryBox, MemoryPlace, MemoryProgram, OpenBox

D = TypeVar("D", bound=Document)

ENTRIES = ("main", "main.py")
HOOKS = "hooks.json"
ENACTOR = {"main.py": "enactor.py", "enacting.py": "enacting.py"}
"""What drives a product's hooks: the name in its folder, and the one below `images/memory`."""
MAX_PROGRAM_BYTES = 32 * 1024 * 1024
MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_DEPTH_OF_FOLDERS = 8


def read_program(folder: Path) -> MemoryProgram:
    """Reads a program's folder: every file below it, one of them `main`, `main.py` or `hooks.json`.

    Raises:
        DocumentError: there is no such folder or entry, a link in it, or too much of it.
    """
    if not folder.is_dir():
        raise _no_program(folder, "no such folder")
    files: list[tuple[str, int, bytes]] = []
    total = 0
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts or path.is_dir():
            continue
        if path.is_symlink() or not path.is_file():
            raise _no_program(folder, f"{path.name}, which is no plain file")
        mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
        data = path.read_bytes()
        total += len(data)
        if total > MAX_PROGRAM_BYTES:
            raise _no_program(folder, f"more than {MAX_PROGRAM_BYTES} bytes")
        files.append((path.relative_to(folder).as_posix(), mode, data))
    names = {name for name, _, _ in files}
    if HOOKS in names:
        files = _driven(folder, files)
        names |= set(ENACTOR)
    entry = next((name for name in ENTRIES if name in names), None)
    if entry is None:
        raise _no_program(folder, "neither main nor main.py nor hooks.json")
    return MemoryProgram(entry=entry, files=tuple(files))


def _driven(folder: Path, files: list[tuple[str, int, bytes]]) -> list[tuple[str, int, bytes]]:
    """Adds the program that drives a product's hooks: it is part of what the arm's digest pins."""
    contents = {name: data for name, _, data in files}
    clash = set(contents) & {*ENTRIES, *ENACTOR}
    if clash:
        raise _no_program(folder, f"{min(clash)} and {HOOKS}, of which one drives the other away")
    where = f"{folder.name}/{HOOKS}"
    hooks = HookProgram.parse(contents[HOOKS], where=where, max_bytes=MAX_PROGRAM_BYTES)
    driver = [
        (name, 0o644, (images_root() / "memory" / source).read_bytes())
        for name, source in ENACTOR.items()
    ]
    whole = [entry for entry in files if entry[0] != HOOKS]
    return [*whole, (HOOKS, 0o644, hooks.canonical()), *driver]


def program_sha256(program: MemoryProgram, recipe_sha256: str | None = None) -> str:
    """Returns the digest over names, modes and contents of a program, and over the recipe of its product."""
    files = [[name, mode, sha256_hex(data)] for name, mode, data in program.files]
    if recipe_sha256 is None:
        return digest_sha256(files)
    return digest_sha256({"program": files, "product": recipe_sha256})


class CommandAdapter:
    """Speaks with a program step by step.

    Args:
        program: what is run.
        start: starts it in a container.
        counter: counts tokens.
        step_s: how long it may take for an answer, in seconds.
    """

    def __init__(
        self,
        program: MemoryProgram,
        start: OpenBox,
        counter: TokenCounter,
        *,
        step_s: float = 110.0,
    ) -> None:
        self._counter = counter
        self._program = program
        self._start = start
        self._step_s = step_s
        self._box: MemoryBox | None = None
        self._place: MemoryPlace | None = None
        self._frozen = False
        self._started: list[MemoryBox] = []
        self._closed = False

    def describe(self) -> Description:
        """Asks a container of its own, which is gone afterwards: a description has no effects."""
        box = self._begin(None)
        try:
            return self._answer(box, Description, {"step": "describe"})
        finally:
            self._end(box)

    def open(self, place: MemoryPlace) -> None:
        """Starts the program with an empty work folder, /work."""
        self._place = place
        self._box = self._begin(place.socket)
        budget = place.budget.model_dump(mode="json") if place.budget else None
        gateway = place.gateway and {
            "base_url": self._box.gateway_url,
            "token": place.gateway.token,
            "model": place.gateway.model,
        }
        self._say(
            self._box,
            {"step": "open", "budget": budget, "gateway": gateway, "seed": place.seed},
        )

    def ingest(self, session: Session) -> CaptureReport:
        """Hands one session over, with the time of the history's clock."""
        now = self._placed().clock.now()
        request = {"step": "ingest", "now": now, "session": session.model_dump(mode="json")}
        return self._answer(self._opened(), CaptureReport, request)

    def settle(self, deadline_s: int) -> ExtractionReport:
        """Waits for the program's queues."""
        request = {"step": "settle", "deadline_s": deadline_s}
        return self._answer(self._opened(), ExtractionReport, request, limit_s=deadline_s + 5.0)

    def freeze(self) -> Snapshot:
        """Ends writing; from here on the program's files are compared.

        A program may give the snapshot that it believes in, or null: then its dump is taken for it.
        """
        said = self._say(self._opened(), {"step": "freeze"})
        self._frozen = True
        if said is not None:
            return self._read(Snapshot, said, "freeze")
        dump = self.dump()
        return Snapshot(dump_sha256=dump.digest_sha256(), memories=len(dump.memories))

    def retrieve(self, query: Query) -> Ranked:
        """Asks."""
        request = {
            "step": "retrieve",
            "query": query.model_dump(mode="json"),
            "query_sha256": query.digest_sha256(),
        }
        return self._answer(self._opened(), Ranked, request)

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        """Compiles in rank order by the shared template; the program is not asked."""
        return compile_context(ranked, budget, self._counter)

    def dump(self, as_of: str | None = None) -> StoreDump:
        """Returns the store; once frozen, also fetches the files that lie in /work."""
        found = self._answer(self._opened(), StoreDump, {"step": "dump", "as_of": as_of})
        if self._frozen:
            self._fetch()
        return found

    def close(self) -> None:
        """Ends every container, also one that is only just starting on a thread that hangs."""
        self._closed = True
        for box in tuple(self._started):
            self._end(box)

    def _begin(self, socket: Path | None) -> MemoryBox:
        box = self._start(self._program, socket)
        self._started.append(box)
        if self._closed:
            self._end(box)
            raise broken("step-in-order", "expected no step after `close`, found one")
        return box

    def _end(self, box: MemoryBox) -> None:
        if box in self._started:
            self._started.remove(box)
            box.close()

    def _fetch(self) -> None:
        workdir = self._placed().workdir
        for child in workdir.iterdir():
            shutil.rmtree(child) if child.is_dir() else child.unlink()
        for name, data in self._opened().files():
            try:
                target = workdir / safe_relative(name, where="store")
            except DocumentError as error:
                raise broken("plain-files", error.message) from error
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    def _opened(self) -> MemoryBox:
        if self._box is None:
            raise broken("step-in-order", "expected `open` before any other step, found none")
        return self._box

    def _placed(self) -> MemoryPlace:
        if self._place is None:
            raise broken("step-in-order", "expected `open` before any other step, found none")
        return self._place

    def _answer(
        self, box: MemoryBox, kind: type[D], request: Mapping[str, object], limit_s: float = 0.0
    ) -> D:
        return self._read(kind, self._say(box, request, limit_s=limit_s), str(request["step"]))

    def _read(self, kind: type[D], found: object, step: str) -> D:
        try:
            return kind.parse(
                canonical_bytes(found),
                where=f"answer to {step}",
                max_bytes=MAX_ANSWER_BYTES,
            )
        except DocumentError as error:
            raise AdapterFault("answer_invalid", "valid-answer", error.message) from error

    def _say(self, box: MemoryBox, request: Mapping[str, object], limit_s: float = 0.0) -> object:
        """Sends a request and returns the answer's value."""
        answer = box.ask(
            canonical_bytes(dict(request)),
            limit_s=limit_s or self._step_s,
            max_bytes=MAX_ANSWER_BYTES,
        )
        if answer.kind == "timed_out":
            raise AdapterFault("timed_out", "step-in-time", f"{request['step']}: {answer.detail}")
        if answer.kind == "flooded":
            raise AdapterFault("flooded", "answer-bounded", f"{request['step']}: {answer.detail}")
        if answer.kind == "ended":
            raise AdapterFault("crashed", "program-alive", f"{request['step']}: {answer.detail}")
        try:
            value = parse_json(answer.line, where="answer", max_bytes=MAX_ANSWER_BYTES)
        except DocumentError as error:
            raise AdapterFault("answer_invalid", "valid-answer", error.message) from error
        if not isinstance(value, dict) or set(value) not in ({"answer"}, {"error"}):
            raise AdapterFault(
                "answer_invalid",
                "valid-answer",
                f"{request['step']}: expected a line with `answer` or `error`, found {answer.line[:200]!r}",
            )
        if "error" in value:
            raise AdapterFault(
                "crashed", "step-without-error", f"{request['step']}: {value['error']}"[:1900]
            )
        return value["answer"]


def _no_program(folder: Path, found: str) -> DocumentError:
    return DocumentError(
        "program-invalid",
        f"program {folder.name}: expected a folder of plain files with main, main.py or hooks.json, found {found}",
        hint="see docs/how-to/plug-in-a-memory.md",
    )
