"""Builds the statements about a trial and about a run from facts of the record. Pure: same facts, same bytes."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.model.attribution import Charge
from orchestrator.model.bundle import BundleCard
from orchestrator.model.memory import Injection
from orchestrator.model.outcome import Outcome
from orchestrator.model.plan import CuratedPin, Plan, Trial
from orchestrator.model.spending import Spending
from orchestrator.model.statement import (
    BUNDLE_SEAL,
    PROVENANCE,
    RUN_SUMMARY,
    TEST_RESULT,
    TRIAL_ACCOUNT,
    ArmResult,
    BuildDefinition,
    Builder,
    BuilderVersion,
    BuildMetadata,
    BundleSeal,
    CheckpointPin,
    Digests,
    ExternalParameters,
    GitDigests,
    InjectionAudit,
    Provenance,
    Resource,
    RunDetails,
    RunSummary,
    Statement,
    TestResult,
    TrialAccount,
)
from orchestrator.model.task import Key
from orchestrator.model.verdict import Verdict


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """What the record says of one trial; `approval_sha256` is of the envelope that its run began under."""

    trial: Trial
    plan_sha256: str
    record_name: str
    record_sha256: str
    started_on: str
    finished_on: str
    attempts: int
    infra_errors: int
    ended: Outcome | None
    wall_ms: int
    container_ms: int
    verdict: Verdict | None
    injection: Injection | None
    store_sha256: str | None
    spending: Spending | None
    attribution: Charge | None
    approval_sha256: str | None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the record says of the run as a whole; one entry of `files` per subject."""

    plan: Plan
    card: BundleCard
    checkpoint: CheckpointPin
    files: tuple[tuple[str, str], ...]
    report_sha256: str
    complete: bool
    arms: tuple[ArmResult, ...]
    approval_sha256: str | None
    claims_sha256: str | None


def trial_statements(
    facts: TrialFacts, plan: Plan, card: BundleCard, key: Key | None
) -> tuple[bytes | None, ...]:
    """Returns the payloads about a trial: test result, provenance, account.

    The test result needs the answer key for its names: it is left out where there is no verdict, and
    None where the key is not at hand.
    """
    subject = (_resource(facts.record_name, facts.record_sha256),)
    provenance = Statement(
        subject=subject, predicate_type=PROVENANCE, predicate=_provenance(facts, plan, card)
    )
    account = Statement(subject=subject, predicate_type=TRIAL_ACCOUNT, predicate=_account(facts))
    rest = (provenance.payload(), account.payload())
    if facts.verdict is None:
        return rest
    if key is None:
        return (None, *rest)
    result = Statement(
        subject=subject,
        predicate_type=TEST_RESULT,
        predicate=_test_result(facts, facts.verdict, key, plan),
    )
    return (result.payload(), *rest)


def run_statement(facts: RunFacts) -> bytes:
    """Returns the payload of the summary over plan, ledger, report, approval and claims."""
    summary = RunSummary(
        run_id=facts.card.run_id,
        phase=facts.plan.phase,
        diagnostic=facts.plan.diagnostic,
        standing=facts.plan.standing,
        complete=facts.complete,
        trials=len(facts.plan.trials),
        arms=facts.arms,
        plan_sha256=facts.plan.digest_sha256(),
        approval_sha256=facts.approval_sha256,
        checkpoint=facts.checkpoint,
        report_sha256=facts.report_sha256,
        claims_sha256=facts.claims_sha256,
        key=facts.card.key,
    )
    subject = tuple(_resource(name, sha256) for name, sha256 in facts.files)
    return Statement(subject=subject, predicate_type=RUN_SUMMARY, predicate=summary).payload()


def seal_statement(sums_name: str, sums_sha256: str, files: int, card: BundleCard) -> bytes:
    """Returns the payload that closes the list of a bundle's files."""
    seal = BundleSeal(run_id=card.run_id, files=files, sealed_at=card.sealed_at, key=card.key)
    subject = (_resource(sums_name, sums_sha256),)
    return Statement(subject=subject, predicate_type=BUNDLE_SEAL, predicate=seal).payload()


def _resource(name: str, sha256: str) -> Resource:
    return Resource(name=name, digest=Digests(sha256=sha256))


def _test_result(facts: TrialFacts, verdict: Verdict, key: Key, plan: Plan) -> TestResult:
    hidden = [test.id for test in key.card.fail_to_pass]
    base = [test.id for test in key.pass_to_pass]
    broken = {
        "FAIL_TO_PASS": {
            name
            for tally in (verdict.fail_to_pass_capability, verdict.fail_to_pass_memory)
            for name in (*tally.failed, *tally.missing)
        },
        "PASS_TO_PASS": {*verdict.pass_to_pass.failed, *verdict.pass_to_pass.missing},
    }
    named = [("FAIL_TO_PASS", name) for name in hidden] + [("PASS_TO_PASS", name) for name in base]
    pin = plan.task(verdict.task_id)
    return TestResult(
        result="PASSED" if verdict.resolved else "FAILED",
        configuration=(
            _resource("answer-key", pin.digests.key_sha256),
            _resource("plan", facts.plan_sha256),
        ),
        passed_tests=tuple(f"{set_}: {name}" for set_, name in named if name not in broken[set_]),
        failed_tests=tuple(f"{set_}: {name}" for set_, name in named if name in broken[set_]),
    )


def _provenance(facts: TrialFacts, plan: Plan, card: BundleCard) -> Provenance:
    pin = plan.pin_of(facts.trial)
    dependencies = [
        _resource("plan", facts.plan_sha256),
        _resource("agent-image", pin.agent_image.id.removeprefix("sha256:")),
        _resource("verifier-image", pin.verifier_image.id.removeprefix("sha256:")),
        Resource(name="repository", digest=GitDigests(git_commit=pin.commit, git_tree=pin.tree)),
        _resource("history", pin.digests.history_sha256),
        _resource("agent-program", plan.agent(facts.trial.agent).program_sha256),
    ]
    condition = plan.condition(facts.trial.condition_id)
    curated = _curated(plan, facts.trial.task_id) if condition.adapter == "curated" else None
    if curated is not None:
        dependencies.append(_resource("curated-memory", curated.file_sha256))
    if facts.approval_sha256 is not None:
        dependencies.append(_resource("approval", facts.approval_sha256))
    if facts.store_sha256 is not None:
        dependencies.append(_resource("memory-snapshot", facts.store_sha256))
    return Provenance(
        build_definition=BuildDefinition(
            external_parameters=ExternalParameters(
                plan_sha256=facts.plan_sha256,
                task=facts.trial.task_id,
                condition=facts.trial.condition_id,
                agent=facts.trial.agent,
                epoch=facts.trial.epoch,
                order_seed=plan.order_seed,
            ),
            resolved_dependencies=tuple(dependencies),
        ),
        run_details=RunDetails(
            builder=Builder(
                id="urn:memtrial:builder:v1", version=BuilderVersion(memtrial=plan.source_revision)
            ),
            metadata=BuildMetadata(
                invocation_id=f"{card.run_id}/{facts.trial.key}",
                started_on=facts.started_on,
                finished_on=facts.finished_on,
            ),
        ),
    )


def _curated(plan: Plan, task_id: str) -> CuratedPin | None:
    return next((pin for pin in plan.curated if pin.task_id == task_id), None)


def _account(facts: TrialFacts) -> TrialAccount:
    verdict, injection = facts.verdict, facts.injection
    return TrialAccount(
        trial=facts.trial.key,
        outcome="no_verdict"
        if verdict is None
        else "resolved"
        if verdict.resolved
        else "unresolved",
        ended=facts.ended,
        failure_reason=verdict.failure_reason if verdict else None,
        attempts=facts.attempts,
        infra_errors=facts.infra_errors,
        wall_ms=facts.wall_ms,
        container_ms=facts.container_ms,
        usage=facts.spending,
        attribution=facts.attribution,
        injection=None
        if injection is None or verdict is None
        else InjectionAudit(
            injection_sha256=injection.digest_sha256(),
            text_sha256=injection.text_sha256,
            tokens=injection.tokens,
            max_tokens=injection.max_tokens,
            included=tuple(item.item_id for item in injection.included),
            dropped=tuple(item.item_id for item in injection.dropped),
            facts_delivered=verdict.facts_delivered,
            facts_missing=verdict.facts_missing,
        ),
    )
