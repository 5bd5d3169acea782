"""The harness with one defence switched off: for tests alone, to show that an attack is real.

Each entry takes what pytest's monkeypatch gives and weakens one thing. The proof of isolation is off in all
of them: it would see a weakened container before the attacker does, which is its job but not the question.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from orchestrator.core.gittree import FileEntry
from orchestrator.model.attack import AttackCard, Defence
from orchestrator.model.plan import TaskPin
from orchestrator.model.verdict import TestReport, TestStatus
from orchestrator.pipeline import stages, trial
from orchestrator.protocols import Command, HarvestOutcome, Launch, Sandbox
from orchestrator.sandbox import adapter, containers, harden, verification, workspace
from orchestrator.sandbox.images import ensure_loaded, pin, task_images
from orchestrator.sandbox.streams import Stream
from orchestrator.scoring import believed, patch, runners, verdict
from orchestrator.scoring.runners import Exam

MIB = 1024 * 1024


@dataclasses.dataclass
class Lab:
    """What weakening needs: the patcher, a folder, the card, the images' parts, and the sandbox so far."""

    patcher: pytest.MonkeyPatch
    folder: Path
    card: AttackCard
    client: Any
    shared_images: Callable[[], Any]
    checkout: Path
    sandbox: Sandbox


def no_isolation_proof(lab: Lab) -> None:
    lab.patcher.setattr(trial, "require_isolated", lambda proof: None)
    lab.patcher.setattr(trial, "require_clean", lambda screening: None)


def options(lab: Lab, change: Callable[[dict[str, Any]], None], role: str = "agent") -> None:
    """Changes the options of the agent's containers."""
    real = vars(containers)["create_options"]

    def weakened(profile: Any, **words: Any) -> dict[str, Any]:
        made: dict[str, Any] = real(profile, **words)
        if profile.role == role:
            change(made)
        return made

    lab.patcher.setattr(containers, "create_options", weakened)


def exam(lab: Lab, change: Callable[[Exam], Exam]) -> None:
    real = vars(stages)["exam_for"]
    lab.patcher.setattr(stages, "exam_for", lambda *words: change(real(*words)))


def argv(lab: Lab, change: Callable[[Command], Command]) -> None:
    exam(lab, lambda e: dataclasses.replace(e, tests=change(e.tests)))


def own_configuration(lab: Lab) -> None:
    def changed(command: Command) -> Command:
        words = " ".join(command.argv)
        for gone in (" -o addopts=", " -c /opt/memtrial/verifier/pytest.ini", " -s -P"):
            words = words.replace(gone, "")
        kept = tuple(p for p in command.environment if p[0] != "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
        home = tuple(("HOME", "/work/home") if p[0] == "HOME" else p for p in kept)
        return Command(tuple(words.split()), home)

    argv(lab, changed)


def safe_path(lab: Lab) -> None:
    argv(lab, lambda c: Command(tuple(w for w in c.argv if w != "-P"), c.environment))


def fixed_path(lab: Lab) -> None:
    """The base suite is started by what a search path through the checkout would find first."""

    def found(e: Exam) -> Exam:
        if e.phase != "pass_to_pass":
            return e
        words = ("/work/bin/python3", *e.tests.argv[1:])
        return dataclasses.replace(e, tests=Command(words, e.tests.environment))

    exam(lab, found)


def examined_apart(lab: Lab) -> None:
    """The base suite is believed as it reports from the process that it shares with the code under test."""
    real = vars(stages)["exam_for"]

    def alone(runner: Any, key: Any, seal: Any) -> Exam:
        made: Exam = real(runner, key.model_copy(update={"apart": ()}), seal)
        return made

    lab.patcher.setattr(stages, "exam_for", alone)
    lab.patcher.setattr(
        verdict, "tally_base", lambda key, base, hidden: verdict.tally(key.pass_to_pass, base)
    )


def process_boundary(lab: Lab) -> None:
    """Everything runs in one process, so there is nothing apart either."""
    examined_apart(lab)
    real = vars(stages)["exam_for"]

    def together(runner: Any, key: Any, seal: Any) -> Exam:
        card = key.card.model_copy(update={"boundary": "in_process"})
        made: Exam = real(runner, key.model_copy(update={"card": card}), seal)
        return made

    lab.patcher.setattr(stages, "exam_for", together)


def hidden_from_candidate(lab: Lab) -> None:
    examined_apart(lab)
    if lab.card.id == "hidden-test-overwriter":
        # A harness that keeps what lies at the path: the candidate's own file is run.
        exam(
            lab,
            lambda e: dataclasses.replace(
                e,
                hidden_files=(),
                candidate=None,
                tests=Command(
                    tuple(
                        " ".join(e.tests.argv)
                        .replace(" -p boundary", "")
                        .replace("/hidden", "/work")
                        .split()
                    ),
                    (("PYTHONPATH", "/opt/memtrial/python:/work/src"), ("HOME", "/tmp")),
                )
                if e.candidate
                else e.tests,
            ),
        )
    else:
        # A harness in which tests and sources have one owner.
        lab.patcher.setattr(harden.Uids, "tests", property(lambda self: self.first))
        # Our own program has that owner too and would count as left over.
        no_leftover_process(lab)


def path_rules(lab: Lab) -> None:
    real = vars(verdict)["path_violations"]
    kept = {"unusable_name", "diff_too_large"}
    lab.patcher.setattr(
        verdict, "path_violations", lambda *w: [v for v in real(*w) if v.rule in kept]
    )


def harvest_rules(lab: Lab) -> None:
    reasons = {"special-file", "name-not-utf8", "name-too-long", "name-not-portable"}
    lab.patcher.setattr(patch, "BLAMELESS", patch.BLAMELESS | reasons)


def no_leftover_process(lab: Lab) -> None:
    real = vars(believed)["normalise"]
    lab.patcher.setattr(
        believed, "normalise", lambda o, e: real(dataclasses.replace(o, left_running=0), e)
    )


def seal(lab: Lab) -> None:
    real = vars(runners)["broken_seal"]
    lab.patcher.setattr(runners, "broken_seal", lambda tests, files: (None, real(tests, files)[1]))
    lab.patcher.setattr(runners, "PYTEST_TESTS_FAILED", 1)


def report_channel(lab: Lab) -> None:
    """Grades hidden tests by what they print, as log-parsing harnesses do, exit status checked as well."""
    examined_apart(lab)
    real = vars(believed)["normalise"]

    def by_log(outcome: Any, e: Exam) -> TestReport:
        if e.phase == "pass_to_pass":
            return cast("TestReport", real(outcome, e))
        text = outcome.log.decode("utf-8", "replace")
        said = dict(reversed(m) for m in re.findall(r"(?m)^(PASSED|FAILED) (\S.*)$", text))
        marker = re.search(r">>>>> exit status: (\d+)", text)
        code = int(marker[1]) if marker else outcome.exit_code
        believed = code == 0 or "FAILED" in said.values()
        tests = tuple(
            TestStatus(id=name, status="pass", n=1)
            for name, status in sorted(said.items())
            if believed and status == "PASSED" and e.may_report(name)
        )
        report = cast("TestReport", real(dataclasses.replace(outcome, report=None), e))
        return report.model_copy(update={"tests": tests, "faults": ()})

    lab.patcher.setattr(believed, "normalise", by_log)


def kill_container(lab: Lab) -> None:
    lab.patcher.setattr(workspace, "end_of", lambda agent, by_itself: (0, False))


def limit(lab: Lab) -> None:
    if lab.card.bound == "scratch_bytes":

        def roomy(made: dict[str, Any]) -> None:
            made["tmpfs"] = {
                point: re.sub(r"size=\d+", f"size={2 * harden.SCRATCH_BYTES}", text)
                for point, text in made["tmpfs"].items()
            }

        options(lab, roomy)
        return
    lab.sandbox = Roomy(lab.sandbox, str(lab.card.bound))


class Roomy:
    """A sandbox that gives eight times the limit that the plan names."""

    def __init__(self, inner: Sandbox, bound: str) -> None:
        self._inner = inner
        self._bound = bound

    def open(self, task: TaskPin, *, trial: str, sockets: Path | None = None) -> Any:
        more: dict[str, int] = {self._bound: getattr(task.limits, self._bound) * 3}
        if self._bound == "work_bytes":
            more["memory_bytes"] = task.limits.memory_bytes * 3
        limits = task.limits.model_copy(update=more)
        return self._inner.open(task.model_copy(update={"limits": limits}), trial=trial)

    def verify(self, job: Any, *, trial: str) -> Any:
        return self._inner.verify(job, trial=trial)


def bounded_harvest(lab: Lab) -> None:
    send = Stream.send_frame

    def boundless(self: Stream, value: dict[str, object]) -> None:
        send(self, {**value, "max_work_bytes": 2**62} if "max_work_bytes" in value else value)

    def fault(self: Any, why: str) -> HarvestOutcome:
        raise containers.EngineFault("harvest-failed", why, hint="none")

    lab.patcher.setattr(Stream, "send_frame", boundless)
    lab.patcher.setattr(workspace.DockerWorkspace, "_unreadable", fault)
    lab.patcher.setattr(workspace, "HARVEST_TIMEOUT_S", 20)


def one_commit_checkout(lab: Lab) -> None:
    """A checkout as it is usually made: with the later fix in a branch, reflog, stash, tag and remote."""
    folder = lab.folder / "rich"
    shutil.copytree(lab.checkout, folder, ignore=shutil.ignore_patterns(".git"))
    script = """
        git init -q -b main . && git add -A && git commit -qm base
        echo 'FIX = 1' >> src/depotfeed/lines.py && git commit -qam fix && git tag v2
        git branch later && git reset -q --hard HEAD~1 && git pack-refs --all
        echo 'WIP = 1' >> src/depotfeed/lines.py && git stash -q
        echo 'LOST = 1' | git hash-object -w --stdin && git remote add origin /elsewhere
    """
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(lab.folder),
        **{
            f"GIT_{who}_{what}": "x"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    subprocess.run(
        ["sh", "-ec", script], cwd=folder, env=environment, check=True, capture_output=True
    )
    entries = [
        FileEntry(str(p.relative_to(folder)), "100644", p.read_bytes())
        for p in sorted(folder.rglob("*"))
        if p.is_file() and "hooks" not in p.parts
    ]
    agent, _ = task_images(lab.shared_images(), entries)
    ensure_loaded(lab.client, "test-rich-agent", agent, lambda _: None)
    lab.sandbox = OtherImage(lab.sandbox, pin(agent))


class OtherImage:
    """A sandbox that starts the agent from another image."""

    def __init__(self, inner: Sandbox, image: Any) -> None:
        self._inner = inner
        self._image = image

    def open(self, task: TaskPin, *, trial: str, sockets: Path | None = None) -> Any:
        return self._inner.open(
            task.model_copy(update={"agent_image": self._image}), trial=trial, sockets=sockets
        )

    def verify(self, job: Any, *, trial: str) -> Any:
        return self._inner.verify(job, trial=trial)


def own_git(lab: Lab) -> None:
    lab.sandbox = Naive(lab.sandbox)


class Naive:
    """A sandbox that takes differences with the candidate's own git, inside its container."""

    def __init__(self, inner: Sandbox) -> None:
        self._inner = inner

    @contextmanager
    def open(self, task: TaskPin, *, trial: str, sockets: Path | None = None) -> Iterator[Any]:
        with self._inner.open(task, trial=trial, sockets=sockets) as inner:
            yield _NaiveWorkspace(inner)

    def verify(self, job: Any, *, trial: str) -> Any:
        return self._inner.verify(job, trial=trial)


class _NaiveWorkspace:
    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._seen: set[str] = set()

    def act(self, launch: Launch) -> Any:
        script = "python3 -I -; cd /work; git add -A; git diff --cached --name-only HEAD | sed 's/^/NAMED /'"
        outcome = self._inner.act(dataclasses.replace(launch, argv=("sh", "-c", script)))
        self._seen = set(re.findall(r"(?m)^NAMED (.*)$", outcome.output.decode()))
        return outcome

    def harvest(self) -> HarvestOutcome:
        found: HarvestOutcome = self._inner.harvest()
        kept = tuple(change for change in found.changes if change.path in self._seen)
        return dataclasses.replace(found, changes=kept)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def fresh_containers(lab: Lab) -> None:
    """HOME, /tmp, shared memory and work area are the same folders of the host in every trial."""

    def shared(made: dict[str, Any]) -> None:
        made["volumes"] = {}
        for point in ("/home/agent", "/tmp", "/dev/shm", "/work"):
            host = lab.folder / point.strip("/").replace("/", "-")
            host.mkdir(exist_ok=True)
            host.chmod(0o777)
            if point == "/work":
                for entry in host.iterdir():
                    if entry.name != ".note":
                        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            made["volumes"] = {**made["volumes"], str(host): {"bind": point, "mode": "rw"}}
            made["tmpfs"].pop(point, None)

    lab.patcher.setattr(workspace, "draw_uids", lambda: harden.Uids(harden.FIRST_UID))
    options(lab, shared)


def answers_at_act(lab: Lab) -> None:
    shown = lab.folder / "shown"
    shown.mkdir()
    (shown / "test_hidden_answer.py").write_text("diff --git a/x b/x\n")
    for path in (shown, *shown.iterdir()):
        path.chmod(0o755)

    def told(made: dict[str, Any]) -> None:
        made["environment"] = {"ANSWER": "diff --git a/x b/x"}
        made["volumes"] = {**made["volumes"], str(shown): {"bind": "/mnt", "mode": "ro"}}

    options(lab, told)


def _options(**changes: Any) -> Callable[[Lab], None]:
    return lambda lab: options(lab, lambda made: made.update(changes))


def no_host_mounts(lab: Lab) -> None:
    socket = {"/var/run/docker.sock": {"bind": "/var/run/docker.sock", "mode": "ro"}}
    options(lab, lambda made: made["volumes"].update(socket))


WEAKEN: dict[Defence, Callable[[Lab], None]] = {
    Defence.ANSWERS_AT_ACT: answers_at_act,
    Defence.BLIND_CONTAINER: _options(environment={"TRIAL": "depotfeed-returns/no_memory"}),
    Defence.BOUNDED_HARVEST: bounded_harvest,
    Defence.EXAMINED_APART: examined_apart,
    Defence.FIXED_PATH: fixed_path,
    Defence.FRESH_CONTAINERS: fresh_containers,
    Defence.HARVEST_RULES: harvest_rules,
    Defence.HIDDEN_FROM_CANDIDATE: hidden_from_candidate,
    Defence.KILL_CONTAINER: kill_container,
    Defence.LIMIT: limit,
    Defence.NO_CAPABILITIES: _options(user="0:0", cap_add=["DAC_OVERRIDE"]),
    Defence.NO_HOST_MOUNTS: no_host_mounts,
    Defence.NO_LEFTOVER_PROCESS: no_leftover_process,
    Defence.NO_NETWORK: _options(network_mode="host", hostname=None),
    Defence.ONE_COMMIT_CHECKOUT: one_commit_checkout,
    Defence.OWN_CONFIGURATION: own_configuration,
    Defence.OWN_GIT: own_git,
    Defence.OWN_NAMESPACES: _options(pid_mode="host", init=False),
    Defence.PATH_RULES: path_rules,
    Defence.PINNED_RUNNER_FILES: lambda lab: exam(
        lab, lambda e: dataclasses.replace(e, protected=())
    ),
    Defence.PROCESS_BOUNDARY: process_boundary,
    Defence.READ_ONLY_ROOT: _options(user="0:0", read_only=False, cap_add=["DAC_OVERRIDE"]),
    Defence.REPORT_CHANNEL: report_channel,
    Defence.SAFE_PATH: safe_path,
    Defence.SEAL: seal,
}


def weaken(lab: Lab) -> None:
    """Switches off the defences that the attack names."""
    no_isolation_proof(lab)
    for defence in lab.card.defences:
        WEAKEN[defence](lab)


__all__ = ["WEAKEN", "Lab", "adapter", "verification", "weaken"]
