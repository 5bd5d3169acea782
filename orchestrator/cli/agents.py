"""Lists and checks agents: `memtrial agents [list|check NAME|check --agent-file FILE|smoke [NAME ...]|transcripts RUN]`.

`check` and `smoke` run against the scripted model, offline once an agent's image is made: nothing is
spent. `transcripts` prints what the agents of a run said and did, with --json as ATIF documents.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from orchestrator.cli import render
from orchestrator.cli.session import add_workers
from orchestrator.core.errors import Negative, UsageError

WORDS = ("list", "check", "smoke", "transcripts")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "word",
        nargs="?",
        default="list",
        metavar="WORD",
        help="list (default), check, smoke or transcripts",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="agents (smoke: by default all packaged ones), or the run of transcripts",
    )
    parser.add_argument(
        "--agent-file",
        type=Path,
        metavar="FILE",
        help="check: the agent that a small file describes, instead of a name",
    )
    add_workers(parser)


def run(arguments: argparse.Namespace) -> int:
    """Lists, checks or smokes."""
    if arguments.word not in WORDS:
        raise UsageError(
            "word-unknown",
            f"expected one of {', '.join(WORDS)}, found {arguments.word!r}",
            hint="run `memtrial agents list`",
        )
    if arguments.word == "smoke":
        return _smoke(arguments)
    if arguments.word == "transcripts":
        return _transcripts(arguments)
    return _check(arguments) if arguments.word == "check" else _list(arguments)


def _list(arguments: argparse.Namespace) -> int:
    from orchestrator.agents.registry import AGENTS, is_packaged, speech_of
    from orchestrator.core.places import images_root
    from orchestrator.sandbox.agents import identity_of, read_agent_recipe

    found = []
    for name in AGENTS:
        identity = identity_of(images_root(), name) if is_packaged(name) else None
        speech = speech_of(name)
        found.append(
            {
                "agent": name,
                "asks_a_model": speech is not None,
                "identity": identity.model_dump(mode="json") if identity else None,
                "licence": read_agent_recipe(images_root(), name).licence if identity else None,
            }
        )
    if arguments.json:
        render.document({"agents": found})
        return 0
    for name in AGENTS:
        recipe = read_agent_recipe(images_root(), name) if is_packaged(name) else None
        said = "part of memtrial"
        if recipe is not None:
            said = f"{recipe.package.name} {recipe.package.version} ({recipe.licence})"
        render.row(f"{name:<16} {said}")
    render.text("next: memtrial agents check codex")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from orchestrator.cli.live import Progress
    from orchestrator.cli.plan import described
    from orchestrator.pipeline.agentcheck import check_agent

    path: Path | None = arguments.agent_file
    if len(arguments.names) != (0 if path else 1):
        raise UsageError(
            "agent-not-named",
            f"expected the name of one agent or --agent-file, found {len(arguments.names)} names",
            hint="run `memtrial agents list`",
        )
    agent = described(path) if path else arguments.names[0]
    with Progress() as progress:
        found = check_agent(agent, progress.say)
    if arguments.json:
        render.document(found.model_dump(mode="json"))
    else:
        for name, value in found.model_dump(mode="json").items():
            render.row(f"{name:<18} {_shown(value)}")
    if found.wrong:
        raise Negative(
            "agent-not-sound",
            f"{found.agent}: {'; '.join(found.wrong)}",
            hint="read docs/how-to/add-an-agent.md",
        )
    if not arguments.json:
        following = (
            "plan --agent-file " + shlex.quote(str(path)) if path else f"agents smoke {found.agent}"
        )
        render.text(f"next: memtrial {following}")
    return 0


def _transcripts(arguments: argparse.Namespace) -> int:
    from orchestrator.agents.transcripts.atif import to_atif
    from orchestrator.core.places import results_root
    from orchestrator.pipeline.agentsmoke import transcripts_of
    from orchestrator.pipeline.find import find_run

    name = arguments.names[0] if arguments.names else "latest"
    found = transcripts_of(find_run(results_root(), name))
    if arguments.json:
        render.document([to_atif(made, session_id=key) for key, made in found.items()])
        return 0
    for key, made in found.items():
        render.row(f"{key}: {made.turns} turns, {made.stop_reason or 'no stop reason'}")
        for event in made.events:
            first = event.text.strip().partition("\n")[0]
            render.row(f"  {event.seq:>4} {event.kind:<12} {event.name or '':<14} {first[:120]}")
    render.text(f"next: memtrial report {name}")
    return 0


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value) or "none"
    return "none" if value is None else str(value)


def _smoke(arguments: argparse.Namespace) -> int:
    from orchestrator.agents.registry import PACKAGED_AGENTS, driver_for
    from orchestrator.cli.live import Progress
    from orchestrator.pipeline.agentsmoke import smoke_agents

    names = tuple(arguments.names) or PACKAGED_AGENTS
    for name in names:
        driver_for(name)
    with Progress() as progress:
        _, report = smoke_agents(names, watch=progress, workers=arguments.workers)
    if arguments.json:
        render.document(report.model_dump(mode="json"))
    else:
        for row in report.rows:
            render.row(
                f"{row.agent:<16} {row.condition_id:<24} {'resolved' if row.resolved else 'unresolved':<11} memory {row.proof or 'unproven':<9} {len(row.lookups)} look-ups"
            )
    wrong = [f"{row.agent}/{row.condition_id}: {text}" for row in report.rows for text in row.wrong]
    if not report.sound:
        raise Negative(
            "agents-smoke-unexpected",
            "; ".join(wrong) or "trials are missing",
            hint=f"run `memtrial report {report.run_id}`",
        )
    if not arguments.json:
        render.text(f"next: memtrial report {report.run_id}")
        render.text("; ".join(_figures(name, report.rows) for name in names))
    return 0


def _figures(name: str, rows: tuple[object, ...]) -> str:
    from orchestrator.model.agentreport import AgentRow

    mine = [row for row in rows if isinstance(row, AgentRow) and row.agent == name]
    peak = max((row.memory_peak_bytes or 0 for row in mine), default=0)
    wall_s = max((row.wall_ms for row in mine), default=0) / 1000
    return f"{name}: {sum(r.calls for r in mine)} calls in {len(mine)} trials, at most {wall_s:.1f} s and {peak // 1_000_000} MB"
