"""Who owns which object of the engine: labels, and whether an owner is still alive.

Every container, volume and network that memtrial makes carries these labels. An owner is a process of
this machine, told apart from a later one with the same number by its start time and the boot id.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from orchestrator.core.files import write_atomic

LABEL = "memtrial"
LABEL_INSTALLATION = "memtrial.installation"
LABEL_OWNER = "memtrial.owner"
LABEL_TRIAL = "memtrial.trial"


def installation_id(cache: Path) -> str:
    """Returns this installation's random id, made on first use."""
    path = cache / "installation-id"
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        write_atomic(path, secrets.token_hex(8).encode())
        return path.read_text(encoding="ascii").strip()


def _start_ticks(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # Field 22 of proc(5) stat; the command name before it may hold spaces and brackets.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def this_owner() -> str:
    """Returns the owner text of this process: `pid:start:boot:pid-namespace`."""
    return f"{os.getpid()}:{_start_ticks(os.getpid())}:{_boot_id()}:{_namespace()}"


def owner_is_alive(owner: str) -> bool:
    """Tells whether the process that made an object still runs. Nonsense counts as dead.

    An owner of this boot in another pid namespace cannot be seen from here and counts as alive.
    """
    parts = owner.split(":")
    if len(parts) != 4 or not parts[0].isdigit() or parts[2] != _boot_id():
        return False
    return parts[3] != _namespace() or _start_ticks(int(parts[0])) == parts[1]


def labels(installation: str, trial: str) -> dict[str, str]:
    """Returns the labels of an object made for a trial by this process."""
    return {
        LABEL: "trial",
        LABEL_INSTALLATION: installation,
        LABEL_OWNER: this_owner(),
        LABEL_TRIAL: trial,
    }
