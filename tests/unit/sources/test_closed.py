"""Promise: while the way is closed nothing is asked of any network; what the cache has is still given."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import EnvironmentMissing
from orchestrator.sources import upstream
from orchestrator.sources.cache import keep
from orchestrator.sources.closed import check_open, closed
from orchestrator.sources.fetch import PinnedFile, fetch

DATA = b"bytes"
PIN = PinnedFile("some-project", (sha256_hex(DATA),), ".whl")


def test_what_the_cache_lacks_is_missing_and_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: pytest.fail("a name was looked up"))
    with closed():
        with pytest.raises(EnvironmentMissing, match="without a network"):
            fetch(PIN, tmp_path)
        source: Any = SimpleNamespace(id="one", upstream_commit="a" * 40, url="x")
        with pytest.raises(EnvironmentMissing, match="without a network"):
            upstream._fetch(source)
    check_open("anything")


def test_what_the_cache_has_is_given(tmp_path: Path):
    keep(tmp_path, PIN.sha256s[0], "some_project-1-py3-none-any.whl", DATA)
    with closed():
        assert fetch(PIN, tmp_path).read_bytes() == DATA
