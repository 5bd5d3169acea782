"""Brings the gate of smoke and official together with what a run is made from: measures inputs, rebuilds plans.

Reads fixtures and the installation, in the gate's step 10 or for a proposal. Asks no engine and no provider.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.clock import unix_time_s
from orchestrator.core.errors import ApprovalRefused, UsageError
from orchestrator.core.files import read_confined
from orchestrator.core.places import clone_root, fixtures_root, images_root
from orchestrator.model.approval import (
    GOVERNED,
    ApprovedCaps,
    InputPins,
    LedgerPin,
    PricingPin,
    RunnerPin,
    SupervisorPin,
    Window,
)
from orchestrator.model.gate import GateConfig
from orchestrator.model.gateway import LivePin
from orchestrator.model.plan import Plan
from orchestrator.pipeline.fits import check_fits
from orchestrator.pipeline.setup import make_plan
from orchestrator.sources.closed import closed
from orchestrator.trust.approvals import calling_roles, live_pin
from orchestrator.trust.ask import ask_supervisor
from orchestrator.trust.ceremony import current
from orchestrator.trust.gate.asked import GateAsked, Governed, Observed, pin_of
from orchestrator.trust.gate.before import CONFIG, TUF_FOLDER, this_host
from orchestrator.trust.gate.machine import MANIFEST, NONCES, root_of
from orchestrator.trust.installed import installed_manifest_sha256
from orchestrator.trust.nonces import NO_RUN, NonceBook
from orchestrator.trust.plumbing import Objects
from orchestrator.trust.proposals import check_not_withdrawn
from orchestrator.trust.repository import Repository
from orchestrator.trust.roles import load_roles

SYSTEM = Path("/etc/memtrial")
CONDITIONS = "conditions.json"
MAX_BYTES = 64 * 1024 * 1024
# Calls of the model that one attempt of an agent may make, for the bound that people sign.
CALLS_A_TRIAL = 200


@dataclass(frozen=True, slots=True)
class Proposed:
    """What a proposal adds to a plan: its name, the commit, the bounds in tokens and time."""

    approval_id: str
    commit: str
    max_input_tokens: int
    max_output_tokens: int
    window: Window


def repository_root() -> Path:
    """Returns the repository that the gate speaks of: the clone that this runs from, else the one around here.

    Raises:
        UsageError: this is an installed wheel, and the working folder is in no clone with a trust root.
    """
    here = Path.cwd()
    around = (
        p for p in (here, *here.parents) if (p / ".git").is_dir() and (p / TUF_FOLDER).is_dir()
    )
    root = clone_root() or next(around, None)
    if root is None:
        raise UsageError(
            "no-repository",
            "expected a clone of the repository with a trust root, found an installed program outside of one",
            hint="go into the clone, or name it with --repository",
        )
    return root


def observe(plan: Plan) -> Observed:
    """Measures what a run of the plan would be made from here and now.

    Raises:
        IntegrityError: an installed file is not what its RECORD says.
    """
    fixtures = fixtures_root()
    files = {
        path.relative_to(fixtures).as_posix(): sha256_hex(path.read_bytes())
        for path in sorted(fixtures.rglob("*"))
        if path.is_file()
    }
    images = {image.id for task in plan.tasks for image in (task.agent_image, task.verifier_image)}
    programs = {sha256_hex(p.read_bytes()) for p in (images_root() / "agent").glob("*.py")}
    program = plan.agents[0].program_sha256
    return Observed(
        InputPins(
            fixtures_sha256=digest_sha256(files),
            conditions_sha256=sha256_hex(read_confined(fixtures, CONDITIONS, max_bytes=MAX_BYTES)),
            memory_config_sha256=digest_sha256(
                [condition.model_dump(mode="json") for condition in plan.conditions]
            ),
            curator_manifest_sha256=digest_sha256(
                [pin.model_dump(mode="json") for pin in (*plan.curated, *plan.reviews)]
            ),
            installed_manifest_sha256=installed_manifest_sha256(),
            images=tuple(sorted(images)),
        ),
        program if program in programs else "0" * 64,
    )


def rebuild(plan: Plan) -> None:
    """Refuses a plan that its own request does not give here; uses no engine and no network.

    Raises:
        MemtrialError: the first difference.
    """
    with closed():
        check_fits(plan, lambda request: make_plan(request, _silent, offline=True), _silent)


def _silent(_: str) -> None:
    return


def asked_for(
    plan_data: bytes, approval_id: str, *, repository: Path, system: Path, run_id: str = NO_RUN
) -> GateAsked:
    """Returns the question to the gate about a plan and an approval on this machine."""
    return GateAsked(
        worktree=repository,
        system=system,
        plan_data=plan_data,
        approval_id=approval_id,
        host=this_host(),
        now_s=int(unix_time_s()),
        clock=lambda: int(unix_time_s()),
        owner_uid=0,
        run_id=run_id,
        observe=observe,
        rebuild=rebuild,
        challenge=ask_supervisor,
    )


def propose(plan: Plan, asked: Proposed, *, approvals: Path, system: Path) -> Governed:
    """Drafts the approval of a plan as this machine and repository are now.

    Raises:
        UsageError: a plan of phase local, or what no approval of its phase can name.
        ApprovalRefused: the plan calls no provider, or the trust root does not verify.
    """
    pin = live_pin(plan)
    if plan.phase == "local":
        raise UsageError(
            "phase-local",
            "expected a plan of phase smoke or official, found phase local",
            hint="approve it yourself: `memtrial approve local PLAN --max-usd N`",
        )
    config = GateConfig.parse_canonical((system / CONFIG).read_bytes(), where=CONFIG)
    root = current(approvals, now_s=int(unix_time_s()))
    check_not_withdrawn(root, asked.approval_id)
    roles = load_roles(root.roles_data, where="roles")
    head_of(approvals.parent, system, has=asked.commit)
    found = observe(plan)
    document = {
        "kind": plan.phase,
        "phase": plan.phase,
        "approval_id": asked.approval_id,
        "repository": config.repository,
        "default_branch": config.default_branch,
        "approved_commit": asked.commit,
        "namespace": plan.namespace,
        "task_set": plan.task_set,
        "epochs": plan.epochs,
        "plan_sha256": plan.digest_sha256(),
        "inputs": found.inputs,
        "runner": _runner(plan, pin, found.runner_sha256),
        "roles": calling_roles(plan),
        "pricing": _pricing(pin),
        "caps": _caps(plan, pin, asked),
        "supervisor": _supervisor(config, system, roles.document.kind),
        "root": pin_of(root),
        "sigstore": None,
        "ledger": _ledger(config),
        "nonce": secrets.token_hex(32),
        "window": asked.window,
    }
    return _approval(plan.phase, document)


def _approval(phase: str, document: dict[str, object]) -> Governed:
    try:
        return GOVERNED.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        raise UsageError(
            "proposal-invalid",
            f"expected what an approval of phase {phase} can name, found {place} {str(first['input'])[:80]!r}: {first['msg'].lower()}",
            hint=f"mend that option of `memtrial approve propose`, or plan again with `memtrial plan --phase {phase}`",
        ) from error


def head_of(repository: Path, system: Path, *, has: str | None = None) -> str:
    """Returns the head of a clone's default branch, which must be where its remote is.

    Args:
        repository: the clone.
        system: this machine's folder, whose configuration names the branch.
        has: a commit that must be in its history.

    Raises:
        ApprovalRefused: another branch, not pushed, or without that commit.
        OSError: this machine has no configuration.
    """
    config = GateConfig.parse_canonical((system / CONFIG).read_bytes(), where=CONFIG)
    objects = Objects(repository / ".git")
    try:
        found = Repository(repository, branch=config.default_branch, objects=objects)
        head = found.head()
        if has is not None and not found.is_ancestor(has, head):
            raise ApprovalRefused(
                "commit-not-in-history",
                f"expected a commit in the history of {config.default_branch}, found {has}, which is not in it",
                hint="push it first; `git rev-parse HEAD` prints the commit that is checked out",
            )
    finally:
        objects.close()
    return head


def _supervisor(config: GateConfig, system: Path, kind: str) -> SupervisorPin:
    return SupervisorPin(
        identity=config.supervisor_identity,
        uid=config.supervisor_uid,
        keyid=config.supervisor_keyid,
        manifest_sha256=_manifest(system, kind),
    )


def _manifest(system: Path, kind: str) -> str:
    try:
        return sha256_hex((system / MANIFEST).read_bytes())
    except OSError as error:
        # A demonstration approves nothing, so it may name an installation that is none.
        if kind == "demonstration":
            return "0" * 64
        raise UsageError(
            "manifest-missing",
            f"expected {system / MANIFEST}, which says what the supervisor is, found {error.strerror or error}",
            hint="install the supervisor first: docs/security/supervisor.md",
        ) from error


def _ledger(config: GateConfig) -> LedgerPin:
    lines = NonceBook(Path(config.supervisor_state) / NONCES).state().lines
    return LedgerPin(
        origin=config.ledger_origin,
        size=len(lines),
        root_sha256=root_of([line.canonical() for line in lines]),
    )


def _runner(plan: Plan, pin: LivePin, sha256: str) -> RunnerPin:
    return RunnerPin(
        runner=plan.agents[0].name,
        executable_sha256=sha256,
        model=pin.model,
        upstream=pin.upstream,
        reasoning_effort=plan.agents[0].reasoning_effort,
    )


def _pricing(pin: LivePin) -> PricingPin:
    price = pin.prices.find(pin.model)
    return PricingPin(
        dated=pin.prices.dated,
        table_sha256=pin.prices.digest_sha256(),
        input_usd_micros_per_million=price.input if price else 0,
        output_usd_micros_per_million=price.output if price else 0,
    )


def _caps(plan: Plan, pin: LivePin, asked: Proposed) -> ApprovedCaps:
    attempts = len(plan.trials) * plan.retry.max_attempts
    return ApprovedCaps(
        max_agent_calls=attempts,
        max_provider_calls=attempts * CALLS_A_TRIAL,
        max_input_tokens=asked.max_input_tokens,
        max_output_tokens=asked.max_output_tokens,
        max_cost_usd_micros=pin.caps.per_run_usd_micros,
    )
