"""Records whole runs in seconds: the real pipeline and fixtures over a sandbox that plays the containers.

The play answers as real containers do for the shipped tasks: the reference patch passes every hidden
test, the natural one all but the memory tests, no patch none. What is recorded is what any run records.
"""

from __future__ import annotations

import hashlib
import json
import re
import runpy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from orchestrator.core.files import write_atomic
from orchestrator.core.gitdiff import read_changes
from orchestrator.core.keys import SigningKey
from orchestrator.core.places import fixtures_root, images_root
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.isolation import Inventory
from orchestrator.model.plan import ImagePin, Plan, TaskPin, Trial
from orchestrator.model.report import RunReport
from orchestrator.model.resources import Resources
from orchestrator.model.verdict import Change
from orchestrator.pipeline.bench import Bench
from orchestrator.pipeline.guards import host_canary
from orchestrator.pipeline.memory import adapter_of
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.plan import build_plan
from orchestrator.pipeline.reviews import pinned_reviews
from orchestrator.pipeline.run import Run
from orchestrator.pipeline.seal import Inputs, SealOutcome, Signer, ephemeral_signer, seal_run
from orchestrator.protocols import (
    ActOutcome,
    HarvestOutcome,
    Launch,
    MemoryAdapter,
    ModelGateway,
    VerifyJob,
    VerifyOutcome,
)
from orchestrator.report.build import build_report
from orchestrator.report.terminal import render_report
from orchestrator.sandbox.leaks.literals import oracle_literals
from orchestrator.sources.loader import LoadedTask, load_curated, load_task
from tests.fakes.sandbox import clean_inventory, guard_over

EIGHT = PlanRequest(
    agents=("oracle", "follower"),
    tasks=("depotfeed-returns", "humanize-transfer-eta"),
    conditions=("no_memory", "curated_file_budgeted"),
)
MANY = PlanRequest(agents=("oracle", "follower"), epochs=8)
TINY = PlanRequest(
    agents=("follower",), tasks=("depotfeed-returns",), conditions=("curated_file_budgeted",)
)


def image(name: str) -> ImagePin:
    digest = "sha256:" + hashlib.sha256(name.encode()).hexdigest()
    return ImagePin(id=digest, diff_ids=(digest,))


def knows(prompt: str, fact: dict[str, Any]) -> bool:
    """The follower's own rule: case and white space are folded, then one alternative stands in the prompt."""
    known: bool = runpy.run_path(str(images_root() / "agent" / "scripted.py"))["knows"](
        prompt, fact
    )
    return known


def make_plan(request: PlanRequest) -> Plan:
    def pins(task: LoadedTask) -> tuple[ImagePin, ImagePin]:
        return image(f"{task.card.id} agent"), image(f"{task.card.id} verifier")

    return build_plan(
        request, fixtures=fixtures_root(), images=images_root(), image_pins=pins
    ).model_copy(update={"source_revision": "test:recorded", "source_dirty": False})


Fault = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Play:
    """What is out of the ordinary in a trial: what its agent says, and what its container holds."""

    says: bytes = b""
    stock: Callable[[Inventory], Inventory] = lambda inventory: inventory


AS_ALWAYS = Play()


class PlayedWorkspace:
    contents: tuple[tuple[str, bytes], ...] = ()
    exposed = b"{}"
    gateway_url: str | None = None
    runtime = "runc"

    def __init__(self, task: TaskPin, fault: Fault, play: Play = AS_ALWAYS) -> None:
        self._fault = fault
        self._play = play
        self.inventory = play.stock(clean_inventory(task, gateway=self.gateway_url is not None))
        self._tree = task.tree
        self._patch = ""

    def listing(self) -> tuple[str, ...]:
        return ()

    def resources(self) -> Resources | None:
        return None

    def act(self, launch: Launch) -> ActOutcome:
        self._fault("act")
        play = json.loads(launch.stdin)
        if play["play"] == "oracle":
            self._patch = play["reference_patch"]
        elif play["play"] == "follower":
            known = all(knows(play["prompt"], fact) for fact in play["facts"])
            self._patch = play["reference_patch"] if known else play["natural_patch"]
        output = b"played\n" * 200 + self._play.says
        return ActOutcome("exited", 0, output, output_truncated=False)

    def harvest(self) -> HarvestOutcome:
        self._fault("harvest")
        diff = self._patch.encode()
        changes = tuple(
            Change(
                path=change.path,
                status=change.status,
                old_mode=change.old_mode,
                new_mode=change.new_mode,
                blob=change.blob,
                bytes=len(diff),
                link_target=change.link_target,
            )
            for change in read_changes(diff)
        )
        tree = hashlib.sha1(self._tree.encode() + diff).hexdigest() if diff else self._tree
        return HarvestOutcome(tree, diff, diff_truncated=False, changes=changes, left_out=())

    def container_ms(self) -> int:
        return 1


class PlayedSandbox:
    """Plays the containers; `faults` are raised in turn at `trial key, step`, each once; `plays` by trial."""

    def __init__(
        self,
        faults: dict[tuple[str, str], list[Exception]] | None = None,
        plays: Mapping[str, Play] | None = None,
    ) -> None:
        self._faults = faults or {}
        self._plays = plays or {}
        self._tasks = {name: load_task(fixtures_root(), name) for name in _task_names()}

    @contextmanager
    def open(
        self, task: TaskPin, *, trial: str, sockets: Path | None = None
    ) -> Iterator[PlayedWorkspace]:
        def fault(step: str) -> None:
            waiting = self._faults.get((trial, step))
            if waiting:
                raise waiting.pop(0)

        yield PlayedWorkspace(task, fault, self._plays.get(trial, AS_ALWAYS))

    def verify(self, job: VerifyJob, *, trial: str) -> tuple[VerifyOutcome, int]:
        task = self._tasks[job.task.digests.id]
        if job.phase == "pass_to_pass":
            tests = [(test.id, True) for test in task.key.pass_to_pass for _ in range(test.n)]
        else:
            good = job.diff.decode() == task.rehearsal.reference_patch
            half = job.diff.decode() == task.rehearsal.natural_patch
            tests = [
                (test.id, good or (half and test.group == "capability"))
                for test in task.key.card.fail_to_pass
            ]
            apart = set(task.key.apart)
            tests += [
                (test.id, True)
                for test in task.key.pass_to_pass
                if test.id in apart
                for _ in range(test.n)
            ]
        return VerifyOutcome(
            compiled=True,
            compile_error=None,
            timed_out=False,
            exit_code=1,
            report=junit([*drawn(job), *tests]),
            log=b"played\n",
        ), 1


def drawn(job: VerifyJob) -> list[tuple[str, bool]]:
    """What the drawn tests of a verification come to: they hold one plain assertion each."""
    found = []
    for path, text in job.seal_files:
        module = path.removesuffix(".py").replace("/", ".")
        for name, number, wanted in re.findall(
            r"def (\w+)\(\):\n    assert (\d+) % 7 == (\d)", text
        ):
            found.append((f"{module}::{name}", int(number) % 7 == int(wanted)))
    return found


def _task_names() -> list[str]:
    return [path.name for path in (fixtures_root() / "tasks").iterdir() if path.is_dir()]


def junit(tests: list[tuple[str, bool]]) -> bytes:
    cases = []
    for name, passed in tests:
        classname, _, function = name.partition("::")
        inner = "" if passed else '<failure message="m">x</failure>'
        cases.append(
            f'<testcase classname={quoteattr(classname)} name={quoteattr(function)} time="0.01">{inner}</testcase>'
        )
    failed = sum(not passed for _, passed in tests)
    head = f'<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" errors="0" failures="{failed}" skipped="0" tests="{len(tests)}">'
    return (head + "".join(cases) + "</testsuite></testsuites>").encode()


def benches(
    plan: Plan,
    sandbox: PlayedSandbox,
    gateway: ModelGateway | None = None,
    adapters: Mapping[str, Callable[[], MemoryAdapter]] | None = None,
    record: Path | None = None,
    secret: str = "test",
) -> Callable[[Trial], Bench]:
    """Returns what makes the bench of each trial over played containers; `secret` is behind its canary."""
    tasks = {name: load_task(fixtures_root(), name) for name in _task_names()}
    curated = {p.task_id: load_curated(fixtures_root(), p.task_id).text for p in plan.curated}
    counter = TokenCounter()
    guards = {
        name: guard_over(oracle_literals(task.key, task.rehearsal), secret=secret)
        for name, task in tasks.items()
    }

    reviews = pinned_reviews(plan)

    def bench(trial: Trial) -> Bench:
        review = reviews.get((trial.condition_id, trial.task_id))
        return Bench(
            plan=plan,
            plan_sha256=plan.digest_sha256(),
            trial=trial,
            task=tasks[trial.task_id],
            adapter=(adapters or {}).get(trial.condition_id)
            or adapter_of(
                plan.condition(trial.condition_id),
                curated.get(trial.task_id),
                counter,
                review=review,
            ),
            sandbox=sandbox,
            counter=counter,
            guard=guards[trial.task_id],
            gateway=gateway,
            record=record,
            review=review,
        )

    return bench


def record_run(
    results: Path,
    request: PlanRequest,
    sandbox: PlayedSandbox | None = None,
    adapters: Mapping[str, Callable[[], MemoryAdapter]] | None = None,
) -> Path:
    """Runs a plan to its report and returns its folder, unsealed; `adapters` take the place of arms' own."""
    plan = make_plan(request)
    run = Run.create(results, plan, engine="played", workers=1)
    secret = host_canary(run.folder)
    make = benches(plan, sandbox or PlayedSandbox(), adapters=adapters, secret=secret)
    run.execute(make, workers=1, progress=lambda _: None)
    run.close()
    write_reports(run.folder)
    return run.folder


def write_reports(folder: Path) -> RunReport:
    report = build_report(folder)
    write_atomic(folder / "report.json", report.canonical() + b"\n")
    write_atomic(folder / "report.txt", render_report(report).encode())
    return report


def inputs() -> Inputs:
    lock = images_root() / "lock.json"
    return Inputs(fixtures_root(), images_root(), lock.read_bytes().rstrip(b"\n"))


def seal(folder: Path, signer: Signer | None = None) -> SealOutcome:
    """Seals with a key made for it; over an operator's seal, as another operator."""
    if signer is None and (folder / "bundle.json").is_file():
        signer = Signer(SigningKey.generate(), "operator")
    return seal_run(folder, signer or ephemeral_signer(), inputs())


def files_of(folder: Path) -> dict[str, bytes]:
    """Returns every file of a folder by its name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
