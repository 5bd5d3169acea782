"""Downloads are pinned by hash and served from the cache when there is no network."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.sources.fetch import PinnedFile, fetch

HUMANIZE = "8430be3a615106fdfceb0b2c1b41c4c98c6b0fc5cc59663a5539b111dd325fb0"


@pytest.fixture
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    # A port that nothing listens on: the client itself fails, nothing is replaced.
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setattr("orchestrator.sources.fetch.ATTEMPTS", 1)


def cached(cache: Path, data: bytes, *, under: str | None = None) -> PinnedFile:
    sha256 = under or hashlib.sha256(data).hexdigest()
    folder = cache / "downloads" / sha256
    folder.mkdir(parents=True)
    (folder / "thing-1.0.tar.gz").write_bytes(data)
    return PinnedFile("thing", (sha256,), "thing-1.0.tar.gz")


@pytest.mark.usefixtures("_no_network")
def test_a_cached_file_needs_no_network(tmp_path: Path) -> None:
    pin = cached(tmp_path, b"archive")
    assert fetch(pin, tmp_path).read_bytes() == b"archive"


@pytest.mark.usefixtures("_no_network")
def test_a_cached_file_with_other_bytes_is_never_used(tmp_path: Path) -> None:
    pin = cached(tmp_path, b"changed", under="0" * 64)
    with pytest.raises(EnvironmentMissing):
        fetch(pin, tmp_path)


@pytest.mark.usefixtures("_no_network")
def test_without_index_and_cache_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="thing") as caught:
        fetch(PinnedFile("thing", ("0" * 64,), "thing-1.0.tar.gz"), tmp_path)
    assert caught.value.reference == "index-unreachable"
    assert "MEMTRIAL_CACHE" in caught.value.hint


@pytest.mark.network
def test_a_pinned_file_is_downloaded_verified_and_kept(tmp_path: Path) -> None:
    pin = PinnedFile("humanize", (HUMANIZE,), "humanize-4.12.3.tar.gz")
    path = fetch(pin, tmp_path)
    assert path == tmp_path / "downloads" / HUMANIZE / "humanize-4.12.3.tar.gz"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == HUMANIZE
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.network
def test_a_hash_that_the_index_does_not_have_names_expected_and_found(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError) as caught:
        fetch(PinnedFile("humanize", ("1" * 64,), "humanize-4.12.3.tar.gz"), tmp_path)
    assert "1" * 64 in caught.value.message
    assert HUMANIZE in caught.value.message
