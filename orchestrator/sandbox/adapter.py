"""The Docker sandbox: implements `protocols.Sandbox` over one shared engine client."""

from __future__ import annotations

import base64
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import docker

from orchestrator.core.errors import IntegrityError
from orchestrator.model.plan import TaskPin
from orchestrator.protocols import VerifyJob, VerifyOutcome
from orchestrator.sandbox.containers import Container, EngineFault
from orchestrator.sandbox.harden import CANDIDATE_UID, TESTS_UID, verifier_profile
from orchestrator.sandbox.identity import labels
from orchestrator.sandbox.streams import DeadlinePassed, Stream
from orchestrator.sandbox.timing import StepClock
from orchestrator.sandbox.workspace import DockerWorkspace

# The client of the one SDK that this room owns; other rooms name it by this alias only.
EngineClient = docker.DockerClient

PREPARE_TIMEOUT_S = 180
MAX_REPORT_BYTES = 16 * 1024 * 1024
MAX_LOG_BYTES = 256 * 1024
HIDDEN_ROOT = "/hidden"
CANDIDATE_SOCKET = "/candidate/socket"


class DockerSandbox:
    """Opens workspaces and runs verifications; can abort all of them from another thread."""

    def __init__(self, client: docker.DockerClient, installation: str) -> None:
        self._client = client
        self._installation = installation
        self.session = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._open: list[DockerWorkspace | Container] = []

    @contextmanager
    def open(self, task: TaskPin, *, trial: str) -> Iterator[DockerWorkspace]:
        """Starts the containers of a trial; removes them and their volume on exit."""
        workspace = DockerWorkspace(
            self._client, task, labels(self._installation, trial, self.session)
        )
        with self._listed(workspace):
            try:
                workspace.open()
                yield workspace
            finally:
                workspace.close()

    def abort(self) -> None:
        """Kills everything that runs, so that waiting threads come back and clean up."""
        with self._lock:
            running = list(self._open)
        for item in running:
            if isinstance(item, Container):
                item.kill()
            else:
                item.abort()

    @contextmanager
    def _listed(self, item: DockerWorkspace | Container) -> Iterator[None]:
        with self._lock:
            self._open.append(item)
        try:
            yield
        finally:
            with self._lock:
                self._open.remove(item)

    def verify(self, job: VerifyJob, *, trial: str) -> tuple[VerifyOutcome, int]:
        """Runs one suite in a fresh container; returns what it gave back and its container time in ms.

        Raises:
            EngineFault: the engine or our own program in the container failed.
        """
        clock = StepClock()
        container = Container.start(
            self._client,
            clock,
            verifier_profile(job.task.limits, job.timeout_s),
            image=job.task.verifier_image.id,
            volume=None,
            labels=labels(self._installation, trial, self.session),
        )
        with self._listed(container), container, clock.step():
            outcome = _verify(container, job)
        return outcome, clock.total_ms()


def _verify(container: Container, job: VerifyJob) -> VerifyOutcome:
    prepared = _prepare(container, job)
    restored = tuple(map(str, _list_of(prepared, "restored")))
    broken = prepared.get("refused", prepared.get("compile_error"))
    if broken is not None:
        return VerifyOutcome(
            compiled=False,
            compile_error=str(broken),
            timed_out=False,
            exit_code=None,
            report=None,
            log=b"",
            restored=restored,
        )
    exec_id, stream = _begin(
        container, job, ",".join(map(str, _list_of(prepared, "candidate_names")))
    )
    try:
        log, timed_out = _drain(stream, job.timeout_s)
    finally:
        stream.close()
    code, report = None, None
    if timed_out:
        container.kill()
    else:
        code = container.exec_exit_code(exec_id)
        container.stream.send_frame({"max_report_bytes": MAX_REPORT_BYTES})
        report = _answer(container, PREPARE_TIMEOUT_S).get("report_base64")
    return VerifyOutcome(
        compiled=True,
        compile_error=None,
        timed_out=timed_out,
        exit_code=code,
        report=base64.b64decode(report) if isinstance(report, str) else None,
        log=log,
        restored=restored,
    )


def _list_of(answer: dict[str, object], name: str) -> list[object]:
    found = answer.get(name)
    return found if isinstance(found, list) else []


def _begin(container: Container, job: VerifyJob, names: str) -> tuple[str, Stream]:
    """Starts the tests, and before them the candidate's process where it is a process of its own."""
    environment = dict(job.tests.environment)
    folder = "/work"
    if job.candidate is not None:
        folder = HIDDEN_ROOT
        environment |= {"MEMTRIAL_SOCKET": CANDIDATE_SOCKET, "MEMTRIAL_CANDIDATE": names}
        container.detached_exec(
            (*job.candidate.argv, CANDIDATE_SOCKET),
            user=f"{CANDIDATE_UID}:{CANDIDATE_UID}",
            environment=dict(job.candidate.environment),
        )
    user = f"{TESTS_UID}:{TESTS_UID}"
    return container.begin_exec(job.tests.argv, user=user, environment=environment, folder=folder)


def _prepare(container: Container, job: VerifyJob) -> dict[str, object]:
    """Has the tree built in the container; returns what the verifier says of it.

    Raises:
        IntegrityError: the container came to another tree than the harvested one.
    """
    container.stream.send_frame(
        {
            "pinned_tree": job.task.tree,
            "expect_tree": job.expect_tree,
            "diff_base64": base64.b64encode(job.diff).decode("ascii"),
            "hidden_root": "/work" if job.candidate is None else HIDDEN_ROOT,
            "hidden_files": [list(pair) for pair in job.hidden_files],
            "seal_files": [list(pair) for pair in job.seal_files],
            "protected": list(job.protected),
            "source_roots": list(job.source_roots),
        }
    )
    prepared = _answer(container, PREPARE_TIMEOUT_S)
    if "refused" not in prepared and prepared.get("prepared") != job.expect_tree:
        raise IntegrityError(
            "tree-mismatch",
            f"the verifier prepared tree {prepared.get('prepared')}, expected {job.expect_tree}",
            hint="run `memtrial resume`",
        )
    return prepared


def _answer(container: Container, timeout_s: int) -> dict[str, object]:
    try:
        answer = container.stream.line(
            time.monotonic() + timeout_s, max_bytes=2 * MAX_REPORT_BYTES, who="the verifier"
        )
    except DeadlinePassed as error:
        raise EngineFault(
            "verifier-timeout",
            f"the verifier took more than {timeout_s} s",
            hint="run `memtrial resume`",
        ) from error
    if "failed" in answer:
        raise EngineFault(
            "verifier-failed",
            f"the verifier failed: {answer['failed']}",
            hint="run `memtrial resume`",
        )
    return answer


def _drain(stream: Stream, timeout_s: int) -> tuple[bytes, bool]:
    """Reads the tests' output to its end, keeping the first part; returns (log, whether time ran out)."""
    deadline_s = time.monotonic() + timeout_s
    log = bytearray()
    try:
        while (piece := stream.chunk(deadline_s)) is not None:
            if len(log) < MAX_LOG_BYTES:
                log += piece[1][: MAX_LOG_BYTES - len(log)]
    except DeadlinePassed:
        return bytes(log), True
    return bytes(log), False
