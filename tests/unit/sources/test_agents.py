"""Promise: an agent's layer holds pinned bytes only; a package with one other byte is refused."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.model.agents import AgentMember
from orchestrator.sources.agents import members_of, wheel_modules

ELF = b"\x7fELF program"


def tarball(folder: Path, **files: bytes) -> Path:
    path = folder / "agent.tgz"
    with tarfile.open(path, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size, member.mode = len(data), 0o4755
            archive.addfile(member, io.BytesIO(data))
    return path


def member(name: str = "agent", data: bytes = ELF) -> AgentMember:
    return AgentMember(member=f"package/{name}", to="opt/a/agent", sha256=sha256_hex(data), executable=True)  # fmt: skip


def test_only_the_wanted_member_is_taken_with_a_plain_mode(tmp_path):
    path = tarball(tmp_path, agent=ELF, install=b"#!/bin/sh\nrm -rf /\n")
    (entry,) = members_of(path, (member(),))
    assert (entry.path, entry.mode, entry.data) == ("opt/a/agent", "100755", ELF)


def test_a_member_with_one_other_byte_is_refused(tmp_path):
    path = tarball(tmp_path, agent=ELF + b"!")
    with pytest.raises(IntegrityError, match="expected the pinned bytes"):
        list(members_of(path, (member(),)))


def test_a_member_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(IntegrityError, match="no such member"):
        list(members_of(tarball(tmp_path, other=ELF), (member(),)))


def test_a_member_that_is_a_link_is_not_taken_for_the_file(tmp_path):
    path = tmp_path / "agent.tgz"
    with tarfile.open(path, mode="w:gz") as archive:
        link = tarfile.TarInfo("package/agent")
        link.type, link.linkname = tarfile.SYMTYPE, "/bin/sh"
        archive.addfile(link)
    with pytest.raises(IntegrityError, match="no such member"):
        list(members_of(path, (member(),)))


def test_a_wheel_gives_modules_and_none_of_its_scripts(tmp_path):
    path = tmp_path / "agent-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("agent/a.py", "agent-1.data/scripts/run", "agent-1.data/purelib/b.py", "top.py"):  # fmt: skip
            archive.writestr(name, name)
    found = {entry.path: entry.data for entry in wheel_modules(path, "opt/a/site")}
    assert found == {
        "opt/a/site/agent/a.py": b"agent/a.py",
        "opt/a/site/b.py": b"agent-1.data/purelib/b.py",
        "opt/a/site/top.py": b"top.py",
    }


@pytest.mark.parametrize("name", ["../evil.py", "/etc/evil.py", "a/../../evil.py"])
def test_a_wheel_whose_names_leave_its_folder_is_refused(tmp_path, name):
    path = tmp_path / "agent-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(DocumentError):
        list(wheel_modules(path, "opt/a/site"))
