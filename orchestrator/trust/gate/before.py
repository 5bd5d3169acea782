"""Steps 0 to 5: the machine, the repository, the bytes of the trust root, and the trust root itself.

Nothing of an approval is read here. Reads the system folder, `.git` and `approvals/tuf`.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError
from orchestrator.model.gate import GateConfig, RootSeen
from orchestrator.trust.gate.asked import Host, State, known, refuse
from orchestrator.trust.plumbing import Objects
from orchestrator.trust.repository import Repository, check_hygiene, check_owned
from orchestrator.trust.root.client import RootState, read_root
from orchestrator.trust.trusted import read_trusted

TUF_FOLDER = "approvals/tuf"
CONFIG = "gate.json"
BOOTSTRAP = "root.json"
SEEN = "root-seen.json"
MAX_TARGET_BYTES = 1024 * 1024
OLDEST_KERNEL = (5, 6)
# The inode of the initial user namespace (include/linux/proc_ns.h, PROC_USER_INIT_INO).
INITIAL_USER_NAMESPACE = 0xEFFFFFFD
WHOLE_UID_MAP = ["0", "0", "4294967295"]
# What the isolated process keeps of its caller's environment: nothing that a library or git would follow.
ENVIRONMENT = frozenset({"HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "TERM", "TZ"})


def this_host() -> Host:
    """Reads what the gate must know of the machine and of its own process."""
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return Host(
        platform=sys.platform,
        kernel=(int(release[1]), int(release[2])) if release else (0, 0),
        user_namespace=Path("/proc/self/ns/user").stat().st_ino,
        uid_map=Path("/proc/self/uid_map").read_text(encoding="ascii"),
        isolated=bool(sys.flags.isolated and sys.flags.no_user_site),
        environment=frozenset(os.environ),
    )


def check_host(state: State) -> None:
    """Step 0."""
    host = state.asked.host
    if host.platform != "linux" or host.kernel < OLDEST_KERNEL:
        raise refuse("host-not-usable", "Linux from 5.6 on", f"{host.platform} {host.kernel}")
    if host.user_namespace != INITIAL_USER_NAMESPACE or host.uid_map.split() != WHOLE_UID_MAP:
        raise refuse(
            "user-namespace",
            "the machine's own user namespace, in which root is root",
            "another one",
            hint="run it on the host, not in a container or below unshare",
        )
    if not host.isolated:
        raise refuse("not-isolated", "an isolated interpreter", "one that follows its caller")
    foreign = sorted(host.environment - ENVIRONMENT)
    if foreign:
        raise refuse("environment-not-clean", f"only {', '.join(sorted(ENVIRONMENT))}", foreign[0])
    _read_system(state)


def _read_system(state: State) -> None:
    """Reads what root put down (configuration, first root), and what the supervisor saw before."""
    asked = state.asked

    def read(path: Path, owner_uid: int) -> bytes:
        data = read_trusted(path, owner_uid=owner_uid, max_bytes=MAX_TARGET_BYTES)
        state.digests[f"system/{path.name}"] = sha256_hex(data)
        return data

    config_data = read(asked.system / CONFIG, asked.owner_uid)
    state.bootstrap = read(asked.system / BOOTSTRAP, asked.owner_uid)
    try:
        state.config = GateConfig.parse_canonical(config_data, where=CONFIG)
        own = Path(state.config.supervisor_state)
        seen_data = read(own / SEEN, state.config.supervisor_uid)
        state.seen = RootSeen.parse_canonical(seen_data, where=SEEN)
    except DocumentError as error:
        raise refuse("system-folder-invalid", "sound documents", error.message) from error
    if sha256_hex(state.bootstrap) != state.config.root_sha256:
        raise refuse(
            "bootstrap-not-the-pinned-one",
            f"the first root {state.config.root_sha256[:16]}",
            sha256_hex(state.bootstrap)[:16],
        )


def check_repository(state: State) -> None:
    """Step 1."""
    asked = state.asked
    branch = known(state.config).default_branch
    check_owned(asked.worktree, owner_uid=asked.owner_uid, branch=branch)
    check_hygiene(asked.worktree)


def check_head(state: State) -> None:
    """Step 2. Git is started here, now that its configuration is known to be harmless."""
    branch = known(state.config).default_branch
    state.objects = Objects(state.asked.worktree / ".git")
    state.repository = Repository(state.asked.worktree, branch=branch, objects=state.objects)
    state.head = state.repository.head()
    state.digests["repository/head"] = sha256_hex(state.head.encode())


def read_blobs(state: State) -> None:
    """Step 3."""
    repository = known(state.repository)
    files = repository.files_below(repository.tree_of(state.head), TUF_FOLDER)
    state.files = files
    state.digests |= {f"{TUF_FOLDER}/{name}": sha256_hex(data) for name, data in files.items()}


def compare_worktree(state: State) -> None:
    """Step 4: what a person sees in the work tree is what the commit says, file by file, and nothing more."""
    folder = state.asked.worktree / TUF_FOLDER
    for name, data in state.files.items():
        found = read_trusted(
            folder / name, owner_uid=state.asked.owner_uid, max_bytes=MAX_TARGET_BYTES
        )
        if found != data:
            raise refuse(
                "worktree-differs",
                f"{name} as HEAD has it",
                "other bytes in the work tree",
                hint="commit and push it (`git add approvals`), or put it back: `git restore approvals`",
            )
    more = _first_more(folder, frozenset(state.files), "")
    if more is not None:
        raise refuse(
            "worktree-has-more",
            f"no file that HEAD has not below {TUF_FOLDER}",
            more,
            hint="commit and push it (`git add approvals`), or remove it",
        )


def _first_more(folder: Path, known_names: frozenset[str], prefix: str) -> str | None:
    """Returns the first name that is not among the known ones, but for folders; follows no link."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                more = _first_more(Path(entry.path), known_names, name + "/")
                if more is not None:
                    return more
            elif name not in known_names:
                return repr(name[:80])
    return None


def check_root(state: State) -> None:
    """Step 5."""
    before = state_of(known(state.seen))
    state.root = read_root(
        state.files, bootstrap=state.bootstrap, seen=before, now_s=state.asked.now_s
    )


def state_of(seen: RootSeen) -> RootState:
    """Returns what the supervisor wrote down of a root, as the root's reader takes it."""
    return RootState(**seen.model_dump(exclude={"schema_version"}))
