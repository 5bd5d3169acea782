"""Plays a patch against a task as a trial would: applied in an agent's container, judged in fresh ones.

The suite's commands, the containers and the reading of reports are those of real trials, so what a check
proves holds for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from orchestrator.core.errors import IntegrityError
from orchestrator.model.plan import TaskPin
from orchestrator.model.task import Limits, PassToPass
from orchestrator.model.verdict import Harvest, Tally, TestReport
from orchestrator.protocols import Launch, Sandbox
from orchestrator.scoring.runners import exam_for, job_for, normalise
from orchestrator.scoring.seal import Phase, draw_seal
from orchestrator.scoring.verdict import tally, tally_base
from orchestrator.sources.loader import LoadedTask

APPLY = "git apply --whitespace=nowarn -"
PHASES: tuple[Phase, ...] = ("pass_to_pass", "fail_to_pass")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a patch came to: both reports, what changed, and the container time of the slower run."""

    base: TestReport
    hidden: TestReport
    harvest: Harvest
    container_ms: int

    def statuses(self) -> Mapping[str, str]:
        """Returns every test's status by phase and id."""
        return {
            f"{report.phase} {test.id}": f"{test.status} x{test.n}"
            for report in (self.base, self.hidden)
            for test in report.tests
        }


@dataclass(frozen=True, slots=True)
class Stage:
    """A task with its images, in a sandbox; with `any_id` reports may name tests that are not pinned."""

    sandbox: Sandbox
    task: LoadedTask
    pin: TaskPin
    any_id: bool = False

    def play(self, patch: str, *, limits: Limits | None = None) -> Outcome:
        """Applies a patch (an empty one changes nothing) and runs both phases.

        Raises:
            IntegrityError: the patch does not apply.
        """
        pin = self.pin if limits is None else self.pin.model_copy(update={"limits": limits})
        harvest, diff = self._apply(pin, patch)
        with ThreadPoolExecutor(max_workers=2, thread_name_prefix="rehearse") as pool:
            jobs = [pool.submit(self._verify, pin, phase, harvest, diff) for phase in PHASES]
            (base, base_ms), (hidden, hidden_ms) = [job.result() for job in jobs]
        return Outcome(base, hidden, harvest, max(base_ms, hidden_ms))

    def _apply(self, pin: TaskPin, patch: str) -> tuple[Harvest, bytes]:
        command = APPLY if patch else "true"
        with self.sandbox.open(pin, trial=f"validate/{self.task.card.id}") as workspace:
            acted = workspace.act(
                Launch(argv=("sh", "-c", command), environment=(), stdin=patch.encode())
            )
            found = workspace.harvest()
        if acted.exit_code != 0:
            raise IntegrityError(
                "patch-does-not-apply",
                f"task {self.task.card.id}: expected the patch to apply, found exit {acted.exit_code}: {acted.output[-300:].decode('utf-8', 'replace')}",
                hint="make the patch again against the pinned tree",
            )
        harvest = Harvest(
            pinned_tree=pin.tree,
            tree=found.tree,
            diff_sha256="0" * 64,
            diff_bytes=len(found.diff),
            diff_truncated=found.diff_truncated,
            changes=found.changes,
            left_out=found.left_out,
        )
        return harvest, found.diff

    def _verify(
        self, pin: TaskPin, phase: Phase, harvest: Harvest, diff: bytes
    ) -> tuple[TestReport, int]:
        runner = self.task.card.runner
        exam = exam_for(runner, self.task.key, draw_seal(phase))
        if self.any_id:
            argv = (*exam.tests.argv, "--tb=no") if exam.kind == "pytest" else exam.tests.argv
            tests = replace(exam.tests, argv=argv)
            exam = replace(exam, reportable=None, tests=tests)
        job = job_for(exam, pin, runner, expect_tree=harvest.tree, diff=diff)
        outcome, container_ms = self.sandbox.verify(job, trial=f"validate/{self.task.card.id}")
        return normalise(outcome, exam), container_ms

    def tallies(self, outcome: Outcome) -> tuple[Tally, Tally, Tally]:
        """Returns (capability, memory, base suite) of an outcome."""
        card = self.task.key.card
        groups = [
            tally(
                tuple(PassToPass(id=t.id) for t in card.fail_to_pass if t.group == group),
                outcome.hidden,
            )
            for group in ("capability", "memory")
        ]
        return groups[0], groups[1], tally_base(self.task.key, outcome.base, outcome.hidden)
