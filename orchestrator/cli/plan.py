"""Fixes what will run: tasks x conditions x agents x epochs, with the digest of everything they use.

The same request over the same files gives the same bytes. --dry-run checks the whole matrix without an
engine, fetches nothing and writes no plan; where packages are missing it says which images it cannot know.
"""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrator.cli import render
from orchestrator.cli.arguments import one_of
from orchestrator.cli.live import Progress
from orchestrator.cli.plan_caps import add_caps, caps_from
from orchestrator.cli.plan_live import add_live, live_from
from orchestrator.core.errors import UsageError
from orchestrator.core.words import counted
from orchestrator.pipeline.options import PlanRequest

if TYPE_CHECKING:
    from orchestrator.model.agents import CommandAgent
    from orchestrator.model.plan import Plan

# The pattern of model.base.Slug, which `--help` must not load.
NAMESPACE = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
# Namespace and task set of each phase where none are named: what its approval can name (model/approval.py).
USUAL: dict[str, tuple[str, Literal["smoke", "full"]]] = {
    "local": ("default", "smoke"),
    "smoke": ("smoke-1", "smoke"),
    "official": ("official-v1", "full"),
}
# The pattern of model.base.RuntimeName, for the same reason.
RUNTIME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    _add_what(parser)
    _add_who(parser)
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where the plan goes; its folder must be there"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="validate the matrix offline: fetch nothing and write no plan",
    )


def _add_what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--suite", type=one_of("coding-v1"), default="coding-v1", help="only coding-v1 so far"
    )
    parser.add_argument(
        "--phase",
        type=one_of("local", "smoke", "official"),
        default="local",
        metavar="PHASE",
        help="local (default); smoke and official are for paid runs with signed approval",
    )
    parser.add_argument(
        "--namespace",
        metavar="NAME",
        help="keeps runs of different purposes apart: small letters, digits, '.', '_', '-' (default: default; in phase smoke smoke-1, and always smoke-NAME; official-v1 in phase official)",
    )
    parser.add_argument(
        "--task-set",
        type=one_of("smoke", "full"),
        metavar="SET",
        help="smoke: the tasks marked as quick; full: every task of the fixtures, the default in phase official and its only one (default: smoke)",
    )
    parser.add_argument(
        "--matrix",
        type=one_of("primary", "implemented", "all"),
        default="implemented",
        metavar="M",
        help="which conditions: primary: those that a claim may rest on; implemented (default): every one that can run; all: the whole registry",
    )
    parser.add_argument(
        "--condition",
        action="append",
        default=[],
        metavar="ID",
        help="only this condition, whatever --matrix says (repeatable)",
    )
    parser.add_argument(
        "--task",
        action="append",
        default=[],
        metavar="ID",
        help="only this task, whatever --task-set says (repeatable)",
    )


def _add_who(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--epochs", type=int, default=1, metavar="N", help="repetitions of each cell"
    )
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="NAME",
        help="oracle, noop, follower, chat, mini-swe-agent, claude-code or codex (repeatable)",
    )
    parser.add_argument(
        "--agent-file",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="an agent that a small file describes (repeatable; docs/how-to/add-an-agent.md)",
    )
    parser.add_argument(
        "--model", metavar="ID", help="a real model, for agents that ask one; makes the plan live"
    )
    parser.add_argument("--reasoning-effort", metavar="E", help="of the real model")
    add_live(parser)
    add_caps(parser)
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the trial order (part of the plan)",
    )
    parser.add_argument(
        "--runtime",
        metavar="NAME",
        help="the engine's container runtime for all containers, such as runsc (part of the plan); by default the engine's own; `memtrial doctor` lists them",
    )


def request_from(arguments: argparse.Namespace) -> PlanRequest:
    """Turns the options into a request, checked as far as no file is needed for it."""
    from orchestrator.agents.registry import driver_for
    from orchestrator.core.strictjson import MAX_SAFE_INTEGER

    if not arguments.agent and not arguments.agent_file:
        raise UsageError(
            "agent-not-given",
            "expected at least one --agent, found none",
            hint="add --agent oracle, --agent noop, --agent follower, --agent chat or a packaged agent such as --agent codex",
        )
    for name in arguments.agent:
        driver_for(name)
    if not 1 <= arguments.epochs <= 1000:
        raise UsageError(
            "epochs-out-of-range",
            f"expected --epochs between 1 and 1000, found {arguments.epochs}",
            hint="choose a number of epochs in that range",
        )
    if not 0 <= arguments.seed <= MAX_SAFE_INTEGER:
        raise UsageError(
            "seed-out-of-range",
            f"expected --seed between 0 and {MAX_SAFE_INTEGER}, found {arguments.seed}",
            hint="choose another seed",
        )
    _check_runtime(arguments.runtime)
    return PlanRequest(
        agents=tuple(arguments.agent),
        suite=arguments.suite,
        phase=arguments.phase,
        namespace=_namespace(arguments),
        task_set=arguments.task_set or USUAL[arguments.phase][1],
        matrix=arguments.matrix,
        conditions=tuple(arguments.condition),
        tasks=tuple(arguments.task),
        epochs=arguments.epochs,
        order_seed=arguments.seed,
        model=arguments.model,
        reasoning_effort=arguments.reasoning_effort,
        runtime=arguments.runtime,
        caps=caps_from(arguments.cap),
        live=live_from(arguments),
        commands=tuple(described(path) for path in arguments.agent_file),
    )


def _namespace(arguments: argparse.Namespace) -> str:
    usual = USUAL[arguments.phase][0]
    namespace: str = usual if arguments.namespace is None else arguments.namespace
    if not NAMESPACE.fullmatch(namespace):
        raise UsageError(
            "namespace-invalid",
            f"expected --namespace of at most 80 small letters, digits, '.', '_' and '-', found {namespace[:100]!r}",
            hint="choose a name like smoke or team-a",
        )
    return namespace


def described(path: Path) -> CommandAgent:
    """Reads the file of a described agent.

    Raises:
        UsageError: there is no such file.
        DocumentError: it is not a description.
    """
    from orchestrator.model.agents import CommandAgent

    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            "agent-file-missing",
            f"expected the file of a described agent, found {error.strerror or error}: {path}",
            hint="read docs/how-to/add-an-agent.md",
        ) from error
    return CommandAgent.parse(data, where=path.name)


def _check_runtime(runtime: str | None) -> None:
    if runtime is not None and not RUNTIME.fullmatch(runtime):
        raise UsageError(
            "runtime-invalid",
            f"expected --runtime with the engine's name of a runtime (at most 80 letters, digits, '.', '_' and '-'), found {runtime[:100]!r}",
            hint="see `memtrial doctor` for the engine's runtimes",
        )


def check_out(out: Path) -> None:
    """Refuses a name that the plan could not be written to, before anything is made.

    Raises:
        UsageError: a folder, a device, or a name in a folder that is not there.
        EnvironmentMissing: its folder takes no file.
    """
    from orchestrator.core.files import require_writable

    if out.is_dir():
        raise UsageError(
            "out-is-folder",
            f"expected --out to name a file, found a folder: {out}",
            hint=f"add a name: --out {shlex.quote(str(out / 'plan.json'))}",
        )
    if out.exists() and not out.is_file():
        raise UsageError(
            "out-not-a-file",
            f"expected --out to name a file, found something else: {out}",
            hint="choose another name",
        )
    if not out.parent.is_dir():
        raise UsageError(
            "out-folder-missing",
            f"expected the folder of --out to be there, found none: {out.parent}",
            hint=f"make it: mkdir -p {shlex.quote(str(out.parent))}",
        )
    require_writable(out.parent, "the plan is written to it")


def run(arguments: argparse.Namespace) -> int:
    """Makes, checks and writes the plan."""
    from orchestrator.core.files import write_atomic
    from orchestrator.pipeline.setup import look_at_plan, make_plan

    request = request_from(arguments)
    if arguments.out is None and not arguments.dry_run:
        raise UsageError(
            "out-not-given",
            "expected --out FILE, found none",
            hint="add --out plan.json, or --dry-run to write nothing",
        )
    if not arguments.dry_run:
        check_out(arguments.out)
    unknown: tuple[str, ...] = ()
    if arguments.dry_run:
        plan, unknown = look_at_plan(request, Progress().say)
    else:
        plan = make_plan(request, Progress().say)
        write_atomic(arguments.out, plan.canonical())
    remarks = _remarks(plan, arguments)
    summary = _summary(plan, arguments)
    summary |= {"remarks": list(remarks), "images_unknown": list(unknown)}
    if unknown:
        summary["plan_sha256"] = None
    if arguments.json:
        render.document(summary)
        return 0
    _show(plan, arguments, remarks, unknown)
    return 0


def _show(
    plan: Plan, arguments: argparse.Namespace, remarks: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    from orchestrator.model.attribution import ORACLE_CONDITION
    from orchestrator.model.symmetry import PARTS, outside_parity

    sizes = [
        counted(len(plan.tasks), "task"),
        counted(len(plan.conditions), "condition"),
        counted(len(plan.agents), "agent"),
        counted(plan.epochs, "epoch"),
    ]
    render.row(f"{counted(len(plan.trials), 'trial')}: {' x '.join(sizes)}")
    render.row(
        f"symmetry: equal {', '.join(PARTS)} in {counted(len(plan.conditions), 'condition')} of each task"
    )
    apart = outside_parity(plan.conditions)
    if apart:
        render.row(f"not in parity, because diagnostic: {', '.join(apart)}")
    if lacks_oracle(plan):
        render.row(
            f"without {ORACLE_CONDITION} nothing tells a reader that fails from a task that is too hard; to have it: {_with_oracle(plan, arguments)}"
        )
    for text in remarks:
        render.row(f"note: {text}")
    for text in unknown:
        render.row(f"image unknown: {text}")
    said = "not known before its images are" if unknown else plan.digest_sha256()
    render.text(f"plan sha256 {said}")
    render.text(f"next: memtrial {_next(arguments)}")


def _remarks(plan: Plan, arguments: argparse.Namespace) -> tuple[str, ...]:
    from orchestrator.core.places import fixtures_root
    from orchestrator.pipeline.remarks import arms_left_out, caps_without_room
    from orchestrator.sources.loader import load_conditions

    whole = arguments.matrix == "all" and not arguments.condition
    left_out = arms_left_out(plan, load_conditions(fixtures_root())) if whole else ()
    return (*caps_without_room(plan), *left_out)


def _summary(plan: Plan, arguments: argparse.Namespace) -> dict[str, object]:
    from orchestrator.model.symmetry import PARTS, outside_parity

    return {
        "plan_sha256": plan.digest_sha256(),
        "trials": len(plan.trials),
        "tasks": [task.digests.id for task in plan.tasks],
        "conditions": [condition.id for condition in plan.conditions],
        "agents": [agent.name for agent in plan.agents],
        "epochs": plan.epochs,
        "runtime": plan.runtime,
        "diagnostic": plan.diagnostic,
        "source_dirty": plan.source_dirty,
        "symmetry": {
            "arms": len(plan.arms),
            "equal_across_conditions": list(PARTS),
            "outside_parity": list(outside_parity(plan.conditions)),
        },
        "oracle_arm_missing": lacks_oracle(plan),
        "dry_run": bool(arguments.dry_run),
    }


def lacks_oracle(plan: Plan) -> bool:
    """Tells whether a plan has arms with memory and not the arm that their readers are judged by."""
    from orchestrator.model.attribution import ORACLE_CONDITION

    ids = {condition.id for condition in plan.conditions}
    return any(c.budget for c in plan.conditions) and ORACLE_CONDITION not in ids


def _with_oracle(plan: Plan, arguments: argparse.Namespace) -> str:
    from orchestrator.model.attribution import ORACLE_CONDITION

    named = {} if arguments.condition else {c.id: None for c in plan.conditions}
    added = [word for name in [*named, ORACLE_CONDITION] for word in ("--condition", name)]
    return "`memtrial " + shlex.join(["plan", *arguments.words, *added]) + "`"


def _next(arguments: argparse.Namespace) -> str:
    if not arguments.dry_run and arguments.model:
        plan = shlex.quote(str(arguments.out))
        if arguments.phase != "local":
            return f"approve propose {plan} --id NAME --commit HEX --max-input-tokens N --max-output-tokens N"
        return f"approve local {plan} --max-usd {arguments.max_usd}"
    if not arguments.dry_run:
        return f"run {shlex.quote(str(arguments.out))}"
    words = [word for word in arguments.words if word != "--dry-run"]
    return shlex.join(["plan", *words, *([] if arguments.out else ["--out", "plan.json"])])
