"""Trials as far as no container is needed: a memory system's real life, the real injection, the follower's own rule.

What containers would say of the follower's two patches is known: `memtrial pack` shows for every task that the
reference passes all tests and the natural change all but those that need a fact.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from orchestrator.core.canonical import sha256_hex
from orchestrator.memory.compile import final_prompt, injection_of
from orchestrator.memory.life import live
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.attribution import Charge
from orchestrator.model.condition import Condition
from orchestrator.model.memory import Injection, Remembered
from orchestrator.model.trace import MemoryTrace
from orchestrator.model.verdict import FailureReason, Tally, Verdict
from orchestrator.pipeline.gold import gold_for
from orchestrator.pipeline.memory import memory_assignment
from orchestrator.pipeline.parity import query_of
from orchestrator.pipeline.tracing import trace_trial
from orchestrator.protocols import AgentDriver, MemoryAdapter
from orchestrator.scoring.attribution import charge
from orchestrator.sources.loader import LoadedTask
from tests.recorded import knows


@dataclass(frozen=True)
class Rehearsed:
    """One such trial."""

    resolved: bool
    trace: MemoryTrace
    verdict: Verdict
    remembered: Remembered
    injection: Injection

    def charged(self, oracle: bool | None) -> Charge:
        """Charges it."""
        return charge(self.trace, self.verdict, oracle)


def rehearse(
    task: LoadedTask,
    condition: Condition,
    adapter: MemoryAdapter,
    counter: TokenCounter,
    driver: AgentDriver,
) -> Rehearsed:
    """Takes a memory system through its life and reads its text by the follower's rule."""
    kept: dict[str, bytes] = {}

    def keep(name: str, data: bytes) -> str:
        kept[name] = data
        return sha256_hex(data)

    with memory_assignment(
        condition,
        task.history,
        query_of(task.brief, condition.retrieve_k),
        gold=gold_for(condition, task.key),
    ) as assignment:
        remembered = live(adapter, assignment, counter, keep=keep)
    injection = injection_of(remembered.context, condition, task.brief.prompt, counter)
    prompt = final_prompt(injection, task.brief.prompt)
    play = json.loads(driver.launch(prompt, task.rehearsal).stdin)
    known = all(knows(play["prompt"], fact) for fact in play["facts"])
    patch = play["reference_patch"] if known else play["natural_patch"]
    trace = trace_trial(
        f"{task.card.id}/{condition.id}/follower/e1",
        condition,
        history=task.history,
        key=task.key,
        read=kept.get,
        remembered=remembered,
        injection=injection,
        diff=patch.encode(),
        output=b"",
    )
    return Rehearsed(
        resolved=patch == task.rehearsal.reference_patch,
        trace=trace,
        verdict=_verdict(task, condition.id, patch),
        remembered=remembered,
        injection=injection,
    )


def _verdict(task: LoadedTask, condition_id: str, patch: str) -> Verdict:
    """What containers say of these patches: `memtrial pack` shows it for every task."""
    resolved = patch == task.rehearsal.reference_patch
    tests = {
        g: [t.id for t in task.key.card.fail_to_pass if t.group == g]
        for g in ("capability", "memory")
    }
    base = len(task.key.pass_to_pass)
    memory = tests["memory"]
    return Verdict(
        task_id=task.card.id,
        condition_id=condition_id,
        agent="follower",
        epoch=1,
        tree="0" * 40,
        diff_sha256="0" * 64,
        injection_sha256="0" * 64,
        within_limits=True,
        compiled=True,
        fail_to_pass_capability=Tally(
            expected=len(tests["capability"]), passed=len(tests["capability"])
        ),
        fail_to_pass_memory=Tally(
            expected=len(memory),
            passed=len(memory) if resolved else 0,
            failed=() if resolved else tuple(sorted(memory)),
        ),
        pass_to_pass=Tally(expected=base, passed=base),
        reports_ok=True,
        paths_ok=True,
        patterns_ok=True,
        violations=(),
        resolved=resolved,
        failure_reason=None if resolved else FailureReason.MISSING_MEMORY,
        facts_delivered=(),
        facts_missing=(),
        diagnostic=True,
    )
