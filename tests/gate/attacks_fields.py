"""Approvals that enough approvers signed and that do not fit: steps 8 to 11, 14 and 15, field by field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json
from tests.gate.catalogue import Attack, after, before, in_turn
from tests.gate.world import Ingredients, World
from tests.unit.trust.hostile_git import git

DAY_S = 24 * 3600
OTHER = "0" * 64


def put(*path_and_value: Any) -> Callable[[Ingredients], None]:
    """Puts a value at a path of the approval, before it is signed."""
    *path, value = path_and_value

    def attack(made: Ingredients) -> None:
        place = made.approval
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value

    return attack


def drop(*path: str) -> Callable[[Ingredients], None]:
    def attack(made: Ingredients) -> None:
        place = made.approval
        for name in path[:-1]:
            place = place[name]
        del place[path[-1]]

    return attack


def window(not_before: int, expires: int) -> Callable[[Ingredients], None]:
    """Sets the window, in seconds from now."""
    return lambda made: made.approval.update(
        window={"not_before_s": made.now_s + not_before, "expires_s": made.now_s + expires}
    )


def official(made: Ingredients) -> None:
    made.approval.update(
        kind="official", phase="official", namespace="official-v1", task_set="full"
    )


def plan(
    change: Callable[[dict[str, Any]], object], *, approved: bool
) -> Callable[[Ingredients], None]:
    """Changes the plan; with `approved` its digest is what the approvers signed."""

    def attack(made: Ingredients) -> None:
        document = parse_json(made.plan_data, where="plan")
        assert isinstance(document, dict)
        change(document)
        made.plan_data = canonical_bytes(document)
        if approved:
            made.approval["plan_sha256"] = sha256_hex(made.plan_data)

    return attack


def observed(field: str) -> Callable[[World], None]:
    def attack(world: World) -> None:
        if field == "runner_sha256":
            world.observed = replace(world.observed, runner_sha256=OTHER)
            return
        value: Any = ("sha256:" + OTHER,) if field == "images" else OTHER
        inputs = world.observed.inputs.model_copy(update={field: value})
        world.observed = replace(world.observed, inputs=inputs)

    return attack


def not_rebuilt(world: World) -> None:
    def rebuild(_: Any) -> None:
        world.opened.append("fixtures")
        raise DocumentError("plan-does-not-fit", "tasks differ", hint="make a new plan")

    world.changes["rebuild"] = rebuild


def unrelated(world: World) -> None:
    """HEAD is moved to a commit whose history does not have the approved one."""
    tree = git(world.repo, "rev-parse", "HEAD^{tree}")
    made = git(world.repo, "commit-tree", tree, "-m", "unrelated")
    for name in ("refs/heads/main", "refs/remotes/origin/main"):
        git(world.repo, "update-ref", name, made)


def before_head(world: World) -> None:
    world.changes["now_s"] = 1_699_999_999


SHAPE = "the schema allows nothing else"
SAME = "approval and plan must say the same"
BOUND = "the approvers signed other bytes"
TIME = "an approval holds in its window and at no other time"
MONEY = "what may be spent is what was signed"

ATTACKS: tuple[Attack, ...] = (
    before(
        "approval-of-another-name",
        8,
        "approval-of-another-name",
        "it was published under another's name",
        put("approval_id", "smoke-two"),
    ),
    *(
        before(
            f"without-{'-'.join(path).replace('_', '-')}",
            8,
            "approval-invalid",
            "nothing is left open",
            drop(*path),
        )
        for path in (
            ("nonce",),
            ("window",),
            ("caps", "max_cost_usd_micros"),
            ("supervisor",),
            ("root",),
            ("ledger",),
            ("sigstore",),
            ("inputs", "images"),
        )
    ),
    before(
        "smoke-with-two-epochs", 8, "approval-invalid", "a rehearsal is one epoch", put("epochs", 2)
    ),
    before(
        "smoke-in-another-namespace",
        8,
        "approval-invalid",
        "a rehearsal keeps apart",
        put("namespace", "official-v1"),
    ),
    before(
        "smoke-of-the-full-set",
        8,
        "approval-invalid",
        "a rehearsal is small",
        put("task_set", "full"),
    ),
    before(
        "phase-local", 8, "approval-invalid", "phase local has its own gate", put("phase", "local")
    ),
    before(
        "official-in-a-namespace-of-its-own",
        8,
        "approval-invalid",
        "official runs share one namespace",
        in_turn(official, lambda made: made.approval.update(namespace="smoke-one")),
    ),
    before(
        "official-of-the-smoke-set",
        8,
        "approval-invalid",
        "an official run leaves nothing out",
        in_turn(official, lambda made: made.approval.update(task_set="smoke")),
    ),
    before(
        "window-of-15-days", 8, "approval-invalid", "keys are lost in less", window(0, 15 * DAY_S)
    ),
    before(
        "window-of-14-days-and-a-second",
        8,
        "approval-invalid",
        "keys are lost in less",
        window(-1, 14 * DAY_S),
    ),
    before("window-turned-round", 8, "approval-invalid", TIME, window(3600, -3600)),
    before("window-before-1970", 8, "approval-invalid", TIME, put("window", "not_before_s", -1)),
    before("window-at-zero", 8, "approval-invalid", TIME, put("window", "not_before_s", 0)),
    before("cap-zero", 8, "approval-invalid", MONEY, put("caps", "max_cost_usd_micros", 0)),
    before("cap-negative", 8, "approval-invalid", MONEY, put("caps", "max_agent_calls", -1)),
    before(
        "cap-past-all-bounds",
        8,
        "approval-invalid",
        "above a million dollars a figure is a mistake",
        put("caps", "max_cost_usd_micros", 10**12 + 1),
    ),
    before(
        "tokens-past-all-bounds",
        8,
        "approval-invalid",
        "such a figure is a mistake",
        put("caps", "max_input_tokens", 10**14),
    ),
    before("other-currency", 8, "approval-invalid", MONEY, put("pricing", "currency", "EUR")),
    before(
        "plain-http",
        8,
        "approval-invalid",
        "calls would go unencrypted",
        put("runner", "upstream", "origin", "http://api.example.com"),
    ),
    before(
        "origin-with-a-path",
        8,
        "approval-invalid",
        "an origin has none",
        put("runner", "upstream", "origin", "https://api.example.com/v1"),
    ),
    before(
        "origin-with-a-user",
        8,
        "approval-invalid",
        "it would lead elsewhere",
        put("runner", "upstream", "origin", "https://api.example.com@evil.example"),
    ),
    before(
        "unknown-provider",
        8,
        "approval-invalid",
        SHAPE,
        put("runner", "upstream", "provider", "other"),
    ),
    before(
        "commit-as-a-name",
        8,
        "approval-invalid",
        "a name could be moved",
        put("approved_commit", "main"),
    ),
    before(
        "commit-short",
        8,
        "approval-invalid",
        "a short id can come to mean another",
        put("approved_commit", "a" * 12),
    ),
    before(
        "commit-in-capitals",
        8,
        "approval-invalid",
        "one name, one text",
        put("approved_commit", "A" * 40),
    ),
    before(
        "nonce-short", 8, "approval-invalid", "it could be guessed or met again", put("nonce", "ff")
    ),
    before("uid-negative", 8, "approval-invalid", SHAPE, put("supervisor", "uid", -1)),
    before("images-empty", 8, "approval-invalid", "nothing would run", put("inputs", "images", [])),
    before(
        "schema-version-2", 8, "approval-invalid", "nobody here knows it", put("schema_version", 2)
    ),
    before(
        "other-root",
        9,
        "root-not-the-approved-one",
        "the signers saw another trust root",
        put("root", "sha256", OTHER),
    ),
    before(
        "other-root-version",
        9,
        "root-not-the-approved-one",
        "the signers saw another trust root",
        put("root", "version", 2),
    ),
    before(
        "other-repository",
        9,
        "approval-of-another-repository",
        "it was signed for another repository",
        put("repository", "other/memtrial"),
    ),
    before(
        "other-branch-approved",
        9,
        "approval-of-another-repository",
        "it was signed for another branch",
        put("default_branch", "trunk"),
    ),
    before(
        "commit-unknown",
        9,
        "commit-not-in-history",
        "the approved commit is not here",
        put("approved_commit", OTHER[:40]),
    ),
    after(
        "commit-in-no-history",
        9,
        "commit-not-in-history",
        "HEAD does not come from what was approved",
        unrelated,
    ),
    before("other-plan", 10, "plan-not-the-approved-one", BOUND, put("plan_sha256", OTHER)),
    before(
        "plan-with-a-space",
        10,
        "plan-not-the-approved-one",
        BOUND,
        lambda made: setattr(made, "plan_data", made.plan_data + b" "),
    ),
    before(
        "plan-changed",
        10,
        "plan-not-the-approved-one",
        BOUND,
        plan(lambda p: p.update(order_seed=1), approved=False),
    ),
    before(
        "plan-not-canonical-but-approved",
        10,
        "plan-invalid",
        "one text, one meaning",
        in_turn(
            lambda made: setattr(made, "plan_data", made.plan_data + b" "),
            lambda made: made.approval.update(plan_sha256=sha256_hex(made.plan_data)),
        ),
    ),
    before(
        "plan-invalid-but-approved",
        10,
        "plan-invalid",
        "two arms would differ",
        plan(lambda p: p["arms"][0].update(limits_sha256=OTHER), approved=True),
    ),
    before(
        "plan-of-another-phase",
        10,
        "plan-differs",
        SAME,
        plan(lambda p: p.update(phase="local"), approved=True),
    ),
    before(
        "plan-of-another-namespace",
        10,
        "plan-differs",
        SAME,
        plan(lambda p: p.update(namespace="smoke-two"), approved=True),
    ),
    before(
        "plan-of-the-full-set",
        10,
        "plan-differs",
        "the tasks are not the ones of a rehearsal",
        plan(lambda p: p.update(task_set="full"), approved=True),
    ),
    before(
        "plan-of-changed-source",
        10,
        "plan-differs",
        "nobody can say what ran",
        plan(lambda p: p.update(source_dirty=True), approved=True),
    ),
    before("plan-official-in-smoke", 10, "plan-differs", SAME, official),
    before("other-runner", 10, "plan-differs", SAME, put("runner", "runner", "codex")),
    before(
        "other-program",
        10,
        "plan-differs",
        "another program would act",
        put("runner", "executable_sha256", OTHER),
    ),
    before(
        "other-model",
        10,
        "plan-differs",
        "another model would answer",
        put("runner", "model", "model-2"),
    ),
    before(
        "other-provider",
        10,
        "plan-differs",
        "calls would go elsewhere",
        put("runner", "upstream", "provider", "anthropic"),
    ),
    before(
        "other-origin",
        10,
        "plan-differs",
        "calls would go elsewhere",
        put("runner", "upstream", "origin", "https://api.example.com"),
    ),
    before(
        "other-effort",
        10,
        "plan-differs",
        "the model would work otherwise",
        put("runner", "reasoning_effort", "high"),
    ),
    before(
        "other-image",
        10,
        "plan-differs",
        "other containers would run",
        put("inputs", "images", ["sha256:" + OTHER]),
    ),
    *(
        before(
            f"approved-{name.replace('_', '-')}",
            10,
            "input-not-the-approved-one",
            BOUND,
            put("inputs", name, OTHER),
        )
        for name in (
            "fixtures_sha256",
            "conditions_sha256",
            "memory_config_sha256",
            "curator_manifest_sha256",
            "installed_manifest_sha256",
        )
    ),
    *(
        after(
            f"present-{name.replace('_', '-')}",
            10,
            "input-not-the-approved-one",
            "it changed since it was approved",
            observed(name),
        )
        for name in (
            "fixtures_sha256",
            "conditions_sha256",
            "memory_config_sha256",
            "curator_manifest_sha256",
            "installed_manifest_sha256",
            "images",
            "runner_sha256",
        )
    ),
    after(
        "plan-not-rebuilt",
        10,
        "plan-does-not-fit",
        "its own request gives another plan here",
        not_rebuilt,
    ),
    before("not-yet-valid", 11, "approval-not-yet-valid", TIME, window(1800, 3600)),
    before("expired", 11, "approval-expired", TIME, window(-7200, -3600)),
    before("expired-this-second", 11, "approval-expired", TIME, window(-7200, 0)),
    after("clock-before-head", 11, "clock-set-back", "HEAD was made before now", before_head),
    before(
        "agent-calls-more",
        14,
        "caps-differ",
        MONEY,
        lambda made: made.approval["caps"].update(
            max_agent_calls=made.approval["caps"]["max_agent_calls"] + 1
        ),
    ),
    before(
        "agent-calls-fewer",
        14,
        "caps-differ",
        MONEY,
        lambda made: made.approval["caps"].update(
            max_agent_calls=made.approval["caps"]["max_agent_calls"] - 1
        ),
    ),
    before("cost-more", 14, "caps-differ", MONEY, put("caps", "max_cost_usd_micros", 5_000_001)),
    before("cost-less", 14, "caps-differ", MONEY, put("caps", "max_cost_usd_micros", 4_999_999)),
    before(
        "provider-calls-too-few",
        14,
        "caps-differ",
        "no agent could finish",
        put("caps", "max_provider_calls", 1),
    ),
    before("other-prices", 14, "caps-differ", MONEY, put("pricing", "table_sha256", OTHER)),
    before("other-day", 14, "caps-differ", "prices change", put("pricing", "dated", "2020-01-01")),
    before(
        "input-price", 14, "caps-differ", MONEY, put("pricing", "input_usd_micros_per_million", 1)
    ),
    before(
        "output-price", 14, "caps-differ", MONEY, put("pricing", "output_usd_micros_per_million", 1)
    ),
)
