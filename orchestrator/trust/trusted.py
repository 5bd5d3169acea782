"""Opens a file that must be exactly what its owner left there: no link on the way, one name, nobody else's to write.

Linux only: openat2 (kernel 5.6) without symbolic links, `fstat` before and after reading, every folder up to
the root, access lists and file capabilities, and no mount between a folder and its file.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.core.errors import ApprovalRefused

# include/uapi/linux/openat2.h
RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
_SYSCALL_OPENAT2 = 437
_OTHERS_WRITE = 0o022
_SET_ID = 0o6000
_ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")
_CAPABILITY = "security.capability"
_PUT_BACK = "put the file back as its owner installed it; find out who changed it"
# What helps where it is not that: most of these are met by people who set a machine up.
_HELP = {
    "file-missing": "check the path; the machine's own folder is made by `memtrial trust init` and `make install-supervisor`, files of a clone are put back by `git restore approvals`",
    "folder-of-another-owner": "choose a folder whose parents belong to root or to its user alone, such as /etc/memtrial",
    "folder-writable-by-others": "choose a folder whose parents only their owner can write, such as /etc/memtrial; nothing below /tmp is. If the folder is yours: `chmod go-w`, and find out what others put there",
    "file-writable-by-others": "compare its bytes with their source, then `chmod go-w`",
    "path-not-absolute": "name it from / on",
}


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def openat2(folder: int, name: str, flags: int, resolve: int) -> int:
    """Opens below a folder's descriptor under the kernel's own rules of resolution.

    Raises:
        OSError: as open(2), and ELOOP or EXDEV where a rule forbids the way.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    library = ctypes.CDLL(None, use_errno=True)
    handle = library.syscall(
        _SYSCALL_OPENAT2,
        ctypes.c_int(folder),
        os.fsencode(name),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if handle < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return int(handle)


def read_trusted(path: Path, *, owner_uid: int, max_bytes: int) -> bytes:
    """Reads a file that only its owner could have written, and that did not change meanwhile.

    Args:
        path: absolute.
        owner_uid: whose the file and every folder above it must be (root's are always good).
        max_bytes: upper bound of the size, in bytes.

    Raises:
        ApprovalRefused: `reference` says which rule does not hold.
    """
    check_folders(path.parent, owner_uid=owner_uid)
    with _opened(path) as handle:
        before = os.fstat(handle)
        _check_file(handle, before, path, owner_uid)
        if before.st_size > max_bytes:
            raise _refuse("file-too-large", path, f"at most {max_bytes} bytes", f"{before.st_size}")
        data = b"".join(_pieces(handle, max_bytes))
        after = os.fstat(handle)
        if _version(before) != _version(after) or len(data) != before.st_size:
            raise _refuse("file-changed-while-read", path, "a file at rest", "one that changed")
        return data


def _pieces(handle: int, max_bytes: int) -> Iterator[bytes]:
    left = max_bytes + 1
    while left > 0 and (piece := os.read(handle, min(left, 1 << 20))):
        left -= len(piece)
        yield piece


def _version(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_ino, found.st_dev, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Opens the folder without links, then the file below it without links and without a mount."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    folder = handle = -1
    plain = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
    try:
        folder = openat2(
            root, str(path.parent).lstrip("/") or ".", os.O_PATH | os.O_DIRECTORY, plain
        )
        handle = openat2(
            folder,
            path.name,
            os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK,
            plain | RESOLVE_BENEATH | RESOLVE_NO_XDEV,
        )
        yield handle
    except OSError as error:
        reference = {
            errno.ELOOP: "link-on-the-way",
            errno.EXDEV: "mount-on-the-way",
            errno.ENOENT: "file-missing",
            errno.ENOSYS: "kernel-too-old",
        }.get(error.errno or 0, "file-not-opened")
        raise _refuse(reference, path, "a regular file", error.strerror or str(error)) from error
    finally:
        for descriptor in (handle, folder, root):
            if descriptor >= 0:
                os.close(descriptor)


def _check_file(handle: int, found: os.stat_result, path: Path, owner_uid: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _refuse("file-not-regular", path, "a regular file", stat.filemode(found.st_mode))
    if found.st_nlink != 1:
        raise _refuse("file-has-other-names", path, "one name", f"{found.st_nlink} hard links")
    if found.st_uid not in {owner_uid, 0}:
        raise _refuse("file-of-another-owner", path, f"uid {owner_uid}", f"uid {found.st_uid}")
    if found.st_mode & _OTHERS_WRITE:
        raise _refuse(
            "file-writable-by-others", path, "no write bit of others", stat.filemode(found.st_mode)
        )
    if found.st_mode & _SET_ID:
        raise _refuse("file-set-id", path, "no set-id bit", stat.filemode(found.st_mode))
    _check_attributes(handle, path)


def _check_attributes(place: int | Path, path: Path) -> None:
    try:
        names = os.listxattr(place)
    except OSError as error:
        # A file system without extended attributes has none of them.
        if error.errno == errno.EOPNOTSUPP:
            return
        raise _refuse(
            "file-not-opened", path, "its attributes", error.strerror or "none"
        ) from error
    if any(name in _ACCESS_LISTS for name in names):
        raise _refuse("file-has-access-list", path, "no access list", "one")
    if _CAPABILITY in names:
        raise _refuse("file-has-capability", path, "no file capability", "one")


def check_folders(folder: Path, *, owner_uid: int) -> None:
    """Checks a folder and every one above it: real, of the owner or root, and no one else's to write.

    Raises:
        ApprovalRefused: one of them is a link, of another owner, writable by others or has an access list.
    """
    if not folder.is_absolute():
        raise _refuse("path-not-absolute", folder, "an absolute path", str(folder))
    for place in (folder, *folder.parents):
        try:
            found = os.lstat(place)
        except OSError as error:
            raise _refuse("file-missing", place, "a folder", error.strerror or "none") from error
        if stat.S_ISLNK(found.st_mode):
            raise _refuse("link-on-the-way", place, "a folder", "a symbolic link")
        if not stat.S_ISDIR(found.st_mode):
            raise _refuse("file-not-regular", place, "a folder", stat.filemode(found.st_mode))
        if found.st_uid not in {owner_uid, 0}:
            raise _refuse(
                "folder-of-another-owner", place, f"uid {owner_uid} or root", f"uid {found.st_uid}"
            )
        if found.st_mode & _OTHERS_WRITE:
            raise _refuse(
                "folder-writable-by-others",
                place,
                "no write bit of others",
                stat.filemode(found.st_mode),
            )
        _check_attributes(place, place)


def _refuse(reference: str, path: Path, expected: str, found: str) -> ApprovalRefused:
    return ApprovalRefused(
        reference,
        f"{path}: expected {expected}, found {found}",
        hint=_HELP.get(reference, _PUT_BACK),
    )
