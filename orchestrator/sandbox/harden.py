"""The hardened profile: from limits to container options, as a pure function.

Knows no engine and no file. `profile_sha256` binds the profile to the plan, so two runs of one plan
cannot differ in hardening. Why each option is there: docs/adr/0004-sandbox.md.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.core.canonical import digest_sha256
from orchestrator.model.task import Limits

MIB = 1024 * 1024
HOSTNAME = "sandbox"
GATEWAY_FOLDER = "/run/memtrial"
GATEWAY_SOCKET = f"{GATEWAY_FOLDER}/gateway.sock"
GATEWAY_PORT = 8377
# Our forwarder answers on the resolver's port of loopback, as the agent's own account.
OWN_RESOLVER: dict[str, object] = {
    "dns": ["127.0.0.1"],
    "sysctls": {"net.ipv4.ip_unprivileged_port_start": "0"},
}
# Room for what compilers write; it counts against the container's memory and is taken only when written.
SCRATCH_BYTES = 256 * MIB

# What a memory system's own container may use, beside the limits of its steps.
MEMORY_LIMITS = Limits(
    wall_s=3600,
    cpus_milli=1000,
    memory_bytes=1024 * MIB,
    pids=256,
    work_bytes=256 * MIB,
    work_inodes=10_000,
    output_bytes=64 * MIB,
    diff_bytes=1024,
)

# What documents call the agent's uid; each container draws its own from FIRST_UID on.
AGENT_UID = 10001
FIRST_UID = 100_000
SLOTS = 500_000_000
Role = Literal["agent", "relay", "harvester", "verifier"]


@dataclass(frozen=True, slots=True)
class Uids:
    """Who is who in one container. The kernel counts some things (inotify, pipes) for each uid of the host.

    No two containers share a uid, so none can use up another's share or signal to it that way.
    """

    first: int

    @property
    def agent(self) -> int:
        """The agent; in a verifier, our program that owns the sources."""
        return self.first

    @property
    def tests(self) -> int:
        """The tests' process."""
        return self.first + 1

    @property
    def candidate(self) -> int:
        """The candidate's process."""
        return self.first + 2


def draw_uids() -> Uids:
    """Returns uids that no other container has, but by a chance of about one in 10^8."""
    return Uids(FIRST_UID + 4 * secrets.randbelow(SLOTS))


@dataclass(frozen=True, slots=True)
class Profile:
    """Options of one container, engine-neutral. Sizes in bytes, CPU in thousandths of a core."""

    role: Role
    user: str
    command: tuple[str, ...]
    capabilities: tuple[str, ...]
    memory_bytes: int
    cpus_milli: int
    pids: int
    tmpfs: tuple[tuple[str, str], ...]
    work_mount: Literal["rw", "ro", "none"]
    # Whether the engine's init comes first; it holds the container's streams open to every process of its uid.
    init: bool = True


def _tmpfs(size_bytes: int, inodes: int, uid: int, mode: str, *, gid: int | None = None) -> str:
    owner = f"uid={uid},gid={uid if gid is None else gid}"
    return f"rw,exec,nosuid,nodev,size={size_bytes},nr_inodes={inodes},{owner},mode={mode}"


def agent_profile(limits: Limits, uids: Uids) -> Profile:
    """The agent's container: writes its work volume, an empty HOME and /tmp, nothing else."""
    return Profile(
        role="agent",
        user=f"{uids.agent}:{uids.agent}",
        command=("python3", "-I", "-B", "/opt/memtrial/agent/enter.py", str(limits.wall_s + 300)),
        capabilities=(),
        memory_bytes=limits.memory_bytes,
        cpus_milli=limits.cpus_milli,
        pids=limits.pids,
        tmpfs=(
            ("/home/agent", _tmpfs(64 * MIB, 20_000, uids.agent, "0700")),
            ("/tmp", _tmpfs(SCRATCH_BYTES, 20_000, uids.agent, "0700")),  # noqa: S108 - the container's own
        ),
        work_mount="rw",
    )


def memory_profile(limits: Limits, uids: Uids, command: tuple[str, ...]) -> Profile:
    """A memory system's container: the agent's, with our first program as its init."""
    return replace(agent_profile(limits, uids), command=command, init=False)


def harvester_profile(limits: Limits) -> Profile:
    """The harvester: reads whatever modes the agent left, writes only its own memory."""
    return Profile(
        role="harvester",
        user="0:0",
        command=("python3", "-B", "/opt/memtrial/verifier/harvest.py", str(limits.wall_s + 600)),
        # The agent may take all rights off its own files; reading them needs this one capability.
        capabilities=("DAC_READ_SEARCH",),
        memory_bytes=max(512 * MIB, limits.work_bytes * 6),
        cpus_milli=limits.cpus_milli,
        pids=64,
        tmpfs=(("/run/harvest", _tmpfs(max(64 * MIB, limits.work_bytes * 2), 100_000, 0, "0700")),),
        work_mount="ro",
    )


def verifier_profile(limits: Limits, timeout_s: int, uids: Uids) -> Profile:
    """The verifier: sources, tests and candidate have a uid each.

    The tests own /report and /tmp, the candidate's process /candidate; only the tests may enter /hidden.
    """
    return Profile(
        role="verifier",
        user=f"{uids.agent}:{uids.agent}",
        command=("python3", "-B", "/opt/memtrial/verifier/verify.py", str(timeout_s + 300)),
        capabilities=(),
        memory_bytes=limits.memory_bytes,
        cpus_milli=limits.cpus_milli,
        pids=limits.pids,
        tmpfs=(
            ("/work", _tmpfs(limits.work_bytes, limits.work_inodes, uids.agent, "0755")),
            ("/home/agent", _tmpfs(64 * MIB, 20_000, uids.agent, "0700")),
            ("/report", _tmpfs(32 * MIB, 1_000, uids.tests, "0755")),
            ("/tmp", _tmpfs(SCRATCH_BYTES, 20_000, uids.tests, "0700")),  # noqa: S108 - the container's own
            ("/candidate", _tmpfs(64 * MIB, 20_000, uids.candidate, "0755")),
            ("/hidden", _tmpfs(32 * MIB, 4_000, uids.agent, "0750", gid=uids.tests)),
        ),
        work_mount="none",
    )


def relay_profile(limits: Limits, uids: Uids) -> Profile:
    """The relay: owns the folder of its socket and nothing else; runs our program only."""
    return Profile(
        role="relay",
        user=f"{uids.agent}:{uids.agent}",
        command=(
            *("python3", "-I", "-B", "/opt/memtrial/agent/relay.py"),
            *(GATEWAY_SOCKET, str(limits.wall_s + 600)),
        ),
        capabilities=(),
        memory_bytes=256 * MIB,
        cpus_milli=limits.cpus_milli,
        pids=512,
        tmpfs=(),
        work_mount="none",
    )


def relay_volume_options(uids: Uids) -> dict[str, str]:
    """Options of the volume with the relay's socket: memory for a handful of entries."""
    return {
        "type": "tmpfs",
        "device": "tmpfs",
        "o": f"size=65536,nr_inodes=16,uid={uids.agent},gid={uids.agent},mode=0755,nosuid,nodev",
    }


def create_options(
    profile: Profile,
    *,
    image: str,
    volume: str | None,
    labels: dict[str, str],
    sockets: str | None = None,
    runtime: str | None = None,
) -> dict[str, object]:
    """Turns a profile into the keyword arguments of the engine client's `containers.create`.

    `sockets` is a folder (or volume) that holds nothing but the gateway's socket. It gives the container a
    way to the gateway and no other: names are looked up on loopback, where our own resolver knows none.
    `runtime` is the engine's name of a container runtime; None leaves the choice to the engine.
    """
    mounts = {volume: {"bind": "/work", "mode": f"{profile.work_mount},nocopy"}} if volume else {}
    if sockets is not None:
        mode = "rw,nocopy" if profile.role == "relay" else "ro"
        mounts[sockets] = {"bind": GATEWAY_FOLDER, "mode": mode}
    return {
        **(OWN_RESOLVER if sockets is not None else {}),
        **({} if runtime is None else {"runtime": runtime}),
        "image": image,
        "command": list(profile.command),
        "user": profile.user,
        "working_dir": "/work",
        "hostname": HOSTNAME,
        "labels": labels,
        "stdin_open": True,
        "tty": False,
        "detach": True,
        "network_mode": "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "cap_add": list(profile.capabilities),
        "security_opt": ["no-new-privileges:true"],
        "init": profile.init,
        "pids_limit": profile.pids,
        "mem_limit": profile.memory_bytes,
        "memswap_limit": profile.memory_bytes,
        "nano_cpus": profile.cpus_milli * 1_000_000,
        "shm_size": 16 * MIB,
        "ipc_mode": "private",
        "tmpfs": dict(profile.tmpfs),
        "volumes": mounts,
        # Output is read from the attached stream and bounded there; the engine keeps none of it.
        "log_config": {"Type": "none", "Config": {}},
        "restart_policy": {"Name": "no"},
    }


def volume_options(limits: Limits, uids: Uids) -> dict[str, str]:
    """Options of the work volume: memory-backed, limited in bytes and inodes, owned by the agent."""
    return {
        "type": "tmpfs",
        "device": "tmpfs",
        "o": f"size={limits.work_bytes},nr_inodes={limits.work_inodes},uid={uids.agent},gid={uids.agent},mode=0700,nosuid,nodev",
    }


def profile_sha256(runtime: str | None = None) -> str:
    """Digest over the profile of fixed sample limits: changes whenever the hardening changes.

    Args:
        runtime: named in the plan; None, the engine's own default, is no part of the bytes.
    """
    limits = Limits(
        wall_s=600,
        cpus_milli=1000,
        memory_bytes=1024 * MIB,
        pids=256,
        work_bytes=128 * MIB,
        work_inodes=20_000,
        output_bytes=4 * MIB,
        diff_bytes=MIB,
    )
    uids = Uids(FIRST_UID)
    profiles = (
        agent_profile(limits, uids),
        harvester_profile(limits),
        verifier_profile(limits, 120, uids),
    )
    memory = memory_profile(MEMORY_LIMITS, uids, ("boot",))
    return digest_sha256(
        {
            "volume": volume_options(limits, uids),
            "memory": {
                "volume": volume_options(MEMORY_LIMITS, uids),
                "container": create_options(memory, image="image", volume="volume", labels={}),
            },
            "containers": [
                create_options(p, image="image", volume="volume", labels={}, runtime=runtime)
                for p in profiles
            ],
            "relay": create_options(
                relay_profile(limits, uids),
                image="image",
                volume=None,
                labels={},
                sockets="s",
                runtime=runtime,
            ),
            "with_gateway": create_options(
                profiles[0], image="image", volume="volume", labels={}, sockets="sockets"
            ),
        }
    )
