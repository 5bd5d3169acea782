"""Who owns which object of the engine: labels, and whether an owner is still alive.

Every container, volume and network that memtrial makes carries these labels. An owner is a process of
this machine, told apart from a later one with the same number by its start time and the boot id.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Literal

from orchestrator.core.files import write_atomic

LABEL = "memtrial"
LABEL_INSTALLATION = "memtrial.installation"
LABEL_OWNER = "memtrial.owner"
LABEL_TRIAL = "memtrial.trial"
LABEL_SESSION = "memtrial.session"
TRIAL_OBJECT = "trial"
# Clocks of an engine and of this process, and the time of a boot, agree within this.
BOOT_SLACK_S = 120
OwnerState = Literal["alive", "dead", "unseen"]


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


def _uptime_s() -> float:
    return float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])


def owner_state(owner: str, *, object_age_s: float | None) -> OwnerState:
    """Tells whether the process that made an object still runs, as far as this process can see.

    Args:
        owner: the text of `this_owner`.
        object_age_s: age of the object; tells an earlier boot of this machine from another machine.

    Returns:
        `unseen` for no or nonsensical owner, for another pid namespace of this boot, and for another
        boot that cannot be an earlier one of this machine: the object is younger than this boot.
    """
    parts = owner.split(":")
    if len(parts) != 4 or not all(parts) or not parts[0].isdigit():
        return "unseen"
    if parts[2] != _boot_id():
        earlier = object_age_s is not None and object_age_s > _uptime_s() - BOOT_SLACK_S
        return "dead" if earlier else "unseen"
    if parts[3] != _namespace():
        return "unseen"
    return "alive" if _start_ticks(int(parts[0])) == parts[1] else "dead"


def labels(installation: str, trial: str, session: str = "") -> dict[str, str]:
    """Returns the labels of an object made for a trial by this process.

    Args:
        installation: whose it is.
        trial: the trial's key.
        session: the sandbox that made it; what it leaves behind is swept when it ends.
    """
    return {
        LABEL: TRIAL_OBJECT,
        LABEL_INSTALLATION: installation,
        LABEL_OWNER: this_owner(),
        LABEL_TRIAL: trial,
        LABEL_SESSION: session,
    }
