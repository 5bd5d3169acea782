"""One run of a suite in a verifier container: build the tree, run the tests, take the report.

What candidate code does to the container is an outcome and never a fault: a verifier that it brings down
gives no report, and no report passes nothing. Only the engine, other people and our own stop are faults.
"""

from __future__ import annotations

import base64
import time

from orchestrator.core.errors import IntegrityError
from orchestrator.protocols import VerifyJob, VerifyOutcome
from orchestrator.sandbox.containers import Container, EngineFault
from orchestrator.sandbox.harden import Uids
from orchestrator.sandbox.streams import DeadlinePassed, Stream

PREPARE_TIMEOUT_S = 180
MAX_REPORT_BYTES = 16 * 1024 * 1024
MAX_LOG_BYTES = 256 * 1024
# The tests' output is of no use beyond its first part, and reading it costs us time.
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
HIDDEN_ROOT = "/hidden"
CANDIDATE_SOCKET = "/candidate/socket"


class Verification:
    """One verification in a started container."""

    def __init__(self, container: Container, job: VerifyJob, uids: Uids) -> None:
        self._container = container
        self._job = job
        self._uids = uids

    def run(self) -> VerifyOutcome:
        """Prepares, runs the tests to their end or a limit, and takes the report.

        Raises:
            EngineFault: the engine or our own program failed, not by the candidate's doing.
            IntegrityError: the container came to another tree than the harvested one.
        """
        prepared = self._prepare()
        restored = tuple(map(str, _list_of(prepared, "restored")))
        broken = prepared.get("refused", prepared.get("compile_error"))
        if broken is not None:
            return _not_compiled(str(broken), restored)
        exec_id, stream = self._begin(",".join(map(str, _list_of(prepared, "candidate_names"))))
        deadline_s = time.monotonic() + self._job.timeout_s
        try:
            log, ended = _drain(stream, self._job.timeout_s)
        finally:
            stream.close()
        # The stream ends before the tests if they close their output or if the connection is lost.
        code = self._container.await_exec(exec_id, deadline_s) if ended else None
        if not ended or code is None:
            self._container.kill()
            return VerifyOutcome(
                compiled=True,
                compile_error=None,
                timed_out=True,
                exit_code=None,
                report=None,
                log=log,
                restored=restored,
            )
        answer = self._answer({"max_report_bytes": MAX_REPORT_BYTES, "tests_uid": self._uids.tests})
        report, running = answer.get("report_base64"), answer.get("left_running")
        return VerifyOutcome(
            compiled=True,
            compile_error=None,
            timed_out=False,
            exit_code=code,
            report=base64.b64decode(report) if isinstance(report, str) else None,
            log=log,
            restored=restored,
            left_running=running if isinstance(running, int) else 0,
        )

    def _prepare(self) -> dict[str, object]:
        """Has the tree built in the container; returns what the verifier says of it."""
        job = self._job
        prepared = self._answer(
            {
                "pinned_tree": job.task.tree,
                "expect_tree": job.expect_tree,
                "diff_base64": base64.b64encode(job.diff).decode("ascii"),
                "hidden_root": "/work" if job.candidate is None else HIDDEN_ROOT,
                "hidden_files": [list(pair) for pair in job.hidden_files],
                "seal_files": [list(pair) for pair in job.seal_files],
                "pinned_tests": list(job.pinned_tests),
                "left_out": list(job.left_out),
                "protected": list(job.protected),
                "source_roots": list(job.source_roots),
            }
        )
        if "gone" in prepared:
            return {"refused": f"the tree cannot be built: {prepared['gone']}"}
        if "refused" not in prepared and prepared.get("prepared") != job.expect_tree:
            raise IntegrityError(
                "tree-mismatch",
                f"the verifier prepared tree {prepared.get('prepared')}, expected {job.expect_tree}",
                hint="run `memtrial resume`",
            )
        return prepared

    def _begin(self, names: str) -> tuple[str, Stream]:
        """Starts the tests, and before them the candidate's process where it is one of its own."""
        job, container = self._job, self._container
        environment = dict(job.tests.environment)
        folder = "/work"
        if job.candidate is not None:
            folder = HIDDEN_ROOT
            environment |= {"MEMTRIAL_SOCKET": CANDIDATE_SOCKET, "MEMTRIAL_CANDIDATE": names}
            container.detached_exec(
                (*job.candidate.argv, CANDIDATE_SOCKET),
                user=f"{self._uids.candidate}:{self._uids.candidate}",
                environment=dict(job.candidate.environment),
            )
        user = f"{self._uids.tests}:{self._uids.tests}"
        return container.begin_exec(
            job.tests.argv, user=user, environment=environment, folder=folder
        )

    def _answer(self, frame: dict[str, object]) -> dict[str, object]:
        """Asks our program in the container; an answer of its own, or `gone` if it was brought down.

        Raises:
            EngineFault: it failed in its own right, or was ended by others.
        """
        stream = self._container.stream
        deadline_s = time.monotonic() + PREPARE_TIMEOUT_S
        try:
            stream.send_frame(frame)
            answer = stream.line(deadline_s, max_bytes=2 * MAX_REPORT_BYTES, who="the verifier")
        except (DeadlinePassed, IntegrityError, OSError) as error:
            foreign = self._container.meddled()
            if foreign:
                raise EngineFault(
                    "verifier-ended-from-outside",
                    f"expected the verifier to answer, found {', '.join(foreign)} from outside",
                    hint="run `memtrial resume`",
                ) from error
            return {"gone": f"the verifier was brought down ({type(error).__name__})"}
        if "failed" in answer:
            raise EngineFault(
                "verifier-failed",
                f"the verifier failed: {answer['failed']}",
                hint="run `memtrial resume`",
            )
        return answer


def _not_compiled(why: str, restored: tuple[str, ...]) -> VerifyOutcome:
    return VerifyOutcome(
        compiled=False,
        compile_error=why,
        timed_out=False,
        exit_code=None,
        report=None,
        log=b"",
        restored=restored,
    )


def _list_of(answer: dict[str, object], name: str) -> list[object]:
    found = answer.get(name)
    return found if isinstance(found, list) else []


def _drain(stream: Stream, timeout_s: int) -> tuple[bytes, bool]:
    """Reads the tests' output, keeping the first part; returns (log, whether it ended within its limits)."""
    deadline_s = time.monotonic() + timeout_s
    log = bytearray()
    seen_bytes = 0
    try:
        while (piece := stream.chunk(deadline_s)) is not None:
            seen_bytes += len(piece[1])
            if len(log) < MAX_LOG_BYTES:
                log += piece[1][: MAX_LOG_BYTES - len(log)]
            if seen_bytes > MAX_OUTPUT_BYTES:
                return bytes(log), False
    except DeadlinePassed:
        return bytes(log), False
    return bytes(log), True
