"""Downloads a pinned file of the Python package index by name and hash, into a cache that works offline.

No package code runs and no address stands here: the client knows the index. Writes only to the cache,
and only bytes whose SHA-256 is the pinned one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.sources.cache import cached, keep
from orchestrator.sources.closed import check_open

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage, ProjectPage, PyPISimple

T = TypeVar("T")

TIMEOUT_S = 60
ATTEMPTS = 3
MAX_BYTES = 128 * 1024 * 1024


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
        path = cached(cache, sha256, suffix=pin.suffix)
        if path is not None:
            return path
    name, sha256, data = _download(pin)
    return keep(cache, sha256, name, data)


def _download(pin: PinnedFile) -> tuple[str, str, bytes]:
    check_open(f"{pin.project} *{pin.suffix}")
    import requests
    from pypi_simple import NoSuchProjectError

    try:
        with _client() as index:
            page = _patiently(lambda: index.get_project_page(pin.project, timeout=TIMEOUT_S))
            package = _choose(pin, page)
            data = _patiently(lambda: _get(index, package.url, package.filename))
            return package.filename, package.digests["sha256"], data
    except NoSuchProjectError as error:
        raise IntegrityError(
            "project-not-in-index",
            f"expected project {pin.project} in the package index, found none",
            hint="check the pin",
        ) from error
    except requests.RequestException as error:
        raise EnvironmentMissing(
            "index-unreachable",
            f"{pin.project} *{pin.suffix}: expected it in the cache or from the Python package index, found neither: {type(error).__name__}",
            hint="connect the machine to a package index, or copy the cache (MEMTRIAL_CACHE) from one that is",
        ) from error


def _client() -> PyPISimple:
    """Returns a client of the index that pip and uv are told to use, or of the client's own default."""
    from pypi_simple import PyPISimple

    named = os.environ.get("PIP_INDEX_URL") or os.environ.get("UV_DEFAULT_INDEX")
    return PyPISimple(named) if named else PyPISimple()


def _patiently(call: Callable[[], T]) -> T:
    """Repeats a request that failed in a way that may pass."""
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

    policy = Retrying(
        retry=retry_if_exception(_may_pass),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(max=8),
        reraise=True,
    )
    return policy(call)


def _may_pass(error: BaseException) -> bool:
    import requests

    if isinstance(error, requests.HTTPError):
        return error.response is not None and (
            error.response.status_code >= 500 or error.response.status_code == 429
        )
    return isinstance(
        error,
        (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError),
    )


def _choose(pin: PinnedFile, page: ProjectPage) -> DistributionPackage:
    """Returns the pinned file's entry; a file name that is no plain name is never taken."""
    same_name = [
        p
        for p in page.packages
        if p.filename.endswith(pin.suffix)
        and "/" not in p.filename
        and not p.filename.startswith(".")
    ]
    for package in same_name:
        if package.digests.get("sha256") in pin.sha256s:
            return package
    found = [
        f"{p.filename} with {p.digests.get('sha256')}"
        for p in same_name
        if p.filename == pin.suffix
    ] or ["none"]
    raise IntegrityError(
        "archive-not-in-index",
        f"{pin.project}: expected a file *{pin.suffix} with SHA-256 {' or '.join(pin.sha256s)} in the package index, found {found[0]}",
        hint="check the pin; the file may have been withdrawn or replaced",
    )


def _get(index: PyPISimple, url: str, name: str) -> bytes:
    with index.s.get(url, timeout=TIMEOUT_S, stream=True) as reply:
        reply.raise_for_status()
        data = bytearray()
        for piece in reply.iter_content(1 << 16):
            data += piece
            if len(data) > MAX_BYTES:
                raise IntegrityError(
                    "archive-too-large",
                    f"{name}: expected at most {MAX_BYTES} bytes, found more",
                    hint="do not use this file; check the pin",
                )
    return bytes(data)
