"""Provider keys: read once, from a file that only its owner can read or from this process's environment.

Never written, never printed: the representation shows provider names only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from orchestrator.core.errors import DocumentError, EnvironmentMissing, UsageError
from orchestrator.core.strictjson import parse_json
from orchestrator.model.usage import Provider

PROVIDERS: tuple[Provider, ...] = ("anthropic", "openai")
VARIABLES: dict[Provider, str] = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
MIN_KEY_CHARS = 8
MAX_FILE_BYTES = 64 * 1024


class ProviderKeys:
    """The keys by provider."""

    def __init__(self, keys: Mapping[Provider, str]) -> None:
        """Takes the keys.

        Raises:
            DocumentError: one is too short to be guarded, or could not stand in a header.
        """
        for provider, key in keys.items():
            if len(key) < MIN_KEY_CHARS or not key.isascii() or not key.isprintable() or " " in key:
                raise DocumentError(
                    "key-unusable",
                    f"key of {provider}: expected at least {MIN_KEY_CHARS} printable characters without spaces, found something else",
                    hint="copy the key again, without line breaks",
                )
        self._keys = dict(keys)

    def __repr__(self) -> str:
        return f"ProviderKeys({', '.join(sorted(self._keys))})"

    def values(self) -> tuple[str, ...]:
        """Returns the keys themselves, for the guard of answers and records."""
        return tuple(self._keys.values())

    def header(self, provider: Provider) -> tuple[bytes, bytes]:
        """Returns the header that authenticates at a provider.

        Raises:
            EnvironmentMissing: there is no key of it.
        """
        key = self._keys.get(provider)
        if key is None:
            raise EnvironmentMissing(
                "key-missing",
                f"expected a key of {provider}, found none",
                hint=f"set {VARIABLES[provider]} for the gateway's process, or name it in the key file",
            )
        if provider == "anthropic":
            return b"x-api-key", key.encode()
        return b"authorization", b"Bearer " + key.encode()


def keys_from_environment(environment: Mapping[str, str] | None = None) -> ProviderKeys:
    """Reads the keys that the environment holds."""
    found = os.environ if environment is None else environment
    return ProviderKeys({p: found[VARIABLES[p]] for p in PROVIDERS if found.get(VARIABLES[p])})


def keys_from_file(path: Path) -> ProviderKeys:
    """Reads a key file: a JSON object from provider to key.

    Raises:
        UsageError: no regular file, or others may read it.
        DocumentError: not such an object.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise UsageError(
            "key-file-missing",
            f"{path}: expected a regular file with keys, found {error.strerror}",
            hint="name a regular file",
        ) from error
    with os.fdopen(handle, "rb") as stream:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode) or mode & 0o077:
            raise UsageError(
                "key-file-open",
                f"{path}: expected a regular file of mode 0600, found {stat.filemode(mode)}",
                hint=f"run `chmod 600 {path}`",
            )
        found = parse_json(stream.read(MAX_FILE_BYTES), where=path.name)
    if not isinstance(found, dict) or set(found) - set(PROVIDERS):
        raise DocumentError(
            "key-file-invalid",
            f"{path.name}: expected an object with {' and '.join(PROVIDERS)}, found something else",
            hint='write {"anthropic": "...", "openai": "..."}',
        )
    return ProviderKeys({p: found[p] for p in PROVIDERS if isinstance(found.get(p), str)})
