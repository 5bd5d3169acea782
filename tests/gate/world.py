"""A sound world for the gate: repository, trust root, roles, approval, plan, system folder, supervisor; then one lie.

`Ingredients` are what everything is made from; an attack changes them before the world is made, or changes
the world on disk after. Nothing in it needs Docker, a network or a provider.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.keys import SigningKey
from orchestrator.model.approval import APPROVAL_TYPE, InputPins
from orchestrator.model.gate import ANSWER_TYPE, GateConfig, RootSeen
from orchestrator.model.gateway import LivePin
from orchestrator.model.plan import Plan
from orchestrator.pipeline import plan as planning
from orchestrator.trust.approvals import calling_roles
from orchestrator.trust.envelope import sign_new
from orchestrator.trust.gate.asked import GateAsked, Host, Observed
from orchestrator.trust.gate.before import (
    BOOTSTRAP,
    CONFIG,
    ENVIRONMENT,
    INITIAL_USER_NAMESPACE,
    SEEN,
    TUF_FOLDER,
)
from orchestrator.trust.gate.machine import MANIFEST, NONCES, root_of
from orchestrator.trust.manifest import manifest_of
from orchestrator.trust.nonces import NonceBook, Use
from orchestrator.trust.root.make import Draft, People, draft, publish, put_target
from tests.live import live_plan
from tests.unit.trust.hostile_git import commit, new_repository
from tests.unit.trust.support import (
    APPROVERS,
    CURATORS,
    SUPERVISOR,
    key,
    roles,
)

OWNERS = tuple(key(f"owner {i}") for i in range(3))
ID = "smoke-one"
REPOSITORY = "example/memtrial"
UID = os.geteuid()
HOST = Host(
    platform="linux",
    kernel=(6, 1),
    user_namespace=INITIAL_USER_NAMESPACE,
    uid_map="         0          0 4294967295\n",
    isolated=True,
    environment=ENVIRONMENT,
)
SPENT = tuple(Use(f"{n:064x}", "a" * 64, "b" * 64, f"old-{n}") for n in range(3))
ALL = frozenset({"root", "targets", "approvals"})


@functools.cache
def smoke_plan() -> Plan:
    return live_plan(phase="smoke", namespace="smoke-one", task_set="smoke")


@functools.cache
def official_plan() -> Plan:
    """The whole pack under the primary arms, three epochs, at a provider's address."""
    # Whether each task's validation is recorded is a matter of the pack, and not of the gate.
    with mock.patch.object(planning, "check_valid", return_value=None):
        return live_plan(
            "https://api.example.com",
            phase="official",
            namespace="official-v1",
            task_set="full",
            matrix="primary",
            tasks=(),
            conditions=(),
            epochs=3,
        )


def pins_of(plan: Plan) -> InputPins:
    images = {image.id for task in plan.tasks for image in (task.agent_image, task.verifier_image)}
    named = {
        name: sha256_hex(name.encode())
        for name in InputPins.model_fields
        if name.endswith("sha256")
    }
    return InputPins(**named, images=tuple(sorted(images)))


@dataclass(slots=True)
class Ingredients:
    """What a world is made from; an attack changes what it lies about."""

    now_s: int
    plan: Plan
    plan_data: bytes
    approval: dict[str, Any]
    roles: dict[str, Any]
    signers: tuple[SigningKey, ...] = APPROVERS[:2]
    payload_type: str = APPROVAL_TYPE
    payload: Callable[[bytes], bytes] = lambda data: data
    envelope: Callable[[bytes], bytes] = lambda data: data
    roles_data: Callable[[bytes], bytes] = lambda data: data
    owners: tuple[SigningKey, ...] = OWNERS
    drafted: Callable[[Draft], object] = lambda made: None
    used: tuple[Use, ...] = SPENT
    config: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """A world on disk, and the question to the gate about it."""

    folder: Path
    ingredients: Ingredients
    first: str
    head: str
    observed: Observed
    opened: list[str] = field(default_factory=list)
    host: Host = HOST
    changes: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    answer_keys: tuple[SigningKey, ...] = (SUPERVISOR,)
    answer_type: str = ANSWER_TYPE
    # How long measuring takes, and how much time has passed since the gate began, in seconds.
    measuring_s: int = 0
    passed_s: int = 0

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def system(self) -> Path:
        return self.folder / "system"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def prefix(self) -> Path:
        return self.folder / "prefix"

    def clock(self) -> int:
        """The present time: the gate's own, and what has passed since."""
        return int(self.changes.get("now_s", self.ingredients.now_s)) + self.passed_s

    def _observe(self, _: Plan) -> Observed:
        self.opened.append("inputs")
        self.passed_s += self.measuring_s
        return self.observed

    def _challenge(self, challenge: str, approval_sha256: str, plan_sha256: str) -> bytes:
        document = {
            "schema_version": 1,
            "challenge": challenge,
            "approval_sha256": approval_sha256,
            "plan_sha256": plan_sha256,
            "identity": "supervisor-one",
            "uid": UID,
            "manifest_sha256": self.ingredients.approval["supervisor"]["manifest_sha256"],
            "answered_s": self.ingredients.now_s + self.passed_s,
            "asserted": ["caller-cannot-read-keys"],
        }
        payload = canonical_bytes({**document, **self.answer})
        return sign_new(payload, self.answer_keys, payload_type=self.answer_type)

    def asked(self) -> GateAsked:
        facts: dict[str, Any] = {
            "worktree": self.repo,
            "system": self.system,
            "plan_data": self.ingredients.plan_data,
            "approval_id": ID,
            "host": self.host,
            "now_s": self.ingredients.now_s,
            "clock": self.clock,
            "owner_uid": os.geteuid(),
            "run_id": "run-1",
            "observe": self._observe,
            "rebuild": lambda _: self.opened.append("fixtures"),
            "challenge": self._challenge,
        }
        return GateAsked(**{**facts, **self.changes})


def ingredients(plan: Plan | None = None) -> Ingredients:
    """Everything sound: an approval of a plan (by default a smoke one) by two of three approvers."""
    plan, now = plan or smoke_plan(), int(time.time())
    pin = plan.gateway
    assert isinstance(pin, LivePin)
    price = pin.prices.find(pin.model)
    assert price is not None
    calls = len(plan.trials) * plan.retry.max_attempts
    approval = {
        "schema_version": 1,
        "kind": plan.phase,
        "approval_id": ID,
        "repository": REPOSITORY,
        "default_branch": "main",
        "approved_commit": "",
        "phase": plan.phase,
        "namespace": plan.namespace,
        "task_set": plan.task_set,
        "epochs": plan.epochs,
        "plan_sha256": plan.digest_sha256(),
        "inputs": pins_of(plan).model_dump(mode="json"),
        "runner": {
            "runner": "chat",
            "executable_sha256": plan.agents[0].program_sha256,
            "model": pin.model,
            "upstream": pin.upstream.model_dump(mode="json"),
            "reasoning_effort": None,
        },
        "roles": list(calling_roles(plan)),
        "pricing": {
            "currency": "USD",
            "dated": pin.prices.dated,
            "table_sha256": pin.prices.digest_sha256(),
            "input_usd_micros_per_million": price.input,
            "output_usd_micros_per_million": price.output,
        },
        "caps": {
            "max_agent_calls": calls,
            "max_provider_calls": calls * 40,
            "max_input_tokens": 10**7,
            "max_output_tokens": 10**6,
            "max_cost_usd_micros": pin.caps.per_run_usd_micros,
        },
        "supervisor": {
            "identity": "supervisor-one",
            "uid": UID,
            "keyid": SUPERVISOR.public.keyid,
            "manifest_sha256": "",
        },
        "root": {"version": 1, "sha256": "", "roles_sha256": ""},
        "sigstore": None,
        "ledger": {"origin": "example/approvals", "size": 2, "root_sha256": ""},
        "nonce": "f" * 64,
        "window": {"not_before_s": now - 3600, "expires_s": now + 3600},
    }
    return Ingredients(now, plan, plan.canonical(), approval, roles())


def make_world(folder: Path, made: Ingredients) -> World:
    """Makes the world that the ingredients describe."""
    system, prefix = folder / "system", folder / "prefix"
    for place in (system, folder / "state", prefix / "lib"):
        place.mkdir(parents=True, mode=0o755)
    (prefix / "lib" / "supervisor.py").write_bytes(b"print('supervisor')\n")
    (prefix / "interpreter").write_bytes(b"\x7fELF")
    manifest = manifest_of(prefix, owner_uid=_me()).canonical()
    (system / MANIFEST).write_bytes(manifest)
    book = NonceBook(folder / "state" / NONCES)
    for use in made.used:
        book.reserve(use, now_s=made.now_s - 1000)
    lines = [line.canonical() for line in book.state().lines]
    first, head = new_repository(folder / "repo", {})
    bootstrap = _make_tuf(folder / "repo" / TUF_FOLDER, made, first, sha256_hex(manifest), lines)
    head = commit(folder / "repo", {})
    _write_system(system, made, bootstrap, prefix)
    observed = Observed(pins_of(made.plan), made.plan.agents[0].program_sha256)
    return World(folder, made, first, head, observed)


def _me() -> int:
    return os.geteuid()


def _write_system(system: Path, made: Ingredients, bootstrap: bytes, prefix: Path) -> None:
    config = {
        "name": "example",
        "repository": REPOSITORY,
        "default_branch": "main",
        "root_sha256": sha256_hex(bootstrap),
        "supervisor_identity": "supervisor-one",
        "supervisor_uid": UID,
        "supervisor_keyid": SUPERVISOR.public.keyid,
        "supervisor_prefix": str(prefix),
        "supervisor_state": str(prefix.parent / "state"),
        "ledger_origin": "example/approvals",
    }
    (system / CONFIG).write_bytes(GateConfig(**{**config, **made.config}).canonical())
    (system / BOOTSTRAP).write_bytes(bootstrap)
    (system.parent / "state" / SEEN).write_bytes(RootSeen(**made.seen).canonical())


def _make_tuf(
    folder: Path, made: Ingredients, first: str, manifest_sha256: str, lines: list[bytes]
) -> bytes:
    people = People(tuple(k.public for k in made.owners), tuple(k.public for k in CURATORS))
    roles_data = made.roles_data(canonical_bytes(made.roles))
    drafted = draft(people, roles_data, now_s=made.now_s)
    publish(folder, drafted, owners=made.owners[:2], curator=CURATORS[0], changed=ALL)
    bootstrap = (folder / "metadata" / "1.root.json").read_bytes()
    late = {
        ("approved_commit",): first,
        ("root", "sha256"): sha256_hex(bootstrap),
        ("root", "roles_sha256"): sha256_hex(roles_data),
        ("supervisor", "manifest_sha256"): manifest_sha256,
        ("ledger", "root_sha256"): root_of(lines[:2]),
    }
    for path, value in late.items():
        place = made.approval
        for name in path[:-1]:
            place = place.get(name, {})
        if place.get(path[-1]) == "":
            place[path[-1]] = value
    payload = made.payload(canonical_bytes(made.approval))
    envelope = made.envelope(sign_new(payload, made.signers, payload_type=made.payload_type))
    put_target(drafted, f"approvals/{ID}.dsse.json", envelope)
    for part in (drafted.approvals, drafted.snapshot, drafted.timestamp):
        part.version += 1
    made.drafted(drafted)
    publish(
        folder,
        drafted,
        owners=made.owners[:2],
        curator=CURATORS[0],
        changed=frozenset({"approvals"}),
    )
    return bootstrap
