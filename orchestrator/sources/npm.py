"""Fetches pinned tarballs of the npm registry with the npm client; scripts of packages never run.

Reads the client's own registry setting; writes only verified bytes into the cache.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.errors import IntegrityError
from orchestrator.sources.cache import cached, keep
from orchestrator.sources.clients import run_client

# One call of the client fetches so many tarballs: a start of the client costs more than a tarball.
AT_ONCE = 40
HINT = "install npm or connect the machine to a registry, or bring a cache with `memtrial sources import`"


@dataclass(frozen=True, slots=True)
class NpmPin:
    """A package of the registry by name, version and tarball hash."""

    name: str
    version: str
    sha256: str

    @property
    def tarball(self) -> str:
        """The name that the client gives the tarball: scope and name joined by dashes."""
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}.tgz"


def fetch_npm(pins: Sequence[NpmPin], cache: Path) -> list[Path]:
    """Returns the verified tarballs in the order of the pins, fetching those that the cache lacks.

    Raises:
        EnvironmentMissing: the client or the registry cannot be reached.
        IntegrityError: the registry gave other bytes.
    """
    missing = [pin for pin in pins if cached(cache, pin.sha256) is None]
    for start in range(0, len(missing), AT_ONCE):
        _pack(missing[start : start + AT_ONCE], cache)
    return [_there(pin, cache) for pin in pins]


def _pack(pins: Sequence[NpmPin], cache: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="memtrial-npm-") as name:
        folder = Path(name)
        specs = [f"{pin.name}@{pin.version}" for pin in pins]
        run_client(
            ["npm", "pack", *specs, "--ignore-scripts", "--silent", "--pack-destination", name],
            folder=folder,
            environment={"npm_config_cache": str(folder / ".cache")},
            hint=HINT,
        )
        for pin in pins:
            path = folder / pin.tarball
            if not path.is_file():
                raise IntegrityError(
                    "archive-not-in-index",
                    f"{pin.name}@{pin.version}: expected the client to bring {pin.tarball}, found none",
                    hint="check name and version of the pin",
                )
            keep(cache, pin.sha256, pin.tarball, path.read_bytes())


def _there(pin: NpmPin, cache: Path) -> Path:
    path = cached(cache, pin.sha256)
    if path is None:
        raise IntegrityError(
            "archive-changed",
            f"{pin.tarball}: expected SHA-256 {pin.sha256} in the cache, found it changed",
            hint="run the command again",
        )
    return path
