"""The verdict of misconduct: made without running a test, failed by construction.

Pure. Its reason is `oracle_inconclusive`: what the tests would say is no news about an agent that saw or
did what it must not. The violation `misconduct` says in words what that was.
"""

from __future__ import annotations

from orchestrator.model.memory import Injection
from orchestrator.model.plan import Trial
from orchestrator.model.task import Key
from orchestrator.model.verdict import FailureReason, Tally, Verdict, Violation


def condemned(
    *,
    trial: Trial,
    key: Key,
    tree: str,
    diff_sha256: str,
    injection: Injection,
    violation: Violation,
    diagnostic: bool,
) -> Verdict:
    """Returns a verdict in which every pinned test is missing."""
    groups = {
        group: tuple(test.id for test in key.card.fail_to_pass if test.group == group)
        for group in ("capability", "memory")
    }
    return Verdict(
        task_id=trial.task_id,
        condition_id=trial.condition_id,
        agent=trial.agent,
        epoch=trial.epoch,
        tree=tree,
        diff_sha256=diff_sha256,
        injection_sha256=injection.digest_sha256(),
        within_limits=True,
        compiled=True,
        fail_to_pass_capability=_missing(groups["capability"]),
        fail_to_pass_memory=_missing(groups["memory"]),
        pass_to_pass=_missing(tuple(test.id for test in key.pass_to_pass)),
        paths_ok=True,
        patterns_ok=True,
        reports_ok=True,
        violations=(violation,),
        resolved=False,
        failure_reason=FailureReason.ORACLE_INCONCLUSIVE,
        facts_delivered=(),
        facts_missing=(),
        diagnostic=diagnostic,
    )


def _missing(ids: tuple[str, ...]) -> Tally:
    return Tally(expected=len(ids), passed=0, missing=tuple(sorted(ids)))
