"""The way from an agent's container to its arm's memory tools: a Unix socket beside the gateway's.

The store stays on this side: the container gets a socket and no byte of a store. The socket is bound before
the container is started, so that it stands in the declared inventory, and answers only while the agent acts.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.core.files import write_atomic
from orchestrator.core.ustar import ArchiveReader
from orchestrator.memory.archive import MAX_ARCHIVE_BYTES
from orchestrator.memory.life import Limits
from orchestrator.memory.tokens import TokenCounter
from orchestrator.memory.tools.server import MemoryServer
from orchestrator.memory.tools.session import MAX_LINE_BYTES, Session
from orchestrator.memory.tools.store import ServedStore
from orchestrator.model.condition import Condition
from orchestrator.model.lifecycle import MAX_K
from orchestrator.protocols import MemoryAdapter, ServingAdapter

SOCKET_NAME = "memory.sock"
MAX_CONNECTIONS = 16
PAUSE_S = 0.05
"""How long to wait after an accept that failed, in seconds: what it lacked may come back."""


class ToolDoor:
    """The socket of one attempt.

    `fault` is the first thing that went wrong on this side of it; the door goes on after each.
    """

    def __init__(self, folder: Path) -> None:
        """Binds the socket; nobody is answered yet.

        Raises:
            EnvironmentMissing: no socket can be made there.
        """
        path = folder / SOCKET_NAME
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = threading.Event()
        self._broken: Future[None] | None = None
        self.fault: str | None = None
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(str(path))
            path.chmod(0o666)
            self._listener.listen(MAX_CONNECTIONS)
        except OSError as error:
            self._listener.close()
            raise EnvironmentMissing(
                "memory-socket-not-made",
                f"expected a socket for memory tools in the trial's folder, found {error.strerror}",
                hint="report this as a bug",
            ) from error

    @contextmanager
    def serving(self, server: MemoryServer) -> Iterator[None]:
        """Answers with a server inside the block; afterwards every connection and every call has ended.

        Raises:
            MemtrialError: the harness itself failed while it answered.
        """
        with ThreadPoolExecutor(MAX_CONNECTIONS + 1, thread_name_prefix="memory-tools") as pool:
            pool.submit(self._accept, pool, server).add_done_callback(self._ended)
            try:
                yield
            finally:
                self.close()
        if self._broken is not None:
            self._broken.result()

    def close(self) -> None:
        """Ends the socket and every connection."""
        self._closed.set()
        for end in (self._listener, *tuple(self._open)):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self, pool: ThreadPoolExecutor, server: MemoryServer) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError as error:
                if not self._closed.is_set():
                    self._note(f"accept: {error.strerror}")
                    time.sleep(PAUSE_S)
                continue
            self._open.add(client)
            if self._closed.is_set() or len(self._open) > MAX_CONNECTIONS:
                self._let_go(client)
                continue
            try:
                job = pool.submit(self._answer, client, server.session())
                job.add_done_callback(self._ended)
            except RuntimeError as error:
                self._note(f"thread: {error}")

    def _answer(self, client: socket.socket, session: Session) -> None:
        try:
            with client.makefile("rb") as lines:
                while not self._closed.is_set() and (line := _read(lines)):
                    with self._lock:
                        answer = session.answer(line)
                    # What stands behind a line that is too long is no line either.
                    if not _sent(client, answer) or len(line) > MAX_LINE_BYTES:
                        return
        finally:
            self._let_go(client)

    def _let_go(self, client: socket.socket) -> None:
        client.close()
        self._open.discard(client)

    def _note(self, fault: str) -> None:
        self.fault = self.fault or fault

    def _ended(self, job: Future[None]) -> None:
        if job.exception() is not None and self._broken is None:
            self._broken = job


def _read(lines: BinaryIO) -> bytes:
    try:
        return lines.readline(MAX_LINE_BYTES + 1)
    except OSError:
        return b""


def _sent(client: socket.socket, answer: bytes | None) -> bool:
    try:
        client.sendall(answer or b"")
    except OSError:
        return False
    return True


@contextmanager
def served_store(
    adapter: MemoryAdapter,
    condition: Condition,
    archive: bytes | None,
    counter: TokenCounter,
    *,
    dump_sha256: str | None = None,
    limits: Limits | None = None,
) -> Iterator[MemoryServer]:
    """Opens a frozen store from its archive and gives the server over it.

    A store that does not open again, or holds something else than at its freeze, is a fault of its system: the
    server says so in its log and answers nothing.

    Args:
        adapter: fresh; the arm's own.
        condition: the arm.
        archive: the work folder as it was frozen; None where there is none.
        counter: counts tokens.
        dump_sha256: of the store's dump at its freeze; None for a system without a store.
        limits: of its steps.

    Raises:
        IntegrityError: the arm's memory system cannot serve tools, or the arm has no budget.
    """
    if not isinstance(adapter, ServingAdapter) or condition.budget is None:
        raise IntegrityError(
            "memory-cannot-serve",
            f"condition {condition.id}: expected a memory system that serves tools under a budget, found {condition.adapter}",
            hint="give the arm another delivery, or another adapter",
        )
    k = condition.retrieve_k or MAX_K
    ours = condition.adapter_kind != "entry_point"
    store = ServedStore(adapter, condition.budget, counter, k, ours=ours, limits=limits)
    with tempfile.TemporaryDirectory(prefix="memtrial-served-") as name:
        workdir = Path(name) / "work"
        _unpack(archive, Path(name) / "store.tar", workdir)
        try:
            store.reopen(workdir, dump_sha256)
            yield MemoryServer(store, condition.adapter)
        finally:
            store.close()


def _unpack(archive: bytes | None, path: Path, workdir: Path) -> None:
    workdir.mkdir()
    if archive is None:
        return
    path.write_bytes(archive)
    reader = ArchiveReader(path)
    try:
        for member in reader.names():
            (workdir / member).parent.mkdir(parents=True, exist_ok=True)
            write_atomic(workdir / member, reader.read(member, max_bytes=MAX_ARCHIVE_BYTES))
    finally:
        reader.close()
