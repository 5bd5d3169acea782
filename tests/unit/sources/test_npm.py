"""Tarballs of the npm registry are pinned by hash; their scripts never run."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile

import pytest

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.core.gittree import tree_id
from orchestrator.model.source import Expected, NpmTarballSource
from orchestrator.sources.npm import NpmPin, fetch_npm
from orchestrator.sources.origins import read_origin

FRACTION = "626c7c3d346b124d3e24ddc932bd122f5bc607bcc8f483abe60702c8d87ee75c"


def source(sha256: str, subdir: str | None = None) -> NpmTarballSource:
    return NpmTarballSource(
        kind="npm-tarball",
        id="fraction.js",
        name="fraction.js",
        version="5.2.2",
        filename="fraction.js-5.2.2.tgz",
        archive_sha256=sha256,
        subdir=subdir,
        licence="MIT",
        licence_files=("LICENSE",),
        expect=Expected(tree="0" * 40, commit="0" * 40, files=1, bytes=0),
    )


def test_a_scoped_package_s_tarball_has_the_name_that_the_client_gives_it():
    assert NpmPin("@scope/name", "1.2.3", "0" * 64).tarball == "scope-name-1.2.3.tgz"


def test_a_folder_of_a_cached_tarball_needs_no_client(tmp_path, monkeypatch):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("package/src/a.ts", "package/dist/a.js"):
            archive.addfile(tarfile.TarInfo(name))
    data = gzip.compress(buffer.getvalue())
    sha256 = hashlib.sha256(data).hexdigest()
    folder = tmp_path / "downloads" / sha256
    folder.mkdir(parents=True)
    (folder / "x.tgz").write_bytes(data)
    monkeypatch.setenv("PATH", "/nonexistent")
    files, _ = read_origin(source(sha256, "src"), fixtures=tmp_path, cache=tmp_path)
    assert sorted(files) == ["a.ts"]


def test_without_client_and_cache_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(EnvironmentMissing) as caught:
        fetch_npm([NpmPin("thing", "1.0.0", "0" * 64)], tmp_path)
    assert "memtrial sources import" in caught.value.hint


@pytest.mark.network
def test_a_pinned_tarball_is_fetched_verified_and_kept(tmp_path):
    files, _ = read_origin(source(FRACTION), fixtures=tmp_path, cache=tmp_path)
    assert tree_id(files.values()) == "03cb9428e43688540188c3811c00f74a5dc72205"
    assert [p.name for p in (tmp_path / "downloads" / FRACTION).iterdir()] == [
        "fraction.js-5.2.2.tgz"
    ]
