"""Promise: an installed distribution whose locked wheel is at hand is that wheel's, file by file."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from orchestrator.attest.piplock import Pin
from orchestrator.attest.provenance import Attested
from orchestrator.audit.dependencies import check_dependencies
from orchestrator.core.errors import DocumentError

INFO = "memtrial_demo-1.0.dist-info"
FILES = {
    "memtrial_demo/__init__.py": b"answer = 42\n",
    "memtrial_demo-1.0.data/platlib/memtrial_fast.so": b"machine code",
    "memtrial_demo-1.0.data/scripts/demo": b"#!python\n",
    f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: memtrial-demo\nVersion: 1.0\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\n",
}
NAME = "memtrial_demo-1.0-py3-none-any.whl"
REPOSITORY = "https://github.com/example/demo"


def line(path: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"


def wheel(files: dict[str, bytes] = FILES) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path), data)
        record = "".join(line(path, data) for path, data in files.items())
        archive.writestr(zipfile.ZipInfo(f"{INFO}/RECORD"), record + f"{INFO}/RECORD,,\n")
    return made.getvalue()


class Site:
    """A folder that the wheel was installed into, as an installer does it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "site"
        self.files = {
            "memtrial_demo/__init__.py": FILES["memtrial_demo/__init__.py"],
            "memtrial_fast.so": b"machine code",
            "../bin/demo": b"#!/usr/bin/python3\n",
            f"{INFO}/METADATA": FILES[f"{INFO}/METADATA"],
            f"{INFO}/WHEEL": FILES[f"{INFO}/WHEEL"],
            f"{INFO}/INSTALLER": b"uv",
            f"{INFO}/REQUESTED": b"",
            "memtrial_demo/__pycache__/__init__.cpython-311.pyc": b"compiled",
        }

    def write(self) -> None:
        for path, data in self.files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(data)
        record = "".join(line(path, data) for path, data in self.files.items())
        (self.folder / INFO / "RECORD").write_text(record + f"{INFO}/RECORD,,\n")


@pytest.fixture
def site(tmp_path, monkeypatch) -> Site:
    made = Site(tmp_path)
    made.folder.mkdir()
    monkeypatch.syspath_prepend(str(made.folder))
    return made


def judge(site: Site, data: bytes | None = None, **more: Any):
    data = wheel() if data is None else data
    site.write()
    pin = Pin("memtrial-demo", "1.0", frozenset({hashlib.sha256(data).hexdigest(), "0" * 64}))
    (found,) = check_dependencies(
        [pin],
        more.pop("stored", {}),
        more.pop("verify", None),
        wheels=lambda _: (NAME, data),
        **more,
    )
    return found


def test_what_an_installer_adds_is_known_and_the_rest_is_the_wheels(site):
    found = judge(site)
    assert (found.standing, found.files) == ("hash_pinned", 8)
    assert f"installed files are those of {NAME}" in found.detail


def test_without_a_wheel_it_says_that_only_the_record_speaks(site):
    site.write()
    pin = Pin("memtrial-demo", "1.0", frozenset({"0" * 64}))
    (found,) = check_dependencies([pin], {}, None)
    assert found.standing == "hash_pinned"
    assert "as their own RECORD alone" in found.detail


@pytest.mark.parametrize(
    ("path", "data", "said"),
    [
        ("memtrial_demo/__init__.py", b"import os\n", f"is not the one of {NAME}"),
        ("memtrial_fast.so", b"other code", f"is not the one of {NAME}"),
        ("memtrial_demo/evil.py", b"import os\n", f"memtrial_demo/evil.py is not of {NAME}"),
        (f"{INFO}/entry_points.txt", b"[x]\n", f"is not of {NAME}"),
        ("memtrial_demo/__init__.py", None, f"of {NAME} is not installed"),
    ],
)
def test_a_file_changed_added_or_left_out_with_its_record_line_is_a_mismatch(
    site, path, data, said
):
    if data is None:
        del site.files[path]
    else:
        site.files[path] = data
    found = judge(site)
    assert found.standing == "mismatch"
    assert said in found.detail


def test_a_statement_about_another_locked_file_does_not_cover_the_installed_wheel(site):
    def verify(name: str, _: bytes) -> tuple[Attested, ...]:
        sha256 = "0" * 64 if name.startswith("memtrial_demo-other") else installed
        return (Attested("memtrial_demo-1.0-cp311.whl", sha256, "publish", REPOSITORY),)

    installed = hashlib.sha256(wheel()).hexdigest()
    told: dict[str, Any] = {"verify": verify, "publishers": {"memtrial-demo": REPOSITORY}}
    other = judge(site, stored={"memtrial_demo-other": b""}, **told)
    assert other.standing == "hash_pinned"
    assert "which is not what is installed" in other.detail
    assert judge(site, stored={"memtrial_demo-mine": b""}, **told).standing == "attested"


@pytest.mark.parametrize("data", [b"no archive", wheel()[:200]])
def test_bytes_that_are_no_wheel_are_refused(site, data):
    with pytest.raises(DocumentError, match="a wheel with one RECORD"):
        judge(site, data)
