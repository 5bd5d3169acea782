"""Writes a transcript in the Agent Trajectory Interchange Format (ATIF), which other harnesses read.

Source of the format: the Harbor project's "Agent Trajectory Interchange Format" specification, v1.4:
`schema_version`, `session_id`, `agent`, `steps` (`step_id` from 1, `source`, `message`, `tool_calls`,
`observation`), `final_metrics`. Pure.
"""

from __future__ import annotations

from orchestrator.model.transcript import Transcript, TranscriptEvent

ATIF = "ATIF-v1.4"


def to_atif(transcript: Transcript, *, session_id: str) -> dict[str, object]:
    """Returns the transcript as an ATIF document; tool outputs become observations of their step.

    Args:
        transcript: the agent's run.
        session_id: names the attempt.
    """
    steps: list[dict[str, object]] = []
    for event in transcript.events:
        if event.kind == "tool_output" and steps:
            _observe(steps[-1], event)
        elif event.kind == "tool_call":
            _call(steps, event)
        else:
            source = "agent" if event.kind == "message" else "system"
            steps.append({"step_id": len(steps) + 1, "source": source, "message": event.text})
    document: dict[str, object] = {
        "schema_version": ATIF,
        "session_id": session_id,
        "agent": {
            "name": transcript.agent,
            "version": transcript.version or "unknown",
            "model_name": transcript.model or "unknown",
        },
        "steps": steps,
        "extra": {"stop_reason": transcript.stop_reason, "exit_code": transcript.exit_code},
    }
    usage = transcript.usage
    if usage is not None:
        document["final_metrics"] = {
            "total_prompt_tokens": usage.all_input,
            "total_completion_tokens": usage.output,
            "total_cached_tokens": usage.cache_read,
            "total_steps": len(steps),
        }
    return document


def _call(steps: list[dict[str, object]], event: TranscriptEvent) -> None:
    """Adds a call to the agent's step that is open, or to a new one after an observation."""
    call = {
        "tool_call_id": event.call_id or f"call-{event.seq}",
        "function_name": event.name or "unknown",
        "arguments": {"text": event.text},
    }
    if not steps or steps[-1]["source"] != "agent" or "observation" in steps[-1]:
        steps.append({"step_id": len(steps) + 1, "source": "agent", "message": ""})
    calls = steps[-1].setdefault("tool_calls", [])
    if isinstance(calls, list):
        calls.append(call)


def _observe(step: dict[str, object], event: TranscriptEvent) -> None:
    observation = step.setdefault("observation", {"results": []})
    results = observation.get("results") if isinstance(observation, dict) else None
    if isinstance(results, list):
        results.append({"source_call_id": event.call_id, "content": event.text})
