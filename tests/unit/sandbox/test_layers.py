"""Layers and archives are bytes that we decide: same files, same ids."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.core.gittree import FileEntry
from orchestrator.sandbox.layers import (
    ImageSpec,
    archive_pieces,
    layer_of_file,
    make_image,
    make_layer,
)

ENTRIES = (
    FileEntry("opt/x/run", "100755", b"#!/bin/sh\n"),
    FileEntry("opt/x/lib/" + "n" * 120 + ".py", "100644", b"A = 1\n"),
    FileEntry("opt/x/link", "120000", b"run"),
)


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: member for member in archive}


def image(*, top: bytes = b"1") -> ImageSpec:
    layers = (make_layer(ENTRIES), make_layer([FileEntry("top", "100644", top)]))
    return make_image(layers, architecture="amd64", container={"User": "1:1"})


def test_the_order_of_files_does_not_matter() -> None:
    assert make_layer(ENTRIES) == make_layer(reversed(ENTRIES))


def test_everything_belongs_to_root_with_one_time_and_nothing_is_writable_by_others() -> None:
    layer = make_layer(ENTRIES, folders={"work": 0o755, "home/agent": 0o700})
    assert isinstance(layer.data, bytes)
    found = members(layer.data)
    assert {"work", "home", "home/agent", "opt", "opt/x", "opt/x/lib"} <= {n for n, m in found.items() if m.isdir()}  # fmt: skip
    for member in found.values():
        assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
        assert member.mtime == 946_684_800
        assert member.issym() or member.mode in {0o755, 0o700, 0o644}
    assert found["opt/x/run"].mode == 0o755
    assert found["opt/x/link"].linkname == "run"


def test_folders_come_before_what_is_in_them() -> None:
    layer = make_layer(ENTRIES)
    assert isinstance(layer.data, bytes)
    seen: set[str] = set()
    for name in members(layer.data):
        assert "/" not in name or name.rpartition("/")[0] in seen
        seen.add(name)


def test_the_diff_id_is_the_hash_of_the_tar(tmp_path: Path) -> None:
    layer = make_layer(ENTRIES)
    assert isinstance(layer.data, bytes)
    assert layer.diff_id == f"sha256:{hashlib.sha256(layer.data).hexdigest()}"
    (tmp_path / "layer.tar").write_bytes(layer.data)
    assert layer_of_file(tmp_path / "layer.tar").diff_id == layer.diff_id


def test_the_image_id_is_the_hash_of_the_config_and_follows_every_layer() -> None:
    spec = image()
    assert spec.image_id == f"sha256:{hashlib.sha256(spec.config).hexdigest()}"
    assert spec.image_id == image().image_id
    assert spec.image_id != image(top=b"2").image_id


def test_an_archive_declares_all_layers_and_leaves_out_the_bytes_of_those_named() -> None:
    spec = image()
    below = frozenset(spec.diff_ids[:1])
    for without, count in ((frozenset[str](), 2), (below, 1)):
        found = members(b"".join(archive_pieces(spec, tag="a:b", without=without)))
        assert sum(name.endswith(".tar") for name in found) == count
    data = b"".join(archive_pieces(spec, tag="a:b", without=below))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        stream = archive.extractfile("manifest.json")
        assert stream is not None
        (manifest,) = json.load(stream)
    assert manifest["Layers"] == [f"{d.removeprefix('sha256:')}.tar" for d in spec.diff_ids]
    assert manifest["RepoTags"] == ["a:b"]


def test_a_layer_file_gives_the_same_archive_as_the_bytes_in_memory(tmp_path: Path) -> None:
    layer = make_layer(ENTRIES)
    assert isinstance(layer.data, bytes)
    (tmp_path / "layer.tar").write_bytes(layer.data)
    archives = [
        b"".join(archive_pieces(make_image((x,), architecture="amd64", container={}), tag="a:b"))
        for x in (layer, layer_of_file(tmp_path / "layer.tar"))
    ]
    assert archives[0] == archives[1]


def test_a_changed_layer_file_is_found_before_its_last_byte_is_given_away(tmp_path: Path) -> None:
    path = tmp_path / "layer.tar"
    path.write_bytes(bytes(3 << 20))
    spec = make_image((layer_of_file(path),), architecture="amd64", container={})
    path.write_bytes(bytes((3 << 20) - 1) + b"x")
    given: list[bytes] = []
    with pytest.raises(IntegrityError, match="expected SHA-256"):
        given.extend(archive_pieces(spec, tag="a:b"))
    assert sum(map(len, given)) < 3 << 20
    path.unlink()
    with pytest.raises(EnvironmentMissing, match=r"layer\.tar"):
        list(archive_pieces(spec, tag="a:b"))
