"""Sigstore trust roots that are at hand offline: the one inside the installed sigstore distribution, or a file.

The library's own convenience asks the network and reads an unauthenticated cache in the user's home;
nothing here does either.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.clock import utc_seconds
from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json

if TYPE_CHECKING:
    from sigstore.models import TrustedRoot

_STORE = "https%3A%2F%2Ftuf-repo-cdn.sigstore.dev"


def shipped_root() -> bytes:
    """Returns the public instance's trusted root as the installed sigstore distribution has it."""
    return resources.files("sigstore._store").joinpath(_STORE, "trusted_root.json").read_bytes()


def read_root(data: bytes) -> TrustedRoot:
    """Returns a trusted root as the library takes it.

    Raises:
        ValueError: not a trusted root.
    """
    from sigstore.models import TrustedRoot
    from sigstore_models.trustroot import v1

    return TrustedRoot(v1.TrustedRoot.from_json(data.decode()))


def check_root(data: bytes, *, where: str) -> None:
    """Says whether bytes are a trusted root.

    Raises:
        DocumentError: they are none.
    """
    from sigstore.errors import Error

    parse_json(data, where=where)
    try:
        read_root(data)
    except (Error, ValueError, TypeError, KeyError) as error:
        raise DocumentError(
            "trusted-root-malformed",
            f"{where}: expected a sigstore trusted root, found {type(error).__name__}: {str(error)[:200]}",
            hint="give the trusted_root.json of a sigstore instance",
        ) from error


def root_at(data: bytes, at_s: float) -> bytes:
    """Returns a trusted root without the authorities and logs that did not count at a time.

    Raises:
        DocumentError: not strict JSON, not an object, or a time of validity that is none.
    """
    value = parse_json(data, where="trusted root")
    if not isinstance(value, dict):
        raise DocumentError(
            "trusted-root-malformed",
            "trusted root: expected an object, found another value",
            hint="install sigstore again as requirements/README.md says",
        )
    return canonical_bytes(
        {
            name: [item for item in part if _counted(item, at_s)]
            if isinstance(part, list)
            else part
            for name, part in value.items()
        }
    )


def _counted(item: object, at_s: float) -> bool:
    parts = item if isinstance(item, dict) else {}
    key = parts.get("publicKey")
    span = parts.get("validFor") or (key.get("validFor") if isinstance(key, dict) else None)
    if not isinstance(span, dict):
        return False
    begin, end = span.get("start"), span.get("end")
    if not isinstance(begin, str) or not isinstance(end, str | None):
        return False
    return utc_seconds(begin) <= at_s and (end is None or at_s < utc_seconds(end))
