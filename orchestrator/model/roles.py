"""Who may sign what: roles with their keys and thresholds, the target `roles.v1.json` of a trust root.

Holds shapes and the rules that need no arithmetic on keys; whether a key is sound is decided where it is
loaded (trust/roles.py). Reads and writes nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from orchestrator.model.base import Closed, Document, Sha256, Slug

RoleName = Literal["approver", "curator", "ledger", "operator", "supervisor"]
RawKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{43}=$")]
MAX_KEYS_PER_ROLE = 16


class RoleKey(Closed):
    """One Ed25519 key: its 32 bytes in base64, named by the SHA-256 of its SubjectPublicKeyInfo."""

    keyid: Sha256
    public_key: RawKey


class RoleRule(Closed):
    """The keys of a role, and how many different ones must sign."""

    threshold: int = Field(ge=1, le=MAX_KEYS_PER_ROLE)
    keys: tuple[RoleKey, ...] = Field(min_length=1, max_length=MAX_KEYS_PER_ROLE)

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.threshold > len(self.keys):
            raise ValueError(f"threshold {self.threshold} of {len(self.keys)} keys")
        return self


class Roles(Document):
    """The roles below a trust root. `name` says whose.

    A demonstration's root approves nothing; a rehearsal's approves runs before a fake provider alone.
    """

    name: Slug
    kind: Literal["demonstration", "local", "organisation", "rehearsal"]
    roles: dict[RoleName, RoleRule]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        wanted = (
            {"operator"}
            if self.kind == "local"
            else {"approver", "curator", "ledger", "supervisor"}
        )
        if set(self.roles) != wanted:
            raise ValueError(
                f"a root of kind {self.kind} has exactly the roles {', '.join(sorted(wanted))}"
            )
        return self
