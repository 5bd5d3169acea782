"""Reaches a Docker engine; on Debian or Ubuntu as root, installs and starts one where there is none.

An engine that is there is used as it is: never stopped, pruned or reconfigured. Everything that will be
installed or started is said in one line first; MEMTRIAL_ENGINE=keep forbids both.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import docker
from docker.errors import DockerException

from orchestrator.core.errors import EnvironmentMissing

Say = Callable[[str], None]

API_TIMEOUT_S = 300
START_TIMEOUT_S = 90
LOG = Path("/var/log/memtrial-dockerd.log")
PID = Path("/run/memtrial-dockerd.pid")
MANUAL_STEPS = "apt-get update && apt-get install -y --no-install-recommends docker.io iptables && (setsid dockerd >/var/log/dockerd.log 2>&1 &)"


def connect() -> docker.DockerClient:
    """Returns a client of a reachable engine: DOCKER_HOST, the default socket, the user's rootless one.

    Raises:
        EnvironmentMissing: no engine answers.
    """
    client = _try_connect()
    if client is None:
        raise EnvironmentMissing(
            "engine-missing",
            "expected a Docker engine, found none that answers",
            hint=f"run `memtrial engine`, or as root: {MANUAL_STEPS}",
        )
    return client


def _try_connect() -> docker.DockerClient | None:
    rootless = Path(os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")) / "docker.sock"
    candidates: list[str | None] = [None]
    if "DOCKER_HOST" not in os.environ and rootless.exists():
        candidates.append(f"unix://{rootless}")
    for address in candidates:
        try:
            client = (
                docker.DockerClient(base_url=address, timeout=API_TIMEOUT_S)
                if address
                else docker.from_env(timeout=API_TIMEOUT_S)
            )
            client.ping()
        except (DockerException, OSError):
            continue
        return client
    return None


def describe(client: docker.DockerClient) -> str:
    """Returns version, storage driver and cgroup version of the engine."""
    info = client.info()
    return f"docker {info.get('ServerVersion')}, {info.get('Driver')}, cgroup v{info.get('CgroupVersion', '1')}"


def ensure_engine(say: Say, *, allow_install: bool) -> docker.DockerClient:
    """Returns a client, installing and starting an engine if that is allowed and possible.

    Raises:
        EnvironmentMissing: no engine, and none may or can be set up here; the text holds the commands.
    """
    client = _try_connect()
    if client is not None:
        return client
    if (
        not allow_install
        or os.environ.get("MEMTRIAL_ENGINE") == "keep"
        or "DOCKER_HOST" in os.environ
    ):
        return connect()
    if os.geteuid() != 0 or not is_debian():
        raise EnvironmentMissing(
            "engine-missing",
            "expected a Docker engine, found none, and can set one up only as root on Debian or Ubuntu",
            hint=f"as root on Debian: {MANUAL_STEPS}; elsewhere follow your distribution's guide for Docker",
        )
    if shutil.which("dockerd") is None:
        say("engine: none found; installing Debian's docker.io and iptables, then starting dockerd")
        apt_install(["docker.io", "iptables"])
    else:
        say("engine: installed but not running; starting dockerd")
    client = _try_connect() or _start(say)
    say(f"engine: {describe(client)}")
    return client


def is_debian() -> bool:
    """Tells whether this is Debian, Ubuntu or a child of theirs."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return False
    ids = {
        word
        for line in text.splitlines()
        if line.startswith(("ID=", "ID_LIKE="))
        for word in line.partition("=")[2].strip('"').split()
    }
    return bool(ids & {"debian", "ubuntu"})


def apt_install(packages: list[str]) -> None:
    """Installs Debian packages without recommends.

    Raises:
        EnvironmentMissing: apt failed; its last lines are in the text.
    """
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages],
    ):
        finished = subprocess.run(
            command, env=environment, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
        if finished.returncode != 0:
            tail = (finished.stdout + finished.stderr)[-1200:].decode("utf-8", "replace").strip()
            raise EnvironmentMissing(
                "packages-not-installed",
                f"expected `{' '.join(command)}` to succeed, found exit {finished.returncode}:\n{tail}",
                hint=f"mend apt, then run {' '.join(command)}",
            )


def _start(say: Say) -> docker.DockerClient:
    if Path("/run/systemd/system").is_dir():
        subprocess.run(["systemctl", "start", "docker"], check=False, capture_output=True)
    else:
        with LOG.open("ab") as log:
            daemon = subprocess.Popen(
                ["dockerd", "--log-level", "warn"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        PID.write_text(f"{daemon.pid}\n", encoding="ascii")
    deadline_s = time.monotonic() + START_TIMEOUT_S
    said_s = time.monotonic()
    while time.monotonic() < deadline_s:
        client = _try_connect()
        if client is not None:
            return client
        if time.monotonic() - said_s > 10:
            said_s = time.monotonic()
            say("engine: waiting for dockerd to answer")
        time.sleep(0.3)
    tail = LOG.read_text(encoding="utf-8", errors="replace")[-1500:] if LOG.exists() else "no log"
    raise EnvironmentMissing(
        "engine-did-not-start",
        f"expected dockerd to answer within {START_TIMEOUT_S} s, found none; the end of its log:\n{tail}",
        hint=f"read {LOG}, then run `memtrial engine`",
    )
