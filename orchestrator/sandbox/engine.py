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

from orchestrator.core.aptsources import os_release
from orchestrator.core.errors import EnvironmentMissing

Say = Callable[[str], None]

API_TIMEOUT_S = 300
START_TIMEOUT_S = 90
APT_TIMEOUT_S = 900
SOCKET = Path("/var/run/docker.sock")
LOG = Path("/var/log/memtrial-dockerd.log")
PID = Path("/run/memtrial-dockerd.pid")
PID_FILES = (Path("/run/docker.pid"), Path("/run/docker/containerd/containerd.pid"))
MANUAL_STEPS = "apt-get update && apt-get install -y --no-install-recommends docker.io iptables && (setsid dockerd >/var/log/dockerd.log 2>&1 &)"


def connect() -> docker.DockerClient:
    """Returns a client of a reachable engine: DOCKER_HOST, the default socket, the user's rootless one.

    Raises:
        EnvironmentMissing: no engine answers.
    """
    client = _try_connect()
    if client is None:
        closed = SOCKET.exists() and not os.access(SOCKET, os.W_OK)
        raise EnvironmentMissing(
            "engine-missing",
            f"expected a Docker engine, found {f'{SOCKET}, which this user may not use' if closed else 'none that answers'}",
            hint=f"run `memtrial engine`, or as root: {MANUAL_STEPS}",
        )
    return client


def _try_connect() -> docker.DockerClient | None:
    rootless = Path(os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")) / "docker.sock"
    named = os.environ.get("DOCKER_HOST")
    for address in [named] if named else [f"unix://{SOCKET}", f"unix://{rootless}"]:
        # A socket that is not there needs no client, and the client would leak one trying.
        if address.startswith("unix://") and not Path(address.removeprefix("unix://")).exists():
            continue
        try:
            client = (
                docker.from_env(timeout=API_TIMEOUT_S)
                if named
                else docker.DockerClient(base_url=address, timeout=API_TIMEOUT_S)
            )
        except (DockerException, OSError):
            continue
        if answers(client):
            return client
        client.close()
    return None


def answers(client: docker.DockerClient) -> bool:
    """Tells whether the engine behind a client answers now."""
    try:
        return bool(client.ping())
    except (DockerException, OSError):
        return False


def describe(client: docker.DockerClient) -> str:
    """Returns version, storage driver and cgroup version of the engine."""
    info = client.info()
    return f"docker {info.get('ServerVersion')}, {info.get('Driver')}, cgroup v{info.get('CgroupVersion', '1')}"


def images_present(client: docker.DockerClient) -> int:
    """Returns how many of our images the engine holds."""
    return len(client.api.images(filters={"label": "memtrial=image"}))


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
    release = os_release()
    ids = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    return bool(ids & {"debian", "ubuntu"})


def apt_install(packages: list[str]) -> None:
    """Installs distribution packages without recommends; refreshes the package lists only if needed.

    Raises:
        EnvironmentMissing: apt failed; its last lines are in the text.
    """
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    if _apt(install) is None:
        return
    for command in (["apt-get", "update", "-q"], install):
        failure = _apt(command)
        if failure is not None:
            raise EnvironmentMissing(
                "packages-not-installed",
                f"expected `{' '.join(command)}` to succeed, found {failure}",
                hint=f"mend apt, then run `{' '.join(command)}`",
            )


def _apt(command: list[str]) -> str | None:
    """Runs apt; returns how it failed, or None."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        finished = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=APT_TIMEOUT_S,
        )
    except FileNotFoundError:
        return "no apt-get"
    except subprocess.TimeoutExpired:
        return f"no end within {APT_TIMEOUT_S} s"
    tail = (finished.stdout + finished.stderr)[-1200:].decode("utf-8", "replace").strip()
    return f"exit {finished.returncode}:\n{tail}" if finished.returncode else None


def forget_dead_daemons(pid_files: tuple[Path, ...]) -> None:
    """Removes the pid files of daemons that were killed: their number may belong to another process now.

    A daemon that finds such a number alive takes it for its own predecessor and does not start. A file
    whose process still has the daemon's name is left alone.
    """
    for path in pid_files:
        try:
            pid = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        try:
            name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            name = ""
        if name not in {"dockerd", "containerd"}:
            path.unlink(missing_ok=True)


def _start(say: Say) -> docker.DockerClient:
    """Starts the daemon and waits until it answers, has ended, or the time is up."""
    daemon = None
    forget_dead_daemons(PID_FILES)
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
                # It outlives this program; the folder that we stand in may be removed or unmounted.
                cwd="/",
            )
        PID.write_text(f"{daemon.pid}\n", encoding="ascii")
    began_s = time.monotonic()
    next_word_s = 10.0
    while (waited_s := time.monotonic() - began_s) < START_TIMEOUT_S:
        client = _try_connect()
        if client is not None:
            return client
        if daemon is not None and daemon.poll() is not None:
            break
        if waited_s > next_word_s:
            next_word_s += 10
            say(f"engine: waiting for dockerd to answer ({waited_s:.0f} s)")
        time.sleep(0.3)
    ended = daemon is not None and daemon.poll() is not None
    raise EnvironmentMissing(
        "engine-did-not-start",
        f"expected dockerd to answer within {START_TIMEOUT_S} s, found {'that it ended' if ended else 'no answer'}; the end of its log:\n{_log_tail(by_systemd=daemon is None)}",
        hint="mend what the log says, then run `memtrial engine`",
    )


def _log_tail(*, by_systemd: bool) -> str:
    if by_systemd:
        shown = subprocess.run(
            ["journalctl", "-u", "docker", "-n", "20", "--no-pager"],
            check=False,
            capture_output=True,
        )
        return shown.stdout.decode("utf-8", "replace").strip()
    return LOG.read_text(encoding="utf-8", errors="replace")[-1500:] if LOG.exists() else "no log"
