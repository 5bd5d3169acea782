"""The verdict of a trial: tests, build, paths, patterns and limits, each reported apart, then one reason.

The reason is the first that applies: a limit was hit; a path rule was broken; the result does not
compile; a report contradicts its verification (oracle_inconclusive); a memory test failed because the
superseded value that memory brought up was followed (stale_memory_followed), because a fact was not
delivered (missing_memory), or although all facts were delivered (ignored_memory); otherwise test_failure, also when only a pattern rule is broken.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError
from orchestrator.model.memory import Injection
from orchestrator.model.plan import Trial
from orchestrator.model.task import Brief, Key, PassToPass
from orchestrator.model.verdict import (
    Acted,
    FailureReason,
    Harvest,
    Tally,
    TestReport,
    Verdict,
    Violation,
)
from orchestrator.scoring.matching import holds, occurs_in
from orchestrator.scoring.patch import checked_lines, path_violations, pattern_violations

PATH_RULES = frozenset(
    {
        "outside_allowed_paths",
        "forbidden_path",
        "hidden_test_path",
        "symlink",
        "unusable_name",
        "diff_too_large",
    }
)

# A report exists and is not one of this suite in this verification: what the candidate is worth is unknown.
CONTRADICTIONS = frozenset({"seal", "unexpected_tests"})

# A hostile diff must not make the verdict huge; the flags are derived from all of them.
MAX_VIOLATIONS = 200


def tally(expected: tuple[PassToPass, ...], report: TestReport) -> Tally:
    """Counts a pinned set of tests in a report: skipped, missing or differently often is not passed."""
    found = {test.id: test for test in report.tests}
    failed: list[str] = []
    missing: list[str] = []
    for test in expected:
        status = found.get(test.id)
        if status is None:
            missing.append(test.id)
        elif status.status != "pass" or status.n != test.n:
            failed.append(test.id)
    return _tally_of(len(expected), set(failed), set(missing))


def tally_base(key: Key, base: TestReport, hidden: TestReport) -> Tally:
    """Counts the base suite: a test that is examined apart too passes only if it passes in both runs."""
    together = tally(key.pass_to_pass, base)
    named = set(key.apart)
    apart = tally(tuple(test for test in key.pass_to_pass if test.id in named), hidden)
    failed = {*together.failed, *apart.failed}
    return _tally_of(len(key.pass_to_pass), failed, {*together.missing, *apart.missing} - failed)


def _tally_of(expected: int, failed: set[str], missing: set[str]) -> Tally:
    return Tally(
        expected=expected,
        passed=expected - len(failed) - len(missing),
        failed=tuple(sorted(failed)),
        missing=tuple(sorted(missing)),
    )


def grade(
    *,
    trial: Trial,
    key: Key,
    brief: Brief,
    acted: Acted,
    harvest: Harvest,
    injection: Injection,
    diff: bytes,
    pass_to_pass: TestReport,
    fail_to_pass: TestReport,
    diagnostic: bool,
) -> Verdict:
    """Grades a trial. The same inputs give the same verdict, byte for byte.

    Raises:
        IntegrityError: the inputs do not belong together (another task, another diff, swapped reports).
    """
    found = (key.task_id, brief.task_id, sha256_hex(diff), pass_to_pass.phase, fail_to_pass.phase)
    _check_belong_together(trial, harvest, found)
    capability, memory, base = _tallies(key, pass_to_pass, fail_to_pass)
    violations = path_violations(harvest, brief, key) + pattern_violations(diff, key)
    delivered, missing = _facts(key, injection)
    build = _Build.of(acted, (pass_to_pass, fail_to_pass), violations)
    resolved = build.whole and all(t.passed == t.expected for t in (capability, memory, base))
    stale = _followed_stale(key, diff, injection)
    return Verdict(
        task_id=trial.task_id,
        condition_id=trial.condition_id,
        agent=trial.agent,
        epoch=trial.epoch,
        tree=harvest.tree,
        diff_sha256=harvest.diff_sha256,
        injection_sha256=injection.digest_sha256(),
        within_limits=build.within_limits,
        compiled=build.compiled,
        reports_ok=build.reports_ok,
        fail_to_pass_capability=capability,
        fail_to_pass_memory=memory,
        pass_to_pass=base,
        paths_ok=build.paths_ok,
        patterns_ok=build.patterns_ok,
        violations=tuple(violations[:MAX_VIOLATIONS]),
        resolved=resolved,
        failure_reason=None if resolved else _reason(build, memory, stale=stale, missing=missing),
        facts_delivered=delivered,
        facts_missing=missing,
        diagnostic=diagnostic,
    )


@dataclass(frozen=True, slots=True)
class _Build:
    """Everything about a result but its tests."""

    within_limits: bool
    tests_timed_out: bool
    compiled: bool
    reports_ok: bool
    reports_contradict: bool
    paths_ok: bool
    patterns_ok: bool

    @classmethod
    def of(
        cls, acted: Acted, reports: tuple[TestReport, ...], violations: list[Violation]
    ) -> _Build:
        return cls(
            within_limits=acted.ended == "exited",
            tests_timed_out=any(report.timed_out for report in reports),
            compiled=all(report.compiled for report in reports),
            reports_ok=not any(report.faults for report in reports),
            reports_contradict=any(
                fault.kind in CONTRADICTIONS for report in reports for fault in report.faults
            ),
            paths_ok=not any(v.rule in PATH_RULES for v in violations),
            patterns_ok=all(v.rule in PATH_RULES for v in violations),
        )

    @property
    def whole(self) -> bool:
        held = (self.within_limits, self.compiled, self.reports_ok, self.paths_ok, self.patterns_ok)
        return all(held)


def _check_belong_together(
    trial: Trial, harvest: Harvest, found: tuple[str, str, str, str, str]
) -> None:
    expected = (trial.task_id, trial.task_id, harvest.diff_sha256, "pass_to_pass", "fail_to_pass")
    if expected != found:
        raise IntegrityError(
            "grade-inputs-mixed-up",
            f"trial {trial.key}: expected key, brief, diff and reports {expected}, found {found}",
            hint="run `memtrial resume`",
        )


def _tallies(key: Key, base: TestReport, hidden: TestReport) -> tuple[Tally, Tally, Tally]:
    """Returns the tallies of capability tests, memory tests and base suite, each from its own run."""
    groups = {
        group: tuple(PassToPass(id=t.id) for t in key.card.fail_to_pass if t.group == group)
        for group in ("capability", "memory")
    }
    return (
        tally(groups["capability"], hidden),
        tally(groups["memory"], hidden),
        tally_base(key, base, hidden),
    )


def _facts(key: Key, injection: Injection) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the gold facts that the injected text holds, and those that it does not."""
    facts = key.card.gold_facts
    delivered = tuple(fact.id for fact in facts if holds(fact, injection.text))
    return delivered, tuple(fact.id for fact in facts if fact.id not in delivered)


def _followed_stale(key: Key, diff: bytes, injection: Injection) -> bool:
    """Whether the diff's added lines hold a superseded value that the injected memory had brought up."""
    lines, _ = checked_lines(diff)
    return any(
        holds(fact, injection.text) and all(occurs_in(pattern, lines) for pattern in fact.matchers)
        for fact in key.card.stale_facts
    )


def _reason(
    build: _Build, memory: Tally, *, stale: bool, missing: tuple[str, ...]
) -> FailureReason:
    first = (
        (not build.within_limits or build.tests_timed_out, FailureReason.TIMEOUT),
        (not build.paths_ok, FailureReason.WRONG_FILE_MODIFIED),
        (not build.compiled, FailureReason.COMPILE_FAILURE),
        (build.reports_contradict, FailureReason.ORACLE_INCONCLUSIVE),
        (memory.passed == memory.expected, FailureReason.TEST_FAILURE),
        (stale, FailureReason.STALE_MEMORY_FOLLOWED),
        (bool(missing), FailureReason.MISSING_MEMORY),
    )
    return next((reason for applies, reason in first if applies), FailureReason.IGNORED_MEMORY)
