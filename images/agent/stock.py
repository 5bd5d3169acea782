"""Takes stock of the agent's container before any agent code has run.

Reads the whole file system without following links, /proc and /sys. Writes nothing. What belongs to the
image is told by a digest over its listing; everything else by name, size, SHA-256 and (in bounds) content.
Standard library only.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

# The engine's own entries in the container's layer.
ENGINE_ENTRIES = frozenset({"/.dockerenv", "/etc/mtab", "/run/.containerenv"})
# File systems of the kernel: nothing can be left in them, but in a tmpfs that masks a part of them.
KERNEL = ("/proc", "/sys")
ENGINE_START = ["runc", "init"]
PATIENCE_S = 5.0
CGROUPS = "/sys/fs/cgroup"
# Pipes and sockets are told apart by numbers that mean nothing to anybody else.
NUMBERED = re.compile(r":\[[0-9]+\]$")
MAX_FILES = 5_000
MAX_CONTENT_BYTES = 64 * 1024
MAX_ALL_CONTENT_BYTES = 1024 * 1024


def take(checkout: Path, work: Path) -> dict[str, object]:
    """Describes the container as the agent will find it."""
    entries = listing()
    found = mounts()
    outside = [*outside_files(found, str(work)), *changed_in_work(str(checkout), str(work))]
    return {
        "listing_sha256": hashlib.sha256("\n".join(entries).encode()).hexdigest(),
        "listing_entries": len(entries),
        "work_tree": tree_id(str(work), top=True).hex(),
        "files": with_content(outside[:MAX_FILES]),
        "files_cut": len(outside) > MAX_FILES,
        "environment": sorted(os.environ.items()),
        "mounts": found,
        "processes": processes(),
        "interfaces": sorted(os.listdir("/sys/class/net")),
        "uid": os.getuid(),
        "capabilities_effective": capabilities(),
        "hostname": os.uname().nodename,
    }


def mounts() -> list[dict[str, object]]:
    """Returns every mount point (proc(5), mountinfo), without the engine's own storage paths."""
    found: list[dict[str, object]] = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        found.append(
            {
                "point": unescaped(fields[4]),
                "root": unescaped(fields[3]),
                "fs_type": right.split(" ")[0],
                "writable": "rw" in fields[5].split(","),
            }
        )
    return sorted(found, key=lambda mount: str(mount["point"]))


def unescaped(text: str) -> str:
    """Undoes the octal escapes of mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def listing() -> list[str]:
    """Returns one sorted line for each entry of the root file system below no other mount."""
    points = {str(mount["point"]) for mount in mounts()} - {"/"}
    lines = [
        line_of(path, entry)
        for path, entry in walk("/", points)
        if path not in ENGINE_ENTRIES and path not in points
    ]
    return sorted(lines)


def walk(top: str, stop_at: set[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yields every entry below a folder; folders that cannot be read are entries without content."""
    stack = [top]
    while stack:
        folder = stack.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            yield entry.path, found
            if stat.S_ISDIR(found.st_mode) and entry.path not in stop_at:
                stack.append(entry.path)


def line_of(path: str, found: os.stat_result) -> str:
    """Returns the line of an entry: name, kind and mode, size, time, target of a link."""
    name = os.fsencode(path).decode("utf-8", "backslashreplace")
    if stat.S_ISDIR(found.st_mode):
        return f"{name}\t{found.st_mode:o}\t0\t0\t"
    target = os.readlink(path) if stat.S_ISLNK(found.st_mode) else ""
    return f"{name}\t{found.st_mode:o}\t{found.st_size}\t{int(found.st_mtime)}\t{target}"


def outside_files(found: list[dict[str, object]], work: str) -> list[str]:
    """Returns every path on a mount that is neither the image nor the kernel's nor the work area."""
    paths = [path for path in sorted(ENGINE_ENTRIES) if os.path.lexists(path)]
    points = {str(mount["point"]): str(mount["fs_type"]) for mount in found}
    for point in sorted(set(points) - {"/", work}):
        if point.startswith(KERNEL) and (
            points[point] != "tmpfs" or point == CGROUPS or not Path(point).is_dir()
        ):
            continue
        if not Path(point).is_dir():
            paths.append(point)
            continue
        paths.extend(path for path, _ in walk(point, set(points)) if path not in points)
    return paths


def changed_in_work(checkout: str, work: str) -> list[str]:
    """Returns what stands in the work area and not, byte for byte, in the image's checkout, and the reverse."""
    changed = []
    for path, found in walk(work, set()):
        twin = checkout + path.removeprefix(work)
        if not os.path.lexists(twin) or (
            stat.S_ISREG(found.st_mode) and digest(path) != digest(twin)
        ):
            changed.append(path)
    gone = [
        path
        for path, _ in walk(checkout, set())
        if not os.path.lexists(work + path.removeprefix(checkout))
    ]
    return sorted(changed + gone)


def digest(path: str) -> str | None:
    """Returns the SHA-256 of a file, or None if it cannot be read."""
    try:
        with Path(path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def with_content(paths: list[str]) -> list[dict[str, object]]:
    """Describes files; the content of the first ones comes along for the leak scan."""
    left = MAX_ALL_CONTENT_BYTES
    described: list[dict[str, object]] = []
    for path in paths:
        found = os.lstat(path)
        mode = found.st_mode
        item: dict[str, object] = {
            "path": os.fsencode(path).decode("utf-8", "backslashreplace"),
            "kind": kind_of(mode),
            "bytes": found.st_size if stat.S_ISREG(mode) else 0,
            "sha256": digest(path) if stat.S_ISREG(mode) else None,
        }
        if stat.S_ISREG(mode) and left > 0 and item["sha256"] is not None:
            with Path(path).open("rb") as stream:
                content = stream.read(min(MAX_CONTENT_BYTES, left))
            left -= len(content)
            item["content_base64"] = base64.b64encode(content).decode("ascii")
        described.append(item)
    return described


def kind_of(mode: int) -> str:
    """Returns the kind of an entry in a word."""
    for test, word in (
        (stat.S_ISREG, "file"),
        (stat.S_ISLNK, "link"),
        (stat.S_ISDIR, "folder"),
        (stat.S_ISCHR, "device"),
        (stat.S_ISBLK, "device"),
    ):
        if test(mode):
            return word
    return "other"


def tree_id(folder: str, *, top: bool = False) -> bytes:
    """Returns git's id of a folder as a tree (gitformat: tree object); the top's own `.git` is left out."""
    lines: list[tuple[bytes, bytes]] = []
    for entry in os.scandir(folder):
        if top and entry.name == ".git":
            continue
        found = entry.stat(follow_symlinks=False)
        name = os.fsencode(entry.name)
        if stat.S_ISDIR(found.st_mode):
            child = tree_id(entry.path)
            lines.append((name + b"/", b"40000 " + name + b"\0" + child))
            continue
        if stat.S_ISLNK(found.st_mode):
            mode, data = b"120000", os.fsencode(os.readlink(entry.path))
        else:
            mode = b"100755" if found.st_mode & 0o100 else b"100644"
            data = Path(entry.path).read_bytes() if stat.S_ISREG(found.st_mode) else b""
        lines.append((name, mode + b" " + name + b"\0" + object_id(b"blob", data)))
    return object_id(b"tree", b"".join(line for _, line in sorted(lines)))


def object_id(kind: bytes, body: bytes) -> bytes:
    """Returns the id of a git object: SHA-1 over `kind SP length NUL body`."""
    return hashlib.sha1(b"%s %d\0" % (kind, len(body)) + body, usedforsecurity=False).digest()


def processes() -> list[dict[str, object]]:
    """Returns every process with its command line and where its descriptors lead.

    On a busy machine the engine's own first process of this very call may not be gone yet. It is waited for; what
    stays, whatever it calls itself, is listed.
    """
    until = time.monotonic() + PATIENCE_S
    found = listed()
    while any(entry["command"] == ENGINE_START for entry in found) and time.monotonic() < until:
        time.sleep(0.05)
        found = listed()
    return found


def listed() -> list[dict[str, object]]:
    """Returns the processes that are there now."""
    found: list[dict[str, object]] = []
    for number in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        command = read_line(f"/proc/{number}/cmdline").split("\0")[:-1]
        entry: dict[str, object] = {"command": command, "descriptors": descriptors(number)}
        # One that ended while it was read is not there; a dead one that nobody has waited for is.
        if Path(f"/proc/{number}").is_dir():
            found.append(entry)
    return found


def read_line(path: str) -> str:
    """Reads a small file of /proc; one that is gone is empty."""
    try:
        return Path(path).read_bytes().decode("utf-8", "backslashreplace")
    except OSError:
        return ""


def descriptors(number: int) -> list[str]:
    """Returns what the descriptors of a process lead to: pipe, socket, or a path."""
    folder = f"/proc/{number}/fd"
    found = []
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in sorted(names, key=int):
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            # The descriptor of this very listing is closed by now.
            continue
        found.append(f"{name}:{NUMBERED.sub('', target)}")
    return found


def capabilities() -> str:
    """Returns the effective capability mask of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapEff:"):
            return line.split()[1]
    return "unknown"
