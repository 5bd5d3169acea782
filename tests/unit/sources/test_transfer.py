"""The verified cache moves whole and checked, or not at all."""

from __future__ import annotations

import json

import pytest

from orchestrator.core.errors import DocumentError, IntegrityError, UsageError
from orchestrator.sources.cache import cached, keep
from orchestrator.sources.transfer import export_cache, import_cache

SHA_A = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
SHA_B = "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"


@pytest.fixture
def export(tmp_path):
    cache = tmp_path / "cache"
    paths = [keep(cache, SHA_A, "a.tgz", b"a"), keep(cache, SHA_B, "b.deb", b"b")]
    export_cache(cache, paths, tmp_path / "export")
    return tmp_path / "export"


def test_what_was_exported_is_in_the_other_cache_and_verified(export, tmp_path):
    import_cache(export, tmp_path / "other")
    found = [cached(tmp_path / "other", sha256) for sha256 in (SHA_A, SHA_B)]
    assert [path and (path.name, path.read_bytes()) for path in found] == [
        ("a.tgz", b"a"),
        ("b.deb", b"b"),
    ]


def test_a_changed_file_refuses_the_whole_import(export, tmp_path):
    (export / "downloads" / SHA_B / "b.deb").write_bytes(b"evil")
    with pytest.raises(IntegrityError, match=r"b\.deb"):
        import_cache(export, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_missing_file_refuses_the_whole_import(export, tmp_path):
    (export / "downloads" / SHA_B / "b.deb").unlink()
    with pytest.raises(DocumentError):
        import_cache(export, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("path", ["../evil", "/etc/passwd", "elsewhere/x", "installation-id"])
def test_a_path_outside_the_cache_s_own_folders_is_refused(export, tmp_path, path):
    manifest = json.loads((export / "manifest.json").read_text())
    manifest["files"][0]["path"] = path
    (export / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DocumentError):
        import_cache(export, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_link_in_an_export_is_not_followed(export, tmp_path):
    path = export / "downloads" / SHA_A / "a.tgz"
    path.unlink()
    (tmp_path / "secret").write_bytes(b"a")
    path.symlink_to(tmp_path / "secret")
    with pytest.raises(DocumentError):
        import_cache(export, tmp_path / "other")


def test_a_folder_without_a_manifest_says_how_to_make_one(tmp_path):
    with pytest.raises(UsageError) as caught:
        import_cache(tmp_path, tmp_path / "other")
    assert "memtrial sources export" in caught.value.hint


def test_bytes_are_never_filed_under_another_hash(tmp_path):
    with pytest.raises(IntegrityError):
        keep(tmp_path, SHA_A, "a", b"b")
    assert cached(tmp_path, SHA_A) is None
