"""Promise: a file is read only if nobody but its owner could have put it there or changed it on the way."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.trust.trusted import check_folders, read_trusted

ROOT = Path(__file__).resolve().parents[3]
ME = os.geteuid()


@pytest.fixture
def file(clean_folder) -> Path:
    path: Path = clean_folder / "d" / "file"
    path.parent.mkdir(mode=0o755)
    path.write_bytes(b"bytes")
    path.chmod(0o644)
    return path


def refusal(path: Path, *, owner_uid: int = ME, max_bytes: int = 100) -> str:
    with pytest.raises(ApprovalRefused) as refused:
        read_trusted(path, owner_uid=owner_uid, max_bytes=max_bytes)
    return refused.value.reference


def test_a_plain_file_is_read(file):
    assert read_trusted(file, owner_uid=ME, max_bytes=5) == b"bytes"


def test_a_link_in_place_of_the_file_or_of_a_folder_is_refused(file, clean_folder):
    link = file.with_name("link")
    link.symlink_to(file.name)
    assert refusal(link) == "link-on-the-way"
    (clean_folder / "way").symlink_to("d")
    assert refusal(clean_folder / "way" / "file") == "link-on-the-way"
    assert refusal(Path(f"/proc/self/fd/{os.open(file, os.O_RDONLY)}")) == "link-on-the-way"


def test_the_kernel_refuses_a_linked_folder_also_where_the_folders_were_sound_before(
    file, clean_folder, monkeypatch
):
    (clean_folder / "way").symlink_to("d")
    monkeypatch.setattr("orchestrator.trust.trusted.check_folders", lambda *_, **__: None)
    assert refusal(clean_folder / "way" / "file") == "link-on-the-way"


def test_a_second_name_is_refused(file):
    file.with_name("other").hardlink_to(file)
    assert refusal(file) == "file-has-other-names"


@pytest.mark.parametrize(
    ("mode", "reference"),
    [
        (0o664, "file-writable-by-others"),
        (0o646, "file-writable-by-others"),
        (0o4755, "file-set-id"),
        (0o2755, "file-set-id"),
    ],
)
def test_modes_that_let_others_in_are_refused(file, mode, reference):
    file.chmod(mode)
    assert refusal(file) == reference


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_folder_that_others_can_write_is_refused(file, mode):
    file.parent.chmod(mode)
    assert refusal(file) == "folder-writable-by-others"


def _give_away(path: Path) -> int:
    """Makes a path somebody else's; returns the uid that it should have had."""
    if ME == 0:
        os.chown(path, 12345, -1)
        return 0
    return ME + 1


def test_a_file_of_somebody_else_is_refused(file):
    owner = _give_away(file)
    expected = {"file-of-another-owner"} if ME == 0 else {"folder-of-another-owner"}
    assert refusal(file, owner_uid=owner) in expected


def test_a_folder_of_somebody_else_is_refused(file):
    owner = _give_away(file.parent)
    assert refusal(file, owner_uid=owner) == "folder-of-another-owner"


def test_what_is_no_file_is_refused_without_waiting(file):
    pipe = file.with_name("pipe")
    os.mkfifo(pipe)
    began = time.monotonic()
    assert refusal(pipe) == "file-not-regular"
    assert refusal(file.parent) == "file-not-regular"
    assert time.monotonic() - began < 30


def _access_list(permissions: int, mask: int) -> bytes:
    """An access list that gives one more user a right, as the kernel stores it (linux/posix_acl_xattr.h)."""
    entries = [
        (1, 6, 0xFFFFFFFF),
        (2, permissions, 12345),
        (4, 4, 0xFFFFFFFF),
        (16, mask, 0xFFFFFFFF),
        (32, 4, 0xFFFFFFFF),
    ]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def test_a_device_is_no_file():
    with pytest.raises(ApprovalRefused) as refused:
        read_trusted(Path("/dev/null"), owner_uid=ME, max_bytes=10)
    assert refused.value.reference == "file-not-regular"


@pytest.mark.parametrize("mask", [6, 4], ids=["open", "hidden by the mask"])
def test_an_access_list_is_refused_also_where_the_mode_looks_clean(file, mask):
    os.setxattr(file, "system.posix_acl_access", _access_list(6, mask))
    if mask == 4:
        assert file.stat().st_mode & 0o022 == 0
    assert refusal(file) in {"file-has-access-list", "file-writable-by-others"}
    if mask == 4:
        assert refusal(file) == "file-has-access-list"


def test_an_access_list_of_a_folder_is_refused(file):
    os.setxattr(file.parent, "system.posix_acl_default", _access_list(6, 4))
    assert refusal(file) == "file-has-access-list"


def test_a_file_capability_is_refused(file):
    """Set in a user namespace where we are not root, so that the kernel takes it from anybody."""
    value = struct.pack("<IIIII", 0x02000000, 1 << 21, 0, 0, 0).hex()
    program = (
        f"import os; os.setxattr({str(file)!r}, 'security.capability', bytes.fromhex({value!r}))"
    )
    outside = [] if ME == 0 else ["unshare", "-Ur"]
    subprocess.run([*outside, sys.executable, "-c", program], check=True)
    assert refusal(file) == "file-has-capability"


def test_a_mount_over_the_file_is_refused(file):
    other = file.with_name("other")
    other.write_bytes(b"evil!")
    program = (
        "from pathlib import Path; import sys\n"
        "from orchestrator.core.errors import ApprovalRefused\n"
        "from orchestrator.trust.trusted import read_trusted\n"
        f"try: print(read_trusted(Path({str(file)!r}), owner_uid=0, max_bytes=100))\n"
        "except ApprovalRefused as e: print(e.reference)\n"
    )
    inside = 'mount --bind "$1" "$2" && exec "$3" -c "$4"'
    finished = subprocess.run(
        [
            "unshare",
            *([] if ME == 0 else ["-Ur"]),
            "-m",
            "sh",
            "-c",
            inside,
            "sh",
            str(other),
            str(file),
            sys.executable,
            program,
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert finished.stdout.strip() == "mount-on-the-way"
    assert read_trusted(file, owner_uid=ME, max_bytes=100) == b"bytes"


def test_a_file_that_changes_while_it_is_read_is_refused(file, monkeypatch):
    real = os.read

    def read_and_touch(handle: int, size: int) -> bytes:
        data = real(handle, size)
        writer = threading.Thread(target=file.write_bytes, args=(b"other",))
        writer.start()
        writer.join()
        return data

    monkeypatch.setattr("orchestrator.trust.trusted.os.read", read_and_touch)
    assert refusal(file) == "file-changed-while-read"


def test_sizes_and_names_are_bounded(file):
    assert refusal(file, max_bytes=4) == "file-too-large"
    assert refusal(file.with_name("none")) == "file-missing"
    assert refusal(Path("relative")) == "path-not-absolute"


def test_a_path_that_is_not_absolute_missing_or_no_folder_is_refused(file, clean_folder):
    for folder, reference in (
        (Path("relative"), "path-not-absolute"),
        (clean_folder / "none", "file-missing"),
        (file, "file-not-regular"),
    ):
        with pytest.raises(ApprovalRefused) as refused:
            check_folders(folder, owner_uid=ME)
        assert refused.value.reference == reference


@pytest.mark.parametrize(
    ("number", "reference"), [(errno.EOPNOTSUPP, None), (errno.EIO, "file-not-opened")]
)
def test_a_file_system_without_attributes_is_none_with_unreadable_ones(
    file, monkeypatch, number, reference
):
    def fail(_: object) -> list[str]:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "listxattr", fail)
    if reference is None:
        assert read_trusted(file, owner_uid=ME, max_bytes=5) == b"bytes"
    else:
        assert refusal(file) == reference


def test_a_file_of_just_the_largest_size_is_read(file):
    assert read_trusted(file, owner_uid=ME, max_bytes=5) == b"bytes"


def test_a_file_of_many_pieces_is_read_whole(file):
    data = bytes(range(256)) * 8193
    file.write_bytes(data)
    assert read_trusted(file, owner_uid=ME, max_bytes=len(data)) == data


def test_reading_leaves_nothing_open(file):
    before = len(list(Path("/proc/self/fd").iterdir()))
    read_trusted(file, owner_uid=ME, max_bytes=5)
    assert refusal(file.with_name("none")) == "file-missing"
    assert len(list(Path("/proc/self/fd").iterdir())) == before
