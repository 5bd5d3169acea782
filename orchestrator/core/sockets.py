"""A Unix socket at a path, which listens before it can be found and takes the place of a dead one alone. Linux only.

A socket that is bound and does not listen yet looks dead. So ours is bound under a name of its own, listens, and
then gets its path by a link, which replaces nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import stat
from pathlib import Path

from orchestrator.core.errors import UsageError


def listen_at(path: Path, *, backlog: int) -> socket.socket:
    """Returns a socket that listens at a path and that every user of its folder may connect to.

    Args:
        path: of the socket; one that a dead process left there is removed, and nothing else.
        backlog: how many may wait to be accepted.

    Raises:
        UsageError: somebody listens there, or something else is there.
        OSError: there is no such folder, or the path is longer than the kernel bears.
    """
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    own = _neighbour(path)
    try:
        made.bind(str(own))
        own.chmod(0o666)
        made.listen(backlog)
        _put(own, path)
    except BaseException:
        made.close()
        raise
    finally:
        own.unlink(missing_ok=True)
    return made


def _neighbour(path: Path) -> Path:
    return path.with_name(f".{secrets.token_hex(3)}")


def _put(own: Path, path: Path) -> None:
    try:
        os.link(own, path)
    except FileExistsError:
        _check_dead(path)
        _remove_dead(path)
    else:
        return
    try:
        os.link(own, path)
    except FileExistsError as error:
        # Another process was quicker.
        raise _taken(path) from error


def _remove_dead(path: Path) -> None:
    """Takes what was found dead away, and puts it back if it is another by now, which listens."""
    aside = _neighbour(path)
    try:
        path.rename(aside)
    except FileNotFoundError:
        return
    try:
        _check_dead(aside)
    except UsageError as error:
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
        raise _taken(path) from error
    finally:
        aside.unlink()


def _check_dead(path: Path) -> None:
    """Refuses anything but a socket at which nobody listens; waits for nobody."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise UsageError(
                "not-a-socket",
                f"{path}: expected a free path or an old socket, found something else, which is left as it is",
                hint="choose another path for the socket, or remove what is there",
            )
        with socket.socket(socket.AF_UNIX) as probe:
            # Who listens and is too busy to answer would hold a probe that waits.
            probe.setblocking(False)
            probe.connect(str(path))
    except (ConnectionRefusedError, FileNotFoundError):
        return
    except OSError as error:
        raise _taken(path) from error
    raise _taken(path)


def _taken(path: Path) -> UsageError:
    return UsageError(
        "socket-taken",
        f"{path}: expected a free socket, found another process listening",
        hint="end the other process, or choose another socket",
    )
