"""Which users are let in: places at the supervisor's socket, and the sockets of a dispatched run.

Strangers take no place. Every user has places of their own, so none can take what another needs.
"""

from __future__ import annotations

import os
import struct
import threading
from collections import Counter
from pathlib import Path

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.sandbox.harden import FIRST_UID

# linux/posix_acl_xattr.h, version 2: entries of tag, permission and id, in this order.
_ACCESS_LIST = "system.posix_acl_access"
_HEAD, _ENTRY = struct.Struct("<I"), struct.Struct("<HHI")
_USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NOBODY = 0xFFFFFFFF
_READ_ENTER, _ALL = 5, 7


class Places:
    """How many callers are served at once, counted for each user by itself."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._taken: Counter[int] = Counter()
        self._lock = threading.Lock()

    def take(self, uid: int) -> bool:
        """Takes a place for a user, if one is left."""
        with self._lock:
            if self._taken[uid] >= self._each:
                return False
            self._taken[uid] += 1
            return True

    def give_back(self, uid: int) -> None:
        """Frees a place."""
        with self._lock:
            self._taken[uid] -= 1


def may_call(uid: int, operator_uid: int) -> bool:
    """Tells whether a user may speak to a trial's socket: the operator, root, or a container of a trial.

    Containers run under uids from FIRST_UID on, where a machine has no accounts of its own; accounts of a directory
    service may be there, and are kept out by the access list of the folder, which is the first door.
    """
    return uid in {operator_uid, 0} or uid >= FIRST_UID


def close_to_others(folder: Path, operator_uid: int) -> None:
    """Closes a folder to everybody but its owner, root, and one operator, by an access list.

    Raises:
        EnvironmentMissing: the file system keeps no access lists.
    """
    folder.chmod(0o700)
    if operator_uid in {0, os.geteuid()}:
        return
    entries = (
        (_USER_OBJ, _ALL, _NOBODY),
        (_USER, _READ_ENTER, operator_uid),
        (_GROUP_OBJ, 0, _NOBODY),
        (_MASK, _READ_ENTER, _NOBODY),
        (_OTHER, 0, _NOBODY),
    )
    data = _HEAD.pack(2) + b"".join(_ENTRY.pack(*entry) for entry in entries)
    try:
        os.setxattr(folder, _ACCESS_LIST, data)
    except OSError as error:
        raise EnvironmentMissing(
            "no-access-lists",
            f"{folder}: expected a file system with access lists, to let one operator in and nobody else, found {error.strerror or error}",
            hint="put the supervisor's sockets on a tmpfs, as the unit does with /run/memtrial",
        ) from error
