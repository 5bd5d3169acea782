"""Promise: a manifest names every file and link of an installation as Python really makes it, and nothing from elsewhere."""

from __future__ import annotations

import os
import venv
from pathlib import Path

import pytest
from pydantic import ValidationError

from orchestrator.core.errors import ApprovalRefused
from orchestrator.model.gate import Manifest, ManifestFile, ManifestLink
from orchestrator.trust.manifest import first_difference, manifest_of, staged_manifest

UID = os.geteuid()


@pytest.fixture
def prefix(clean_folder: Path) -> Path:
    path = clean_folder / "prefix"
    (path / "lib" / "python").mkdir(parents=True)
    (path / "lib" / "python" / "https%3A%2F%2Fexample.org").write_bytes(b"a")
    (path / "lib" / "python" / "script (dev).tmpl").write_bytes(b"b")
    (path / "lib64").symlink_to("lib")
    return path


def refused(prefix: Path) -> str:
    with pytest.raises(ApprovalRefused) as error:
        manifest_of(prefix, owner_uid=UID)
    return error.value.reference


def test_names_of_real_distributions_and_the_link_of_a_virtual_environment_are_in_it(prefix):
    found = manifest_of(prefix, owner_uid=UID)
    assert [f.path for f in found.files] == [
        "lib/python/https%3A%2F%2Fexample.org",
        "lib/python/script (dev).tmpl",
    ]
    assert found.links == (ManifestLink(path="lib64", target="lib"),)
    assert Manifest.parse_canonical(found.canonical(), where="manifest") == found


def test_a_virtual_environment_with_its_own_interpreter_has_a_manifest(clean_folder):
    venv.create(clean_folder / "v", symlinks=False, with_pip=False)
    found = manifest_of(clean_folder / "v", owner_uid=UID)
    assert "bin/python3" in {f.path for f in found.files}


def test_a_changed_link_is_a_difference(prefix):
    before = manifest_of(prefix, owner_uid=UID)
    (prefix / "lib64").unlink()
    assert first_difference(before, manifest_of(prefix, owner_uid=UID)) == "lib64"
    (prefix / "lib64").symlink_to("lib/python")
    assert first_difference(before, manifest_of(prefix, owner_uid=UID)) == "lib64"


@pytest.mark.parametrize(
    "target",
    ["/etc", "../outside", "lib/../../outside", "lib/python/../x", ".", "nothing"],
)
def test_a_link_that_leads_out_or_nowhere_is_refused(prefix, target):
    (prefix.parent / "outside").mkdir()
    (prefix / "x").symlink_to(target)
    assert refused(prefix) == "link-in-prefix"


def test_a_link_may_lead_upwards_inside(prefix):
    (prefix / "lib" / "python" / "up").symlink_to("../../lib")
    assert manifest_of(prefix, owner_uid=UID).links[0].target == "../../lib"
    (prefix / "lib" / "python" / "out").symlink_to("../../../outside")
    (prefix.parent / "outside").mkdir()
    assert refused(prefix) == "link-in-prefix"


@pytest.mark.parametrize("name", ["caf\u00e9.py", "x\x1b[2J", "a\nb", "a\\b"])
def test_a_name_that_people_cannot_read_is_refused(prefix, name):
    (prefix / name).write_bytes(b"")
    assert refused(prefix) == "name-not-plain"


def test_an_empty_prefix_is_no_installation(clean_folder):
    assert refused(clean_folder) == "prefix-empty"


@pytest.mark.parametrize("path", ["/a", "a/", "a//b", "..", "a/..", "./a", "a/./b", ""])
def test_a_path_in_a_manifest_stays_below_its_prefix(path):
    with pytest.raises(ValidationError):
        ManifestFile(path=path, bytes=0, sha256="0" * 64)


def test_files_are_sorted_and_there_once():
    one = ManifestFile(path="b", bytes=0, sha256="0" * 64)
    for files in ((one, one), (one, one.model_copy(update={"path": "a"}))):
        with pytest.raises(ValidationError, match="sorted"):
            Manifest(files=files)


def test_an_empty_folder_that_others_can_fill_is_refused(prefix):
    (prefix / "lib" / "empty").mkdir()
    assert manifest_of(prefix, owner_uid=UID).files
    (prefix / "lib" / "empty").chmod(0o777)
    assert refused(prefix) == "folder-writable-by-others"


def test_what_is_staged_is_read_wherever_it_lies(prefix):
    whole = manifest_of(prefix, owner_uid=UID)
    (prefix / "lib").chmod(0o777)
    assert staged_manifest(prefix) == whole
