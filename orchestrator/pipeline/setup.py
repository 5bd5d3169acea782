"""Brings everything together for the verbs: engine, images, plan, and running a plan to its report.

The one place that knows which adapter, driver and sandbox are behind the ports.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from orchestrator.core.files import require_writable
from orchestrator.core.places import (
    cache_root,
    fixtures_root,
    images_root,
    results_root,
)
from orchestrator.core.words import counted
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.gateway import CassetteUse
from orchestrator.model.outcome import Outcome
from orchestrator.model.plan import Plan, Trial
from orchestrator.pipeline.bench import Bench
from orchestrator.pipeline.boxes import boxes_of
from orchestrator.pipeline.curatedfiles import curated_texts
from orchestrator.pipeline.dispatched import Supervised, supervised_again
from orchestrator.pipeline.fits import check_fits
from orchestrator.pipeline.guards import Guards, examine_images, host_canary
from orchestrator.pipeline.imaging import (
    languages_of,
    shared_images,
    steering_of,
    write_lock,
)
from orchestrator.pipeline.live import (
    Approve,
    append_approval,
    approval_for,
    check_resumable,
    unwritten_of,
)
from orchestrator.pipeline.memory import adapter_of, check_available
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.plan import Chosen, build_plan, choose
from orchestrator.pipeline.planimages import PlanImages
from orchestrator.pipeline.ready import ready_for_images, ready_to_run
from orchestrator.pipeline.reviews import pinned_reviews, try_reviews
from orchestrator.pipeline.run import Run, TrialEnd, pending_of, recorded_plan
from orchestrator.pipeline.stopping import stoppable
from orchestrator.pipeline.traffic import gateway_of
from orchestrator.pipeline.watch import Watch
from orchestrator.protocols import ModelGateway, Sandbox
from orchestrator.sandbox.adapter import DockerSandbox, EngineClient
from orchestrator.sandbox.containers import EngineFault
from orchestrator.sandbox.engine import connect, describe, ensure_engine
from orchestrator.sandbox.identity import installation_id
from orchestrator.sandbox.images import ensure_loaded
from orchestrator.sandbox.layers import ImageSpec
from orchestrator.sandbox.reaper import objects_line, reap
from orchestrator.sandbox.runtimes import require_runtime
from orchestrator.sandbox.toolchain import LANGUAGES
from orchestrator.sources.closed import closed
from orchestrator.sources.loader import (
    LoadedTask,
    list_tasks,
    load_task,
)
from orchestrator.sources.revision import source_state
from orchestrator.trust.ask import SOCKET

Say = Callable[[str], None]
SHOWN_NAMES = 3


def make_images(say: Say, *, write_lock_file: bool) -> dict[str, str]:
    """Makes every image that is missing; returns their ids by name."""
    client = ensure_engine(say, allow_install=True)
    ready_for_images(client)
    tasks = [load_task(fixtures_root(), task_id) for task_id in list_tasks(fixtures_root())]
    shared = shared_images(client, LANGUAGES if write_lock_file else languages_of(tasks), say)
    wanted = shared.named()
    agents: list[tuple[LoadedTask, ImageSpec]] = []
    for task in tasks:
        specs = shared.of_task(task)
        for role, spec in zip(("agent", "verifier"), specs, strict=True):
            wanted[f"{task.card.id}-{role}"] = spec
        agents.append((task, specs[0]))
    for name, spec in wanted.items():
        ensure_loaded(client, name, spec, say)
    examine_images(client, agents, say)
    if write_lock_file:
        write_lock(shared)
    return {name: spec.image_id for name, spec in wanted.items()}


def make_plan(
    request: PlanRequest, say: Say, *, install: bool = False, offline: bool = False
) -> Plan:
    """Builds a plan and makes the images that it names.

    Args:
        request: what is asked for.
        say: progress lines.
        install: set an engine up if there is none.
        offline: use no engine and make no image; ids are computed.

    Raises:
        MemtrialError: anything that makes the plan impossible.
    """
    chosen = choose(request, fixtures=fixtures_root(), images=images_root())
    client = None if offline else ensure_engine(say, allow_install=install)
    if client is not None:
        require_runtime(client.info(), request.runtime)
        ready_for_images(client)
    images = PlanImages(client, say, official=request.phase == "official")
    plan = _planned(request, chosen, images, say)
    if client is not None:
        examine_images(client, images.made, say)
    return plan


def look_at_plan(request: PlanRequest, say: Say) -> tuple[Plan, tuple[str, ...]]:
    """Builds a plan from files alone: no engine is used, nothing is fetched.

    Returns:
        The plan, and what is missing for images whose ids it cannot know; with any, its digest is not the
        one that a real plan will have.

    Raises:
        MemtrialError: anything that makes the plan impossible.
    """
    chosen = choose(request, fixtures=fixtures_root(), images=images_root())
    images = PlanImages(None, say, official=request.phase == "official")
    with closed():
        plan = _planned(request, chosen, images, say)
    return plan, tuple(images.unknown)


def _planned(request: PlanRequest, chosen: Chosen, images: PlanImages, say: Say) -> Plan:
    source = source_state()
    if source.dirty:
        say(f"source is dirty: {_first(source.changed)}")
    return build_plan(
        request,
        fixtures=fixtures_root(),
        images=images_root(),
        image_pins=images.of_task,
        agent_pins=images.of_agent,
        source=source,
        chosen=chosen,
    )


def _first(names: tuple[str, ...]) -> str:
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


class _Benches:
    """Makes the bench of each trial: loads tasks once, picks the adapter of the condition."""

    def __init__(
        self,
        plan: Plan,
        sandbox: Sandbox,
        client: EngineClient,
        *,
        secret: str,
        gateway: ModelGateway | None,
        record: Path | None,
    ) -> None:
        self._record = record
        self._steering = {} if record is None else steering_of(plan)
        self._gateway = gateway
        fixtures = fixtures_root()
        self._plan = plan
        self._plan_sha256 = plan.digest_sha256()
        self._sandbox = sandbox
        self._counter = TokenCounter()
        self._tasks = {task.digests.id: load_task(fixtures, task.digests.id) for task in plan.tasks}
        self._guards = Guards(self._tasks, client, secret=secret)
        self._curated = curated_texts(plan, fixtures)
        self._reviews = pinned_reviews(plan)
        self._boxes = boxes_of(sandbox, client)
        if self._boxes is not None:
            self._boxes.ready(plan.conditions)

    def __call__(self, trial: Trial) -> Bench:
        """Returns the bench of a trial."""
        review = self._reviews.get((trial.condition_id, trial.task_id))
        return Bench(
            plan=self._plan,
            plan_sha256=self._plan_sha256,
            trial=trial,
            task=self._tasks[trial.task_id],
            adapter=adapter_of(
                self._plan.condition(trial.condition_id),
                self._curated.get(trial.task_id),
                self._counter,
                self._boxes.of(trial.key) if self._boxes else None,
                review=review,
            ),
            sandbox=self._sandbox,
            counter=self._counter,
            guard=self._guards.of(self._plan.pin_of(trial)),
            gateway=self._gateway,
            record=self._record,
            steering=self._steering.get(trial.task_id, ()),
            review=review,
        )


def benches(
    plan: Plan,
    sandbox: Sandbox,
    client: EngineClient,
    *,
    secret: str,
    gateway: ModelGateway | None = None,
    record: Path | None = None,
) -> Callable[[Trial], Bench]:
    """Returns what makes the bench of each trial of a plan.

    Args:
        plan: the plan.
        sandbox: where containers come from.
        client: the engine, for layers that the leak scan has not seen.
        secret: what the canaries of the run's trials are derived from.
        gateway: the door to models, for a plan that needs one.
        record: the folder that the gateway writes.
    """
    return _Benches(plan, sandbox, client, secret=secret, gateway=gateway, record=record)


def start_run(
    plan: Plan,
    *,
    watch: Watch,
    workers: int,
    cassette: CassetteUse | None = None,
    approval: bytes | None = None,
    supervised: Supervised | None = None,
) -> Path:
    """Runs a plan in a new folder and returns it; with a cassette, recorded answers instead of new ones.

    Args:
        plan: the plan.
        watch: shows the progress.
        workers: trials at a time; 0 chooses.
        cassette: a recording to play instead of asking any model.
        approval: the signed approval of a live run of phase local.
        supervised: the way to the supervisor, for a run of phase smoke or official.

    Raises:
        ApprovalRefused: a live plan, and the gate refused.
        Cancelled: a signal stopped it.
        MemtrialError: plan, files and machine do not fit; then no folder was made.
    """
    approve = None if cassette else _approve(plan, approval, supervised)
    client = connect()
    _check_plan_fits(plan, watch.say)
    require_writable(results_root(), "runs are written to it")
    workers = ready_to_run(client, plan, plan.trials, watch.say, workers=workers)
    sandbox = DockerSandbox(client, installation_id(cache_root()), runtime=plan.runtime)
    with stoppable(sandbox, watch) as stopper:
        run = Run.create(
            results_root(),
            plan,
            engine=describe(client),
            workers=workers,
            approve=approve,
            replayed=cassette is not None,
        )
        stopper.of(run)
        watch.say(
            f"run {run.folder.name}: {counted(len(plan.trials), 'trial')} with {counted(workers, 'worker')}"
        )
        _work(
            run, client, sandbox, watch, workers=workers, cassette=cassette, supervised=supervised
        )
    return run.folder


def _approve(plan: Plan, approval: bytes | None, supervised: Supervised | None) -> Approve | None:
    return approval_for(plan, approval) if supervised is None else supervised.approve


def resume_run(
    folder: Path,
    *,
    watch: Watch,
    workers: int,
    full: bool = False,
    supervisor: Path = SOCKET,
    sealing_keyid: str | None = None,
) -> None:
    """Takes a run up again where it stopped; `full` trusts no earlier checkpoint.

    Args:
        folder: of the run.
        watch: shows the progress.
        workers, full: trials at a time, 0 chooses; check every record and blob again.
        supervisor: its socket, for a run of phase smoke or official.
        sealing_keyid: of the ledger's key, which seals such a run.

    Raises:
        Cancelled: a signal stopped it again.
        MemtrialError: record, files and machine do not fit; then nothing was written.
    """
    plan = recorded_plan(folder)
    unwritten = check_resumable(plan, folder)
    client = connect()
    _check_plan_fits(plan, watch.say)
    left = pending_of(folder, plan)
    workers = ready_to_run(client, plan, left, watch.say, workers=workers)
    sandbox = DockerSandbox(client, installation_id(cache_root()), runtime=plan.runtime)
    with stoppable(sandbox, watch) as stopper:
        # Images and engine may have taken longer than the approval's window lasted.
        check_resumable(plan, folder)
        supervised = supervised_again(plan, folder, supervisor, sealing_keyid)
        if supervised is not None:
            unwritten = unwritten_of(folder, supervised.approve(folder.name).entry)
        append_approval(folder, unwritten)
        run = Run.resume(folder, full=full)
        stopper.of(run)
        watch.say(f"run {folder.name}: {len(run.pending())} of {len(run.plan.trials)} trials left")
        _work(run, client, sandbox, watch, workers=workers, supervised=supervised)


def _check_plan_fits(plan: Plan, say: Say) -> None:
    """Refuses a plan that is not what its own request gives here, before a folder is made; uses no engine."""
    curated_texts(plan, fixtures_root())
    try_reviews(plan, say)
    check_available(plan.conditions)
    check_fits(plan, lambda request: make_plan(request, say, offline=True), say)


def _work(
    run: Run,
    client: EngineClient,
    sandbox: DockerSandbox,
    watch: Watch,
    *,
    workers: int,
    cassette: CassetteUse | None = None,
    supervised: Supervised | None = None,
) -> None:
    installation = installation_id(cache_root())

    def show(end: TrialEnd) -> None:
        watch.say(
            f"[{end.done:>3}/{end.total}] {end.trial.key:<64} {_said(end)}, {end.wall_ms / 1000:.1f} s"
            + (f": {end.error}" if end.error else "")
        )

    try:
        reaped = reap(client, installation)
        if reaped.total:
            watch.say(f"cleaned up after a dead run: {objects_line(reaped)}")
        secret = host_canary(run.folder)
        tasks = tuple(load_task(fixtures_root(), task.digests.id) for task in run.plan.tasks)
        with gateway_of(run.plan, run.folder, tasks, cassette, supervised) as gateway:
            record = None if gateway is None else run.folder / "gateway"
            make_bench = benches(
                run.plan, sandbox, client, secret=secret, gateway=gateway, record=record
            )
            run.execute(make_bench, workers=workers, progress=show, watch=watch)
    finally:
        run.close()
        _sweep(client, installation, sandbox.session, watch.say)


def _sweep(client: EngineClient, installation: str, session: str, progress: Say) -> None:
    """Removes what the run could not: an engine that failed under it may be back by now."""
    try:
        reap(client, installation, session=session)
    except EngineFault as error:
        # The record is whole without this, and every later start tries again.
        progress(f"left in the engine for the next start or `memtrial clean`: {error.message}")


def _said(end: TrialEnd) -> str:
    """Returns how a trial ended, in a word or two."""
    if end.verdict is None:
        return end.outcome.value
    if end.verdict.resolved:
        return "resolved"
    how = f", {end.outcome.value}" if end.outcome is not Outcome.COMPLETED else ""
    return f"unresolved ({end.verdict.failure_reason}){how}"
