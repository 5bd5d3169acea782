"""The way from an agent's container to its arm's memory tools: a Unix socket beside the gateway's.

The store stays on this side: the container gets a socket and no byte of a store. The socket is bound before
the container is started, so that it stands in the declared inventory, and answers only while the agent acts.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.core.files import write_atomic
from orchestrator.core.ustar import ArchiveReader
from orchestrator.memory.archive import MAX_ARCHIVE_BYTES
from orchestrator.memory.tokens import TokenCounter
from orchestrator.memory.tools.server import MAX_LINE_BYTES, MemoryServer
from orchestrator.model.condition import Condition
from orchestrator.model.lifecycle import MAX_K
from orchestrator.protocols import MemoryAdapter, ServingAdapter

SOCKET_NAME = "memory.sock"
MAX_CONNECTIONS = 16


class ToolDoor:
    """The socket of one attempt."""

    def __init__(self, folder: Path) -> None:
        """Binds the socket; nobody is answered yet.

        Raises:
            EnvironmentMissing: no socket can be made there.
        """
        path = folder / SOCKET_NAME
        self._lock = threading.Lock()
        self._server: MemoryServer | None = None
        self._open: set[socket.socket] = set()
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
        """Answers with a server inside the block; afterwards every connection is ended."""
        self._server = server
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield
        finally:
            self.close()
            # A call that is under way ends first; later ones find no server.
            with self._lock:
                self._server = None

    def close(self) -> None:
        """Ends the socket and every connection."""
        for end in (self._listener, *tuple(self._open)):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if len(self._open) >= MAX_CONNECTIONS:
                    client.close()
                    continue
                self._open.add(client)
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError), client, client.makefile("rwb") as lines:
                while line := lines.readline(MAX_LINE_BYTES):
                    with self._lock:
                        answer = self._server.answer(line) if self._server else b""
                    if answer:
                        lines.write(answer)
                        lines.flush()
        finally:
            self._open.discard(client)


@contextmanager
def served_store(
    adapter: MemoryAdapter, condition: Condition, archive: bytes | None, counter: TokenCounter
) -> Iterator[MemoryServer]:
    """Opens a frozen store from its archive and gives the server over it.

    Args:
        adapter: fresh; the arm's own.
        condition: the arm.
        archive: the work folder as it was frozen; None where there is none.
        counter: counts tokens.

    Raises:
        IntegrityError: the arm's memory system cannot serve tools, or the arm has no budget.
    """
    if not isinstance(adapter, ServingAdapter) or condition.budget is None:
        raise IntegrityError(
            "memory-cannot-serve",
            f"condition {condition.id}: expected a memory system that serves tools under a budget, found {condition.adapter}",
            hint="give the arm another delivery, or another adapter",
        )
    with tempfile.TemporaryDirectory(prefix="memtrial-served-") as name:
        workdir = Path(name) / "work"
        _unpack(archive, Path(name) / "store.tar", workdir)
        adapter.reopen(workdir)
        try:
            k = condition.retrieve_k or MAX_K
            yield MemoryServer(adapter, condition.adapter, condition.budget, counter, k)
        finally:
            adapter.close()


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
