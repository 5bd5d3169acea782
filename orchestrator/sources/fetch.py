"""Downloads a pinned file of the Python package index by name and hash, into a cache that works offline.

No package code runs and no address stands here: the client knows the index. Writes only to the cache,
and only bytes whose SHA-256 is the pinned one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.core.files import write_atomic

TIMEOUT_S = 60
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A file of a project in the index: the first of its files that has one of the hashes and the suffix."""

    project: str
    sha256s: tuple[str, ...]
    suffix: str


def fetch(pin: PinnedFile, cache: Path) -> Path:
    """Returns the path of the verified file, downloading it if the cache does not have it.

    Raises:
        EnvironmentMissing: the index cannot be reached and the cache does not have the file.
        IntegrityError: the index has no file of this name and hash, or gave other bytes.
    """
    for sha256 in pin.sha256s:
        folder = cache / "downloads" / sha256
        for path in sorted(folder.glob("*")) if folder.is_dir() else []:
            if path.name.endswith(pin.suffix) and not path.name.startswith(".") and sha256_hex(path.read_bytes()) == sha256:
                return path
    name, sha256, data = _download(pin)
    found = sha256_hex(data)
    if found != sha256:
        raise IntegrityError("archive-changed", f"{name}: expected SHA-256 {sha256}, found {found}", hint="do not use this file; check the pin")
    path = cache / "downloads" / sha256 / name
    write_atomic(path, data)
    return path


def _download(pin: PinnedFile) -> tuple[str, str, bytes]:
    import requests
    from pypi_simple import NoSuchProjectError, PyPISimple
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

    policy = Retrying(
        retry=retry_if_exception_type((requests.ConnectionError, requests.Timeout)),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(max=8),
        reraise=True,
    )
    try:
        with PyPISimple() as index:
            page = policy(index.get_project_page, pin.project, timeout=TIMEOUT_S)
            package = next((p for p in page.packages if p.digests.get("sha256") in pin.sha256s and p.filename.endswith(pin.suffix)), None)
            if package is None:
                raise IntegrityError(
                    "archive-not-in-index",
                    f"{pin.project}: expected a file *{pin.suffix} with SHA-256 {' or '.join(pin.sha256s)} in the package index, found none",
                    hint="check the pin; the file may have been withdrawn",
                )
            reply = policy(index.s.get, package.url, timeout=TIMEOUT_S)
            reply.raise_for_status()
            return package.filename, package.digests["sha256"], reply.content
    except NoSuchProjectError as error:
        raise IntegrityError("project-not-in-index", f"expected project {pin.project} in the package index, found none", hint="check the pin") from error
    except requests.RequestException as error:
        raise EnvironmentMissing(
            "index-unreachable",
            f"{pin.project} *{pin.suffix}: expected it in the cache or from the Python package index, found neither: {type(error).__name__}",
            hint="connect the machine to a package index, or copy the cache (MEMTRIAL_CACHE) from one that is",
        ) from error
