"""After an agent has acted: does the gateway's record prove what memory its model was shown, and what did it do?

Reads the run's gateway folder. Memory that was to be in the prompt and is not proven is the harness's own
breach, and is never scored.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.agents.channels import SERVER
from orchestrator.agents.servers import stated_of
from orchestrator.agents.transcripts.reading import (
    MAX_TRANSCRIPT_BYTES,
    metrics_of,
    transcript_of,
)
from orchestrator.core.patchtext import added_lines
from orchestrator.gateway.recorded import admitted, calls_of, exchanges_of
from orchestrator.gateway.shown import LABELS, Expected, prove
from orchestrator.memory.compile import shown_text
from orchestrator.model.exchange import Exchange
from orchestrator.model.memory import Injection
from orchestrator.model.record import Stage
from orchestrator.model.toolcalls import ToolLog, given_ids, read_log
from orchestrator.model.transcript import Transcript
from orchestrator.pipeline.bench import Bench
from orchestrator.pipeline.journal import Journal
from orchestrator.protocols import ActOutcome


def agent_calls(folder: Path, trial: str, attempt: int) -> tuple[Exchange, ...]:
    """Returns the agent's admitted calls of an attempt."""
    return admitted(exchanges_of(folder, trial, attempt), role="agent")


def look_at_calls(bench: Bench, journal: Journal, injection: Injection, output: bytes) -> None:
    """Proves from the gateway's record what memory the agent's model was shown, and keeps the proof."""
    if bench.traffic is None or bench.record is None:
        return
    bench.calls = agent_calls(bench.record, bench.trial.key, journal.attempt)
    expected = Expected(
        trial=bench.trial.key,
        attempt=journal.attempt,
        condition_id=bench.condition.id,
        channel=injection.channel,
        text=shown_text(injection),
        label=LABELS.get(injection.channel, ""),
        log=bench.tool_log,
        stated=stated_of(bench.trial.agent, output, SERVER) if bench.tool_log else None,
        prompt=bench.task.brief.prompt,
        steering=bench.steering,
    )
    bench.proof = prove(calls_of(bench.record, bench.calls), expected)
    journal.keep("injection-proof", bench.proof.canonical())


def keep_transcript(bench: Bench, journal: Journal, outcome: ActOutcome) -> None:
    """Keeps what an agent that asks a model said and did, in the common form."""
    pin = bench.plan.agent(bench.trial.agent)
    if pin.model is not None:
        events = pin.command.events if pin.command else None
        found = transcript_of(pin.name, outcome.output, outcome.exit_code, events=events)
        journal.keep("transcript", found.canonical())


def tool_log_of(journal: Journal) -> ToolLog | None:
    """Returns what the arm's tool server did, if the arm has one; the agent has acted."""
    return read_log(lambda name: journal.found(Stage.ACT, name))


def keep_metrics(bench: Bench, journal: Journal, injection: Injection, diff: bytes) -> None:
    """Keeps what the transcript tells of how the agent read and used its memory."""
    if bench.plan.agent(bench.trial.agent).model is None:
        return
    metrics = metrics_of(
        Transcript.parse(
            journal.artifact(Stage.ACT, "transcript"),
            where="transcript",
            max_bytes=MAX_TRANSCRIPT_BYTES,
        ),
        relevant=bench.task.key.card.relevant_files,
        injected=given_ids(injection, tool_log_of(journal)),
        added=b"\n".join(added_lines(diff)).decode("utf-8", "replace"),
    )
    journal.keep("reader-metrics", metrics.canonical())
