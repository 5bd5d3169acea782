"""A machine in a mount namespace of its own: the supervisor installed, a rehearsal's root, an approved official plan.

What is written to /opt, /srv, /etc and /var/lib lies in memory and ends with the process; /run/memtrial alone is the
machine's, and is taken away again. Needs root, whose the supervisor's prefix is.
"""

from __future__ import annotations

import json
import os
import pwd
import resource
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.core.keys import SigningKey
from orchestrator.core.places import cache_root
from orchestrator.model.usage import PriceTable

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = Path("/opt/memtrial/bin/memtrial")
SYSTEM, STATE, RUN = Path("/etc/memtrial"), Path("/var/lib/memtrial"), Path("/run/memtrial")
ORIGIN, CLONE = Path("/srv/origin.git"), Path("/srv/memtrial")
ENGINE = Path("/var/run/docker.sock")
OPERATOR_UID = 4242
ID = "rehearsal-one"
PROVIDER_KEY = "planted-openai-key-2b6e"
PEOPLE = {"owner": 3, "approver": 3, "curator": 2, "ledger": 1}
START_S = 60.0
PATHS = "/usr/sbin:/usr/bin:/sbin:/bin"


def command(
    *words: str | Path, cwd: Path = ROOT, user: int = 0, expected: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Runs a program as a user, with nothing of this environment but what a login has.

    Raises:
        EnvironmentMissing: it ended otherwise than expected (None: however it likes).
    """
    home = cwd.parent if user else Path.home()
    finished = subprocess.run(
        words,
        cwd=cwd,
        env={"PATH": PATHS, "LANG": "C.UTF-8", "HOME": str(home), "MEMTRIAL_REACH": "relay"},
        user=user,
        group=user,
        # Who may use the engine is root on the host: docs/security/supervisor.md says what to give instead.
        extra_groups=[ENGINE.stat().st_gid],
        capture_output=True,
        text=True,
        check=False,
    )
    if expected is not None and finished.returncode != expected:
        raise EnvironmentMissing(
            "rehearsal-failed",
            f"{' '.join(map(str, words[:3]))}: expected exit {expected}, found {finished.returncode}: "
            f"{(finished.stdout + finished.stderr)[-3000:]}",
            hint="mend what it says, then run `make proof-official` again",
        )
    return finished


def own_mounts(folder: Path) -> None:
    """Puts memory and copies over what an installation writes to; this process and its children alone see them."""
    shutil.copytree("/etc", folder / "etc", symlinks=True)
    for place in ("/opt", "/srv", "/var/lib"):
        command("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
    command("mount", "--bind", folder / "etc", "/etc")


@dataclass(slots=True)
class Site:
    """The desk at which people sign, the operator's clone beside its plan, and the service."""

    folder: Path
    service: subprocess.Popen[bytes] | None = None

    @property
    def desk(self) -> Path:
        """The clone of those who sign."""
        return self.folder / "desk" / "memtrial"

    @property
    def operator(self) -> Path:
        """The clone of who dispatches."""
        return self.folder / "operator" / "memtrial"

    @property
    def plan(self) -> Path:
        """The official plan."""
        return self.operator.parent / "plan.json"

    def key(self, role: str, number: int = 1) -> Path:
        """The private key of a person."""
        return self.folder / "keys" / f"{role}{number}.pem"

    def publish(self, what: str) -> None:
        """Commits what the desk holds, and brings it to origin, the supervisor's clone and the operator's."""
        command("git", "add", "-A", "approvals", cwd=self.desk)
        author = ("-c", "user.name=rehearsal", "-c", "user.email=rehearsal@example.org")
        command("git", *author, "commit", "-qm", what, cwd=self.desk)
        command("git", "push", "-q", "origin", "HEAD:main", cwd=self.desk)
        command("git", "pull", "-q", "--ff-only", cwd=CLONE)
        command("git", "pull", "-q", "--ff-only", cwd=self.operator, user=OPERATOR_UID)

    def uid(self) -> int:
        """The supervisor's user."""
        return pwd.getpwnam("memtrial").pw_uid


def clones(site: Site) -> None:
    """Makes origin from this clone's head, and the three clones of it."""
    command("git", "config", "--system", "--add", "safe.directory", "*")
    command("git", "clone", "-q", "--bare", "--no-local", ROOT, ORIGIN)
    command("git", "update-ref", "refs/heads/main", "HEAD", cwd=ORIGIN)
    command("git", "symbolic-ref", "HEAD", "refs/heads/main", cwd=ORIGIN)
    for place in (site.desk, CLONE, site.operator):
        place.parent.mkdir(parents=True, exist_ok=True)
        command("git", "clone", "-q", "--no-local", ORIGIN, place)
    given_to(OPERATOR_UID, site.operator.parent)


def given_to(uid: int, folder: Path) -> None:
    """Gives a folder and all in it to a user."""
    command("chown", "-R", f"{uid}:{uid}", folder)


def filled_cache(folder: Path, uid: int) -> None:
    """Gives a user what was fetched for images, checked by hash wherever it is used."""
    for name in ("downloads", "layers"):
        shutil.copytree(cache_root() / name, folder / name)
    given_to(uid, folder.parent)


def ceremony(site: Site) -> None:
    """Makes everybody's keys and the rehearsal's root, and publishes it."""
    site.key("owner").parent.mkdir(mode=0o700)
    words: list[str | Path] = []
    for role, count in PEOPLE.items():
        for number in range(1, count + 1):
            SigningKey.create(site.key(role, number))
            words += [f"--{role}", site.key(role, number)]
    words += ["--supervisor", SYSTEM / "supervisor.pub.pem", "--supervisor-uid", str(site.uid())]
    words += ["--supervisor-prefix", "/opt/memtrial", "--system", SYSTEM, "--rehearsal"]
    command(
        PROGRAM,
        "trust",
        "init",
        "--name",
        "org",
        "--named",
        "org/memtrial",
        *words,
        "--repository",
        site.desk,
    )
    site.publish("Make a trust root")


def approved(site: Site, origin: str, prices: PriceTable, model: str) -> None:
    """Plans the whole pack before the provider, and has two approvers and a curator sign it."""
    table = site.plan.parent / "prices.json"
    table.write_bytes(prices.canonical())
    asked = (
        "--phase",
        "official",
        "--namespace",
        "official-v1",
        "--task-set",
        "full",
        "--matrix",
        "primary",
    )
    asked_of = ("--agent", "chat", "--model", model, "--provider", "openai", "--upstream", origin)
    command(
        *(PROGRAM, "plan", *asked, *asked_of, "--epochs", "1"),
        *("--prices", table, "--max-usd", "50", "--out", site.plan),
        cwd=site.operator, user=OPERATOR_UID,
    )  # fmt: skip
    head = command("git", "rev-parse", "HEAD", cwd=site.desk).stdout.strip()
    bounds = ("--max-input-tokens", "1000000", "--max-output-tokens", "1000000")
    there = ("--repository", site.desk)
    command(PROGRAM, "approve", "propose", site.plan, "--id", ID, "--commit", head, *bounds, *there)
    for number in (1, 2):
        command(PROGRAM, "approve", "sign", ID, "--key", site.key("approver", number), *there)
    command(PROGRAM, "approve", "sign", ID, "--curator", site.key("curator"), *there)
    site.publish("Approve a run")


def serving(site: Site) -> None:
    """Starts the supervisor as its unit does, and waits for its socket.

    Raises:
        EnvironmentMissing: it does not come.
    """
    keys = STATE / "providers.json"
    keys.write_text(json.dumps({"openai": PROVIDER_KEY}))
    keys.chmod(0o600)
    filled_cache(STATE / ".cache" / "memtrial", site.uid())
    given_to(site.uid(), keys)
    RUN.mkdir(mode=0o755)
    given_to(site.uid(), RUN)
    unit = Path("/etc/systemd/system/memtrial-supervisor.service").read_text("utf-8")
    start = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    site.service = subprocess.Popen(
        start.removeprefix("ExecStart=").split(),
        cwd="/",
        user=site.uid(),
        group=pwd.getpwnam("memtrial").pw_gid,
        extra_groups=[],
        umask=0o022,
        stdin=subprocess.DEVNULL,
        stdout=(site.folder / "supervisor.log").open("wb"),
        stderr=subprocess.STDOUT,
    )
    end = time.monotonic() + START_S
    while not (RUN / "supervisor.sock").exists():
        if site.service.poll() is not None or time.monotonic() > end:
            raise EnvironmentMissing(
                "supervisor-not-serving",
                f"expected a supervisor at {RUN}, found {(site.folder / 'supervisor.log').read_text('utf-8', 'replace')[-2000:]}",
                hint="mend what it says, then run `make proof-official` again",
            )
        time.sleep(0.1)


def installed(out: Path) -> None:
    """Installs what was built, as root does on a real machine, for one operator."""
    python, tool = ROOT / ".venv" / "bin" / "python", ROOT / "tools" / "supervisor.py"
    command(python, tool, "install", "--out", out, "--operator-uid", str(OPERATOR_UID))


def ended(site: Site) -> None:
    """Ends the service and takes its folder of sockets away."""
    if site.service is not None:
        site.service.terminate()
        site.service.wait(30)
    if RUN.exists():
        shutil.rmtree(RUN)
    os.sync()
