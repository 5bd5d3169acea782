"""The stages of a trial. Each gets what it may see: memory the History, the agent the prompt, graders the Key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from orchestrator.agents.channels import delivered
from orchestrator.agents.own_usage import own_usage
from orchestrator.agents.registry import driver_of
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError, Misconduct
from orchestrator.memory.compile import final_prompt, injection_of, shown_text
from orchestrator.memory.life import live, sessions_sha256
from orchestrator.model.isolation import Isolation, Screening
from orchestrator.model.memory import Injection, Remembered
from orchestrator.model.record import Prepared, Sealed, Stage
from orchestrator.model.verdict import Acted, Harvest, TestReport, Verdict, Violation
from orchestrator.pipeline import isolation
from orchestrator.pipeline.bench import Bench
from orchestrator.pipeline.breaches import (
    check_traffic,
    ended_by_bounds,
    require_model,
    require_shown,
)
from orchestrator.pipeline.condemned import condemned
from orchestrator.pipeline.doors import agent_access, memory_access, memory_tools
from orchestrator.pipeline.exposure import (
    keep_metrics,
    keep_transcript,
    look_at_calls,
)
from orchestrator.pipeline.gold import gold_for
from orchestrator.pipeline.journal import Journal
from orchestrator.pipeline.memory import memory_assignment
from orchestrator.pipeline.parity import limits_of, query_of, question_sha256
from orchestrator.pipeline.toolserver import ToolDoor
from orchestrator.pipeline.tracing import keep_trace
from orchestrator.protocols import (
    Launch,
    TrialPlace,
    Workspace,
)
from orchestrator.scoring.believed import read_outcome
from orchestrator.scoring.runners import Exam, exam_for, job_for
from orchestrator.scoring.seal import Phase, draw_seal
from orchestrator.scoring.verdict import grade as grade_reports


def prepare(bench: Bench, journal: Journal, containers: ExitStack) -> Prepared:
    """Starts the containers of the trial."""
    if bench.task.digests != bench.pin.digests:
        raise IntegrityError(
            "task-changed",
            f"task {bench.trial.task_id}: expected the digests of the plan, found other files",
            hint="restore the fixtures, or make a new plan with `memtrial plan`",
        )
    sockets = open_gateway(bench, journal, containers)
    if sockets is not None and bench.condition.gives_tools:
        bench.tools = ToolDoor(sockets)
        containers.callback(bench.tools.close)
    bench.workspace = containers.enter_context(
        bench.sandbox.open(bench.pin, trial=bench.trial.key, sockets=sockets)
    )
    journal.spent(bench.workspace.container_ms())
    return Prepared(
        task_id=bench.trial.task_id,
        agent_image=bench.pin.agent_image.id,
        verifier_image=bench.pin.verifier_image.id,
        tree=bench.pin.tree,
        profile_sha256=bench.plan.profile_sha256,
        runtime=bench.workspace.runtime,
    )


def open_gateway(bench: Bench, journal: Journal, containers: ExitStack) -> Path | None:
    """Opens the gateway for this attempt, if the plan has one; returns the folder of its socket."""
    if bench.gateway is None:
        return None
    trial = bench.trial
    place = TrialPlace(
        trial=trial.key,
        task_id=trial.task_id,
        condition=trial.condition_id,
        attempt=journal.attempt,
        roles=("agent", "memory", "judge"),
    )
    bench.gateway_place = bench.gateway.open_trial(place)
    containers.callback(close_gateway, bench, None)
    return bench.gateway_place.folder


def close_gateway(bench: Bench, journal: Journal | None) -> None:
    """Closes the gateway for this attempt, once, and keeps what went through."""
    if bench.gateway is None or bench.gateway_place is None:
        return
    bench.gateway_place = None
    bench.traffic = bench.gateway.close_trial(bench.trial.key)
    if journal is not None:
        journal.keep("traffic", bench.traffic.canonical())


def remember(bench: Bench, journal: Journal) -> Remembered:
    """Drives the memory system from raw history to a compiled context. It never sees the Key.

    Raises:
        IntegrityError: it would be told or asked something else than the plan pins for every arm.
    """
    condition, task = bench.condition, bench.task
    parity = bench.plan.parity.task(task.card.id)
    query = query_of(task.brief, condition.retrieve_k, files=bench.plan.parity.files_in_scope)
    place = bench.gateway_place
    with memory_assignment(
        condition,
        task.history,
        query,
        order_seed=bench.plan.order_seed,
        epoch=bench.trial.epoch,
        gold=gold_for(condition, task.key),
        review=bench.review,
        gateway=memory_access(bench),
        socket=place.folder if place else None,
        limits=limits_of(bench.plan.parity),
    ) as assignment:
        asked = question_sha256(query)
        told = sessions_sha256(assignment.sessions)
        if (told, asked) != (parity.sessions_sha256, parity.query_sha256):
            raise IntegrityError(
                "memory-not-in-parity",
                f"task {task.card.id}: expected the sessions and the query that the plan pins for all arms, found others",
                hint="restore the fixtures, or make a new plan with `memtrial plan`",
            )
        return live(
            bench.adapter(), assignment, bench.counter, keep=journal.keep, note=journal.note
        )


def inject(bench: Bench, remembered: Remembered) -> Injection:
    """Returns what memory puts before the agent, by the channel that the arm declares."""
    return injection_of(remembered.context, bench.condition, bench.task.brief.prompt, bench.counter)


def launch_of(bench: Bench, injection: Injection) -> Launch:
    """Returns what the agent is given: prompt, memory by its arm's channel, and the trial's own canary."""
    driver = bench.driver or driver_of(bench.plan.agent(bench.trial.agent))
    prompt = final_prompt(injection, bench.task.brief.prompt)
    launch = driver.launch(prompt, bench.task.rehearsal, agent_access(bench))
    launch = delivered(bench.trial.agent, launch, injection.channel, shown_text(injection))
    return isolation.marked(launch, bench.guard.canary(bench.trial.key))


def isolate(bench: Bench, journal: Journal, injection: Injection) -> Isolation:
    """Proves that the container holds what its arm declares, and nothing that the agent must not see."""
    workspace = _open(bench)
    before_ms = workspace.container_ms()
    proof = isolation.isolate(
        guard=bench.guard,
        trial=bench.trial.key,
        task=bench.pin,
        condition=bench.condition,
        workspace=workspace,
        launch=launch_of(bench, injection),
        keep=journal.keep,
    )
    journal.spent(workspace.container_ms() - before_ms)
    return proof


def act(bench: Bench, journal: Journal, injection: Injection) -> Acted:
    """Runs the agent with the joined prompt."""
    workspace = _open(bench)
    before_ms = workspace.container_ms()
    with memory_tools(bench, journal):
        outcome = workspace.act(launch_of(bench, injection))
    journal.spent(workspace.container_ms() - before_ms)
    journal.used(workspace.resources())
    close_gateway(bench, journal)
    look_at_calls(bench, journal, injection, outcome.output)
    keep_transcript(bench, journal, outcome)
    return Acted(
        agent=bench.trial.agent,
        ended=ended_by_bounds(outcome.ended, bench.traffic, bench.tool_log),
        exit_code=outcome.exit_code,
        output_sha256=journal.keep("output", outcome.output),
        output_bytes=len(outcome.output),
        output_truncated=outcome.output_truncated,
        own_usage=own_usage(outcome.output) if bench.plan.gateway else None,
    )


def harvest(bench: Bench, journal: Journal) -> Harvest:
    """Takes the diff out, after nothing of the agent is alive."""
    check_traffic(bench.traffic)
    require_model(bench.calls)
    require_shown(bench.proof)
    workspace = _open(bench)
    before_ms = workspace.container_ms()
    outcome = workspace.harvest()
    journal.spent(workspace.container_ms() - before_ms)
    journal.used(workspace.resources())
    return Harvest(
        pinned_tree=bench.pin.tree,
        tree=outcome.tree,
        diff_sha256=journal.keep("diff", outcome.diff),
        diff_bytes=len(outcome.diff),
        changes=outcome.changes,
        left_out=outcome.left_out,
        diff_truncated=outcome.diff_truncated,
    )


def screen(bench: Bench, journal: Journal, injection: Injection, harvested: Harvest) -> Screening:
    """Searches transcript, diff and names for what the agent had no honest way to."""
    return isolation.screen(
        guard=bench.guard,
        trial=bench.trial.key,
        launch=launch_of(bench, injection),
        output=journal.artifact(Stage.ACT, "output"),
        diff=journal.artifact(Stage.HARVEST, "diff"),
        harvest=harvested.canonical(),
    )


def grade(
    bench: Bench, journal: Journal, injection: Injection, acted: Acted, harvested: Harvest
) -> Verdict:
    """Runs the suite twice in fresh containers and judges: P2P without hidden tests, F2P with them."""
    diff = journal.artifact(Stage.HARVEST, "diff")
    phases: tuple[Phase, ...] = ("pass_to_pass", "fail_to_pass")
    exams = [exam_for(bench.task.card.runner, bench.task.key, draw_seal(phase)) for phase in phases]
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="verify") as pool:
        jobs = [pool.submit(_verify, bench, exam, harvested, diff) for exam in exams]
        results = [job.result() for job in jobs]
    for exam, (report, raw, log, _) in zip(exams, results, strict=True):
        name = exam.phase.replace("_", "-")
        journal.keep(f"{name}-seal", exam.seal.canonical())
        journal.keep(f"{name}-report", raw)
        journal.keep(f"{name}-log", log)
        journal.keep(f"{name}-tests", report.canonical())
    journal.spent(max(container_ms for _, _, _, container_ms in results))
    views = (bench.task.history, bench.task.key)
    keep_trace(bench.trial.key, bench.condition, views, journal, injection)
    keep_metrics(bench, journal, injection, diff)
    return grade_reports(
        trial=bench.trial,
        key=bench.task.key,
        brief=bench.task.brief,
        acted=acted,
        harvest=harvested,
        injection=injection,
        diff=diff,
        pass_to_pass=results[0][0],
        fail_to_pass=results[1][0],
        diagnostic=bench.plan.diagnostic,
    )


def condemn(bench: Bench, journal: Journal, seen: Misconduct) -> Verdict:
    """The verdict of a trial whose agent did what no agent may: failed, its tests were not run.

    Raises:
        IntegrityError: no agent can have acted yet, so the harness is at fault.
    """
    injection = journal.recorded(Stage.INJECT, Injection)
    if injection is None:
        raise IntegrityError(
            "misconduct-before-act",
            f"expected misconduct after the agent began, found it before: {seen.message}",
            hint="report this as a bug",
        ) from seen
    harvested = journal.recorded(Stage.HARVEST, Harvest)
    journal.keep("misconduct", "".join(f"{line}\n" for line in seen.evidence).encode())
    views = (bench.task.history, bench.task.key)
    keep_trace(bench.trial.key, bench.condition, views, journal, injection)
    return condemned(
        trial=bench.trial,
        key=bench.task.key,
        tree=harvested.tree if harvested else bench.pin.tree,
        diff_sha256=harvested.diff_sha256 if harvested else sha256_hex(b""),
        injection=injection,
        violation=Violation(rule="misconduct", subject=seen.reference, detail=seen.message),
        diagnostic=bench.plan.diagnostic,
    )


def _verify(
    bench: Bench, exam: Exam, harvested: Harvest, diff: bytes
) -> tuple[TestReport, bytes, bytes, int]:
    if harvested.diff_truncated:
        return _not_run(exam, "the diff is larger than its limit"), b"", b"", 0
    runner = bench.task.card.runner
    job = job_for(exam, bench.pin, runner, expect_tree=harvested.tree, diff=diff)
    outcome, container_ms = bench.sandbox.verify(job, trial=bench.trial.key)
    report, raw = read_outcome(outcome, exam)
    return report, raw, outcome.log, container_ms


def _not_run(exam: Exam, why: str) -> TestReport:
    return TestReport(
        runner=exam.kind,
        phase=exam.phase,
        compiled=False,
        compile_error=why,
        timed_out=False,
        exit_code=None,
        tests=(),
    )


def seal(bench: Bench, journal: Journal, verdict: Verdict) -> Sealed:
    """Binds the documents of the trial to one another and to the plan."""
    return Sealed(
        trial=journal.trial,
        plan_sha256=bench.plan_sha256,
        prepared_sha256=journal.document_sha256(Stage.PREPARE),
        remembered_sha256=journal.document_sha256(Stage.REMEMBER),
        injection_sha256=journal.document_sha256(Stage.INJECT),
        isolation_sha256=journal.document_sha256(Stage.ISOLATE),
        acted_sha256=journal.document_sha256(Stage.ACT),
        harvest_sha256=journal.document_sha256(Stage.HARVEST),
        screening_sha256=journal.document_sha256(Stage.SCREEN),
        verdict_sha256=verdict.digest_sha256(),
    )


def _open(bench: Bench) -> Workspace:
    if bench.workspace is None:
        raise IntegrityError(
            "workspace-not-open", "the agent's containers are gone", hint="run `memtrial resume`"
        )
    return bench.workspace
