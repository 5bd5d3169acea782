"""Debian packages are read without dpkg, byte for byte or not at all, and fetched without touching the host's apt."""

from __future__ import annotations

import hashlib
import io
import lzma
import tarfile
from pathlib import Path

import pytest

from orchestrator.core.errors import DocumentError, EnvironmentMissing
from orchestrator.core.gittree import tree_id
from orchestrator.model.source import DebSource, Expected
from orchestrator.sources.deb import DebPin, data_archive, fetch_debs
from orchestrator.sources.origins import read_origin

STRSIM_SHA256 = "6b676122f64f7c2d3d130db4e367b4fdaaf7c61b65a024110cbe99814471a3a1"


def member(name: bytes, data: bytes) -> bytes:
    head = name.ljust(16) + b"0".ljust(12) + b"0".ljust(6) * 2 + b"100644".ljust(8)
    return head + str(len(data)).encode().ljust(10) + b"`\n" + data + b"\n" * (len(data) % 2)


def package(data_name: bytes, data: bytes) -> bytes:
    return b"!<arch>\n" + member(b"debian-binary/", b"2.0\n") + member(data_name, data)


def tar_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def source(**changes: object) -> DebSource:
    fields: dict[str, object] = {
        "kind": "deb",
        "id": "thing",
        "name": "thing-dev",
        "version": "1:1.0-1",
        "architecture": "all",
        "suite": "bookworm",
        "archive_sha256": "0" * 64,
        "subdir": "usr/share/thing",
        "licence": "MIT",
        "licence_files": ("LICENSE",),
        "expect": Expected(tree="0" * 40, commit="0" * 40, files=1, bytes=0),
    }
    return DebSource.model_validate({**fields, **changes})


def filed(cache: Path, data: bytes) -> str:
    sha256 = hashlib.sha256(data).hexdigest()
    folder = cache / "downloads" / sha256
    folder.mkdir(parents=True)
    (folder / "thing.deb").write_bytes(data)
    return sha256


def test_the_data_member_is_found_whatever_stands_before_it():
    inner = lzma.compress(tar_of({"./usr/x": b"1"}))
    assert data_archive(package(b"data.tar.xz/", inner), where="thing") == inner


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"PK\x03\x04", "ar archive", id="another-format"),
        pytest.param(package(b"data.tar.zst/", b"x"), r"data\.tar\.zst", id="zstandard"),
        pytest.param(package(b"data.tar.xz/", b"x" * 100)[:-60], "end of the file", id="cut-short"),
        pytest.param(b"!<arch>\n" + member(b"debian-binary/", b"2.0\n"), "none", id="no-data"),
        pytest.param(b"!<arch>\n" + b"x" * 60, "broken", id="broken-header"),
    ],
)
def test_what_is_no_whole_package_is_refused_by_name(data, says):
    with pytest.raises(DocumentError, match=says) as caught:
        data_archive(data, where="thing 1.0")
    assert "thing 1.0" in caught.value.message


def test_the_folder_becomes_the_tree_and_evidence_of_the_licence_comes_along(tmp_path):
    files = {
        "./usr/share/thing/lib.go": b"package thing\n",
        "./usr/share/doc/thing/copyright": b"MIT\n",
        "./usr/share/other/x": b"no",
    }
    sha256 = filed(tmp_path, package(b"data.tar.xz/", lzma.compress(tar_of(files))))
    carry = [{"path": "usr/share/doc/thing/copyright", "to": "debian/copyright"}]
    pin = DebSource.model_validate_json(
        source(archive_sha256=sha256).model_copy().model_dump_json().replace(
            '"carry":[]', '"carry":' + str(carry).replace("'", '"')
        )
    )  # fmt: skip
    found, notes = read_origin(pin, fixtures=tmp_path, cache=tmp_path)
    assert sorted(found) == ["debian/copyright", "lib.go"]
    assert notes == ()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"subdir": "usr/share/thin"}, "subdir|below", id="no-such-folder"),
        pytest.param({"subdir": "../usr"}, r"\.\.", id="folder-outside"),
    ],
)
def test_a_folder_that_the_package_lacks_is_an_error(tmp_path, changes, says):
    data = package(b"data.tar.xz/", lzma.compress(tar_of({"./usr/share/thing/x": b""})))
    pin = source(archive_sha256=filed(tmp_path, data), **changes)
    with pytest.raises(DocumentError, match=says):
        read_origin(pin, fixtures=tmp_path, cache=tmp_path)


def test_a_setuid_file_refuses_the_package(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("./usr/share/thing/su")
        info.mode = 0o4755
        archive.addfile(info)
    data = package(b"data.tar.gz/", buffer.getvalue())
    with pytest.raises(DocumentError, match="thing/su"):
        read_origin(source(archive_sha256=filed(tmp_path, data)), fixtures=tmp_path, cache=tmp_path)


def test_without_apt_and_cache_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("orchestrator.sources.deb.debian_sources", lambda _: "deb x bookworm main")
    pin = DebPin("bookworm", "thing", "1.0", "all", "0" * 64)
    with pytest.raises(EnvironmentMissing) as caught:
        fetch_debs([pin], tmp_path)
    assert "memtrial sources import" in caught.value.hint


@pytest.mark.network
def test_a_pinned_package_is_fetched_and_the_host_s_apt_stays_as_it_was(tmp_path):
    lists = Path("/var/lib/apt/lists")
    before = sorted(p.name for p in lists.iterdir()), lists.stat().st_mtime_ns
    pin = source(
        id="strsim",
        name="librust-strsim-dev",
        version="0.10.0-1",
        architecture="amd64",
        archive_sha256=STRSIM_SHA256,
        subdir="usr/share/cargo/registry/strsim-0.10.0",
    )
    files, _ = read_origin(pin, fixtures=tmp_path, cache=tmp_path)
    kept = [e for p, e in files.items() if not p.startswith(".cargo")]
    assert tree_id(kept) == "611b681951af57e25246af352702de907a8412a7"
    assert (sorted(p.name for p in lists.iterdir()), lists.stat().st_mtime_ns) == before
