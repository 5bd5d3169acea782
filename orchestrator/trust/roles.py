"""Loads roles strictly: every key sound, named by itself, and in one role alone; thresholds that mean people.

Verification libraries accept aliases and small-order points as keys; one person could then count as several.
Whatever passes here is a set of different keys in the prime-order group. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import ApprovalRefused, DocumentError, IntegrityError
from orchestrator.core.keys import PublicKey
from orchestrator.core.pae import from_base64
from orchestrator.model.approval import ManyEnvelope
from orchestrator.model.roles import RoleKey, RoleName, RoleRule, Roles
from orchestrator.trust.strict import read_signed

# Fewer different people than this may not spend an organisation's money.
LEAST: dict[RoleName, int] = {"approver": 2}
HINT = (
    "let the owners of the root publish sound roles: `memtrial trust status` shows the present ones"
)


@dataclass(frozen=True, slots=True)
class Role:
    """A role as loaded: its keys by keyid, and how many of them must sign."""

    name: RoleName
    threshold: int
    keys: dict[str, PublicKey]


@dataclass(frozen=True, slots=True)
class TrustedRoles:
    """Roles that passed; `sha256` is over their exact bytes."""

    document: Roles
    sha256: str
    roles: dict[RoleName, Role]


def load_roles(data: bytes, *, where: str) -> TrustedRoles:
    """Reads and checks roles.

    Args:
        data: the exact bytes of the document.
        where: its name for the error text.

    Raises:
        ApprovalRefused: not canonical, a weak or misnamed key, one key twice (also under another name or
            in another role), or a threshold that one person could meet.
    """
    read_signed(data, where=where)
    try:
        document = Roles.parse(data, where=where)
    except DocumentError as error:
        raise ApprovalRefused("roles-invalid", error.message, hint=HINT) from error
    seen: dict[bytes, RoleName] = {}
    roles = {name: _role(name, rule, seen, where) for name, rule in document.roles.items()}
    return TrustedRoles(document, sha256_hex(data), roles)


def _role(name: RoleName, rule: RoleRule, seen: dict[bytes, RoleName], where: str) -> Role:
    if rule.threshold < LEAST.get(name, 1):
        raise ApprovalRefused(
            "threshold-too-low",
            f"{where}: expected at least {LEAST[name]} different signatures for {name}, found a threshold of {rule.threshold}",
            hint=HINT,
        )
    keys = {}
    for key in rule.keys:
        public = load_key(key, where=f"{where}, {name}")
        if public.raw in seen:
            raise ApprovalRefused(
                "key-in-two-places",
                f"{where}: expected each key once over all roles, found {public.keyid[:16]} in {seen[public.raw]} and {name}",
                hint=HINT,
            )
        seen[public.raw] = name
        keys[public.keyid] = public
    return Role(name, rule.threshold, keys)


def load_key(key: RoleKey, *, where: str) -> PublicKey:
    """Reads one key of a role.

    Raises:
        ApprovalRefused: not 32 canonical bytes of the prime-order group, or under another's name.
    """
    try:
        public = PublicKey.parse_raw(from_base64(key.public_key, where=where), where=where)
    except (DocumentError, IntegrityError) as error:
        raise ApprovalRefused(error.reference, error.message, hint=HINT) from error
    if public.keyid != key.keyid:
        raise ApprovalRefused(
            "keyid-not-of-key",
            f"{where}: expected keyid {public.keyid[:16]}, the SHA-256 of the key's SubjectPublicKeyInfo, found {key.keyid[:16]}",
            hint=HINT,
        )
    return public


def role_of(trusted: TrustedRoles, name: RoleName, *, where: str) -> Role:
    """Returns a role.

    Raises:
        ApprovalRefused: this root has none of that name.
    """
    role = trusted.roles.get(name)
    if role is None:
        raise ApprovalRefused(
            "role-missing",
            f"{where}: expected the role {name}, found {', '.join(trusted.roles)}",
            hint=HINT,
        )
    return role


def check_people(
    trusted: TrustedRoles, *, owners: frozenset[bytes], curators: frozenset[bytes]
) -> None:
    """Compares roles with the people of their trust root, by raw keys.

    Raises:
        ApprovalRefused: other curators than the root's, or an owner who has a role besides.
    """
    raw = {
        name: frozenset(key.raw for key in role.keys.values())
        for name, role in trusted.roles.items()
    }
    if raw.get("curator") != curators:
        raise ApprovalRefused(
            "curators-differ",
            "expected the curators of the trust root, found others in the roles",
            hint=HINT,
        )
    if owners & frozenset[bytes]().union(*raw.values()):
        raise ApprovalRefused(
            "key-in-two-places",
            "expected owners who have no other role, found one who has",
            hint=HINT,
        )


def check_sealing_key(trusted: TrustedRoles, keyid: str | None) -> None:
    """Refuses any key but the ledger's, which alone seals a run of phase smoke or official.

    Raises:
        ApprovalRefused: it is no key of that role, or these roles have none.
    """
    role = role_of(trusted, "ledger", where="roles")
    if keyid not in role.keys:
        raise ApprovalRefused(
            "seal-not-by-ledger",
            f"expected the run to be sealed by the ledger's key {', '.join(k[:16] for k in role.keys)}, found {keyid[:16] if keyid else 'no key'}",
            hint="name the file of the ledger's own key: `make official KEY=FILE`, `memtrial seal RUN --key FILE`, or MEMTRIAL_SIGNING_KEY=FILE",
        )


def signers_of(envelope: ManyEnvelope) -> tuple[str, ...]:
    """Returns the keyids that an envelope names, unverified."""
    return tuple(signature.keyid for signature in envelope.signatures)
