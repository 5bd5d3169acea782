"""Watches what foreign code touches while it runs: files, network, processes, by the interpreter's own audit.

Source of the event names: Python documentation, "Audit events table". Sees the interpreter, not what native
code does by itself; a container is the wall, this is the tripwire.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# By event: which arguments name what is changed, and which one the open folder that each name is relative to.
_CHANGES = {
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.symlink": ((1, 2),),
    "os.link": ((1, 3),),
    "os.truncate": ((0, None),),
}
_NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.bind"}
_PROCESSES = {"subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn", "os.system"}


@dataclass(slots=True)
class Seen:
    """What was touched."""

    read: list[Path] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    network: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)


class Watcher:
    """Records while `watching`; a hook of the interpreter cannot be taken out again, so it is kept cheap."""

    def __init__(self) -> None:
        self._seen: Seen | None = None
        self._ours = 0
        sys.addaudithook(self._hook)

    @contextmanager
    def watching(self) -> Iterator[Seen]:
        """Gives what every thread but the caller's touches within the block."""
        self._ours = threading.get_ident()
        self._seen = Seen()
        try:
            yield self._seen
        finally:
            self._seen = None

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        seen = self._seen
        if seen is None or threading.get_ident() == self._ours:
            return
        if event == "open":
            self._opened(seen, arguments)
        elif event == "sqlite3.connect":
            self._database(seen, str(arguments[0]))
        elif event in _CHANGES:
            for name, folder in _CHANGES[event]:
                self._changed(seen, arguments[name], -1 if folder is None else arguments[folder])
        elif event in _NETWORK:
            seen.network.append(f"{event}{arguments[-1]!r}"[:200])
        elif event in _PROCESSES:
            seen.processes.append(f"{event} {arguments[:1]!r}"[:200])

    def _changed(self, seen: Seen, name: object, folder: object) -> None:
        if isinstance(name, str | bytes | Path):
            path = Path(os.fsdecode(name))
            if isinstance(folder, int) and folder >= 0 and not path.is_absolute():
                path = Path(f"/proc/self/fd/{folder}").readlink() / path
            seen.written.append(path.absolute())

    def _opened(self, seen: Seen, arguments: tuple[object, ...]) -> None:
        path, mode, flags = arguments
        if not isinstance(path, str | bytes | Path):
            return
        where = Path(os.fsdecode(path)).absolute()
        asked = set(mode) if isinstance(mode, str) else set()
        writes = bool(asked & set("wax+")) or (isinstance(flags, int) and bool(flags & _WRITING))
        if writes and "__pycache__" not in where.parts and where != Path(os.devnull):
            seen.written.append(where)
        elif not writes:
            seen.read.append(where)

    def _database(self, seen: Seen, name: str) -> None:
        if name not in {":memory:", ""}:
            readonly = "mode=ro" in name
            path = Path(name.removeprefix("file:").partition("?")[0]).absolute()
            (seen.read if readonly else seen.written).append(path)
