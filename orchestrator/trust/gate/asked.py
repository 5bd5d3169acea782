"""What the gate is asked and what its steps hand on. Shapes only; the steps are in their own modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import ApprovalRefused
from orchestrator.model.approval import InputPins, OfficialApproval, RootPin, SmokeApproval
from orchestrator.model.gate import GateConfig, RootSeen
from orchestrator.model.nonce import NonceLine
from orchestrator.model.plan import Plan
from orchestrator.trust.plumbing import Objects
from orchestrator.trust.repository import Repository
from orchestrator.trust.roles import TrustedRoles
from orchestrator.trust.root.client import TrustRoot

T = TypeVar("T")
Governed = OfficialApproval | SmokeApproval


@dataclass(frozen=True, slots=True)
class Host:
    """The machine and the process, as they are at this moment."""

    platform: str
    kernel: tuple[int, int]
    user_namespace: int
    uid_map: str
    isolated: bool
    environment: frozenset[str]


@dataclass(frozen=True, slots=True)
class Observed:
    """What a run would be made from here and now, measured when the approval is authenticated."""

    inputs: InputPins
    runner_sha256: str


@dataclass(frozen=True, slots=True)
class GateAsked:
    """One question to the gate: may this plan be dispatched under this approval.

    Args:
        worktree: the repository, by absolute path.
        system: the folder that root alone can write: configuration, first root, what was seen, nonce book.
        plan_data: the exact bytes of the plan.
        approval_id: names the approval among those that the trust root lists.
        host: the machine.
        now_s: the time at which the gate began, in seconds since 1970.
        clock: the present time in seconds since 1970, whenever it is asked.
        owner_uid: who may own trusted files besides root.
        run_id: for whom the nonce would be used.
        observe: measures the inputs; called in step 10 and not before.
        rebuild: refuses a plan that its own request does not give here; called in step 10.
        challenge: asks the supervisor; gets the nonce and digests, gives its signed answer.
    """

    worktree: Path
    system: Path
    plan_data: bytes
    approval_id: str
    host: Host
    now_s: int
    clock: Callable[[], int]
    owner_uid: int
    run_id: str
    observe: Callable[[Plan], Observed]
    rebuild: Callable[[Plan], None]
    challenge: Callable[[str, str, str], bytes]


@dataclass(slots=True)
class State:
    """What the steps have established so far; each may rely on those before it."""

    asked: GateAsked
    config: GateConfig | None = None
    bootstrap: bytes = b""
    seen: RootSeen | None = None
    objects: Objects | None = None
    repository: Repository | None = None
    head: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    root: TrustRoot | None = None
    roles: TrustedRoles | None = None
    envelope: bytes = b""
    payload: bytes = b""
    signers: tuple[str, ...] = ()
    approval: Governed | None = None
    plan: Plan | None = None
    book: tuple[NonceLine, ...] = ()
    manifest_sha256: str = ""
    asserted: tuple[str, ...] = ()
    digests: dict[str, str] = field(default_factory=dict)

    def approved(self) -> Governed:
        """Returns the approval, which step 8 has read.

        Raises:
            ApprovalRefused: it has not; the steps are out of order.
        """
        if self.approval is None:
            raise refuse("step-out-of-order", "an approval that was read", "none")
        return self.approval

    def close(self) -> None:
        """Ends git, if a step has begun it."""
        if self.objects is not None:
            self.objects.close()


def names_root(approval: Governed, root: TrustRoot) -> bool:
    """Tells whether an approval was signed under this very root: its version, its bytes, and its roles."""
    return approval.root == pin_of(root)


def pin_of(root: TrustRoot) -> RootPin:
    """Returns what an approval says of the root under which it is proposed."""
    return RootPin(
        version=root.root_version,
        sha256=root.root_sha256,
        roles_sha256=sha256_hex(root.roles_data),
    )


def told(pin: RootPin) -> str:
    """Returns a root's pin as refusals show it."""
    return f"root {pin.version} {pin.sha256[:16]} with roles {pin.roles_sha256[:16]}"


def known(value: T | None) -> T:
    """Returns what an earlier step must have established.

    Raises:
        ApprovalRefused: it did not; the steps are out of order.
    """
    if value is None:
        raise refuse("step-out-of-order", "an earlier step to have established this", "nothing")
    return value


def refuse(
    reference: str, expected: str, found: str, *, hint: str | None = None
) -> ApprovalRefused:
    """Returns a refusal in the words that every step uses."""
    return ApprovalRefused(
        reference,
        f"expected {expected}, found {found}",
        hint=hint or "read docs/security/refusals.md for what this code means",
    )
