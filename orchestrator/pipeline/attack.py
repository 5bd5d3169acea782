"""Runs hostile agents through the real trial, one after another, and judges what came of each.

An attack is a trial like any other but for its agent: same containers, same harvest, same graders. Each is
recorded below a folder of its own. Reads nothing of the candidate's but what trials record.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from orchestrator.agents.cheater import CheaterDriver
from orchestrator.agents.registry import driver_for
from orchestrator.core.canonical import sha256_hex
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.attack import AttackCard, AttackRow, Goal
from orchestrator.model.outcome import Outcome
from orchestrator.model.plan import Plan, TaskPin, Trial
from orchestrator.model.record import Stage
from orchestrator.model.verdict import Harvest, Verdict
from orchestrator.pipeline.bench import Bench
from orchestrator.pipeline.run import Run, TrialEnd
from orchestrator.protocols import (
    ActOutcome,
    AgentDriver,
    HarvestOutcome,
    Launch,
    Sandbox,
    VerifyJob,
    VerifyOutcome,
    Workspace,
)
from orchestrator.sandbox.harden import SCRATCH_BYTES
from orchestrator.sources.attacks import LoadedAttack

MakeBench = Callable[[Plan, Sandbox, Path], Callable[[Trial], Bench]]
TARGET = "src/depotfeed/lines.py"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a trial of an attack left on record."""

    outcome: Outcome
    verdict: Verdict | None
    output: bytes
    harvest: Harvest | None
    diff: bytes
    act_ended_ns: int
    task: TaskPin
    error: str


class Watching:
    """A sandbox that notes when the agent's step was over; everything else is the sandbox's."""

    def __init__(self, inner: Sandbox) -> None:
        self._inner = inner
        self.act_ended_ns = 0

    @contextmanager
    def open(
        self, task: TaskPin, *, trial: str, sockets: Path | None = None
    ) -> Iterator[Workspace]:
        """Opens a workspace of the inner sandbox."""
        with self._inner.open(task, trial=trial, sockets=sockets) as workspace:
            yield cast("Workspace", _Watched(workspace, self))

    def verify(self, job: VerifyJob, *, trial: str) -> tuple[VerifyOutcome, int]:
        """Verifies in the inner sandbox."""
        return self._inner.verify(job, trial=trial)


class _Watched:
    def __init__(self, inner: Workspace, watching: Watching) -> None:
        self._inner = inner
        self._watching = watching

    def act(self, launch: Launch) -> ActOutcome:
        outcome = self._inner.act(launch)
        self._watching.act_ended_ns = time.monotonic_ns()
        return outcome

    def harvest(self) -> HarvestOutcome:
        return self._inner.harvest()

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class Arena:
    """Where attacks are run: a plan of one honest cell, the ports, and a folder for the records.

    Args:
        plan: a plan of one trial of the scripted noop agent; each attack takes its place.
        sandbox: where containers come from.
        make_bench: makes the bench of a trial of a plan.
        folder: an existing folder for the records.
    """

    def __init__(self, plan: Plan, sandbox: Sandbox, make_bench: MakeBench, folder: Path) -> None:
        self._plan = plan
        self._sandbox = sandbox
        self._make_bench = make_bench
        self._folder = folder

    def attack(self, attack: LoadedAttack) -> AttackRow:
        """Runs one attack, all its rounds, and judges the last."""
        seen = [self._round(attack, number + 1) for number in range(attack.card.rounds)][-1]
        succeeded = JUDGES[attack.card.goal](attack.card, seen)
        return AttackRow(
            id=attack.card.id,
            tried=attack.card.tried,
            stopped_by=attack.card.stopped_by,
            succeeded=succeeded,
            evidence=_evidence(seen),
        )

    def honest(self) -> bool:
        """Runs the oracle: an honest trial must come out right, whatever ran before it."""
        seen = self._play(
            "honest", self._plan_of("oracle", "", None), lambda _: driver_for("oracle")
        )
        return seen.verdict is not None and seen.verdict.resolved

    def _round(self, attack: LoadedAttack, number: int) -> Seen:
        plan = self._plan_of(f"cheater-{attack.card.id}", attack.program, attack.card.wall_s)

        def driver(bench: Bench) -> AgentDriver:
            return CheaterDriver(
                name=bench.trial.agent,
                program=attack.program,
                round=number,
                base_ids=tuple(test.id for test in bench.task.key.pass_to_pass),
                hidden_paths=tuple(file.path for file in bench.task.key.hidden_files),
                hidden_ids=tuple(test.id for test in bench.task.key.card.fail_to_pass),
            )

        return self._play(f"{attack.card.id}-{number}", plan, driver)

    def _plan_of(self, agent: str, program: str, wall_s: int | None) -> Plan:
        """Returns the plan with another agent in its one cell."""
        pin = self._plan.tasks[0]
        if wall_s is not None:
            limits = pin.limits.model_copy(update={"wall_s": wall_s})
            pin = pin.model_copy(update={"limits": limits})
        named = {"name": agent, "program_sha256": sha256_hex(program.encode())}
        return self._plan.model_copy(
            update={
                "tasks": (pin,),
                "agents": (self._plan.agents[0].model_copy(update=named),),
                "trials": (self._plan.trials[0].model_copy(update={"agent": agent}),),
                # A cheater that ends without a verdict is to be seen, not tried again.
                "retry": self._plan.retry.model_copy(update={"max_attempts": 1}),
            }
        )

    def _play(self, name: str, plan: Plan, driver: Callable[[Bench], AgentDriver]) -> Seen:
        folder = self._folder / name
        folder.mkdir()
        watching = Watching(self._sandbox)
        run = Run.create(folder, plan, engine="attack", workers=1)
        make = self._make_bench(plan, watching, run.folder)
        ends: list[TrialEnd] = []

        def bench_of(trial: Trial) -> Bench:
            bench = make(trial)
            return replace(bench, driver=driver(bench))

        try:
            run.execute(bench_of, workers=1, progress=ends.append)
        finally:
            run.close()
        return _read(run, plan, ends[0], watching.act_ended_ns)


def _read(run: Run, plan: Plan, end: TrialEnd, act_ended_ns: int) -> Seen:
    record = replay(read_entries(run.folder / "ledger.jsonl")[0]).trial(plan.trials[0].key)
    stages = record.attempts[-1].stages

    def artifact(stage: Stage, name: str) -> bytes:
        done = stages.get(stage)
        found = next((a for a in done.artifacts if a.name == name), None) if done else None
        return run.blobs.get(found.sha256) if found else b""

    harvested = stages.get(Stage.HARVEST)
    return Seen(
        outcome=end.outcome,
        verdict=end.verdict,
        output=artifact(Stage.ACT, "output"),
        harvest=Harvest.parse(run.blobs.get(harvested.document_sha256), where="harvest")
        if harvested
        else None,
        diff=artifact(Stage.HARVEST, "diff"),
        act_ended_ns=act_ended_ns,
        task=plan.tasks[0],
        error=end.error or "",
    )


def _resolved(_: AttackCard, seen: Seen) -> bool:
    return seen.verdict is not None and seen.verdict.resolved


def _hid_regression(_: AttackCard, seen: Seen) -> bool:
    verdict = seen.verdict
    if verdict is None or not (verdict.paths_ok and verdict.reports_ok):
        return False
    return verdict.pass_to_pass.passed == verdict.pass_to_pass.expected


def _looted(_: AttackCard, seen: Seen) -> bool:
    return re.search(rb"^LOOT ", seen.output, re.MULTILINE) is not None


def _outlived(_: AttackCard, seen: Seen) -> bool:
    written = [int(stamp) for stamp in re.findall(rb"^\+TICK (\d{1,20})", seen.diff, re.MULTILINE)]
    return bool(written) and max(written) > seen.act_ended_ns


def _exceeded(card: AttackCard, seen: Seen) -> bool:
    limits = seen.task.limits
    if card.bound == "output_bytes":
        return len(seen.output) > limits.output_bytes
    if card.bound == "diff_bytes":
        return len(seen.diff) > limits.diff_bytes
    got = [int(number) for number in re.findall(rb"^GOT (\d{1,20})", seen.output, re.MULTILINE)]
    # Home, /tmp and shared memory are sized by the profile, not by the task.
    bound = SCRATCH_BYTES if card.bound == "scratch_bytes" else getattr(limits, str(card.bound))
    return max(got, default=0) > bound


def _escaped_verdict(_: AttackCard, seen: Seen) -> bool:
    return seen.verdict is None


def _accepted(_: AttackCard, seen: Seen) -> bool:
    return seen.verdict is not None and seen.verdict.paths_ok


def _unseen(_: AttackCard, seen: Seen) -> bool:
    if seen.harvest is None or b"CHANGED" not in seen.output:
        return False
    return TARGET not in {change.path for change in seen.harvest.changes}


JUDGES: dict[Goal, Callable[[AttackCard, Seen], bool]] = {
    "accepted": _accepted,
    "escape_verdict": _escaped_verdict,
    "exceed": _exceeded,
    "hide_regression": _hid_regression,
    "loot": _looted,
    "outlive": _outlived,
    "resolve": _resolved,
    "unseen": _unseen,
}


def _evidence(seen: Seen) -> str:
    """Returns what is on record in one line: outcome, verdict, violations, and the end of the output."""
    parts = [seen.outcome.value]
    verdict = seen.verdict
    if verdict is not None:
        tallies = (verdict.fail_to_pass_capability, verdict.fail_to_pass_memory)
        passed, expected = sum(t.passed for t in tallies), sum(t.expected for t in tallies)
        base = verdict.pass_to_pass
        parts.append(f"F2P {passed}/{expected}, P2P {base.passed}/{base.expected}")
        parts.append("resolved" if verdict.resolved else f"unresolved ({verdict.failure_reason})")
        parts += sorted({violation.rule for violation in verdict.violations})
    if seen.error:
        parts.append(seen.error[:200])
    said = seen.output[-160:].decode("utf-8", "replace").split()
    return "; ".join(parts) + (f"; it said: {' '.join(said)[:160]}" if said else "")
