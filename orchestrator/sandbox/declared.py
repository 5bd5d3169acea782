"""What the container of an arm must hold, and the comparison with what our program found in it.

Pure: from image, pin, profile and the arm's additions to a declaration; from declaration and inventory to
differences. The engine's own mounts and files are declared by name, and what may lie there by kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from orchestrator.core.canonical import sha256_hex
from orchestrator.model.condition import Condition
from orchestrator.model.isolation import (
    Additions,
    DeclaredInventory,
    Difference,
    FileSeen,
    Inventory,
    MountSeen,
    ProcessSeen,
    Variable,
)
from orchestrator.model.plan import TaskPin
from orchestrator.sandbox.config import container_config
from orchestrator.sandbox.harden import (
    AGENT_UID,
    GATEWAY_FOLDER,
    GATEWAY_SOCKET,
    HOSTNAME,
    Uids,
    agent_profile,
)

# Where an engine puts its init program differs; that it runs our program and nothing else does not.
INIT = "<init>"
# What engines mount into every container: kernel interfaces, masks over them, name files, their init.
ENGINE_MOUNTS = (
    "/proc:proc",
    "/proc/*:proc",
    "/proc/*:tmpfs",
    "/proc/*:devtmpfs",
    "/sys:sysfs",
    "/sys/*:sysfs",
    "/sys/*:tmpfs",
    "/sys/fs/cgroup:cgroup2",
    "/sys/fs/cgroup/*:cgroup",
    "/sys/fs/cgroup/*:cgroup2",
    "/dev:tmpfs",
    "/dev/pts:devpts",
    "/dev/mqueue:mqueue",
    "/dev/shm:tmpfs",  # noqa: S108 - the container's own
    "/etc/hosts:*",
    "/etc/hostname:*",
    "/etc/resolv.conf:*",
    "/sbin/docker-init:*",
    "/usr/sbin/docker-init:*",
    "/dev/init:*",
)
ENGINE_FILES = (
    *("file:/.dockerenv", "file:/run/.containerenv", "link:/etc/mtab"),
    *("file:/etc/hosts", "file:/etc/hostname", "file:/etc/resolv.conf"),
    *("file:/sbin/docker-init", "file:/usr/sbin/docker-init", "file:/dev/init"),
    *(f"device:/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")),
    *(f"link:/dev/{name}" for name in ("fd", "stdin", "stdout", "stderr", "core", "ptmx")),
    *("device:/dev/pts/ptmx", "device:/dev/ptmx"),
)
# These name the machine's resolver and the engine's version; their content is scanned, not compared.
STANDARD_DESCRIPTORS = ("0:pipe", "1:pipe", "2:pipe")


# What a way to the gateway adds to every arm alike: a folder with one socket, read-only.
GATEWAY = Additions(
    files=(FileSeen(path=GATEWAY_SOCKET, kind="other", bytes=0, sha256=None),),
    mounts=(MountSeen(point=GATEWAY_FOLDER, fs_type="*", writable=False),),
)


def declare(
    task: TaskPin, condition: Condition, listing_sha256: str, *, gateway: bool = False
) -> DeclaredInventory:
    """Returns what the agent's container of this arm must hold before `act`.

    Args:
        task: image, tree and limits.
        condition: the arm, with what it may add.
        listing_sha256: digest over the listing of the image's layers.
        gateway: whether the trial has a way to the gateway.
    """
    profile = agent_profile(task.limits, Uids(AGENT_UID))
    config = container_config()["Env"]
    variables = [str(item).partition("=") for item in config] if isinstance(config, list) else []
    environment = {name: value for name, _, value in variables} | {"HOSTNAME": HOSTNAME}
    points = ["/work", *(point for point, _ in profile.tmpfs)]
    program = tuple(profile.command)
    return DeclaredInventory(
        condition_id=condition.id,
        listing_sha256=listing_sha256,
        work_tree=task.tree,
        environment=tuple(
            Variable(name=name, value=environment[name]) for name in sorted(environment)
        ),
        mounts=(
            MountSeen(point="/", fs_type="*", writable=False),
            *(MountSeen(point=point, fs_type="tmpfs", writable=True) for point in sorted(points)),
        ),
        processes=(
            ProcessSeen(command=(INIT, *program), descriptors=STANDARD_DESCRIPTORS),
            ProcessSeen(command=program, descriptors=STANDARD_DESCRIPTORS),
        ),
        interfaces=("lo",),
        uid=AGENT_UID,
        hostname=HOSTNAME,
        engine_files=ENGINE_FILES,
        engine_mounts=ENGINE_MOUNTS,
        additions=_both(condition.adds, GATEWAY) if gateway else condition.adds,
    )


def _both(one: Additions, other: Additions) -> Additions:
    return Additions(
        files=(*one.files, *other.files),
        environment=(*one.environment, *other.environment),
        mounts=(*one.mounts, *other.mounts),
        processes=(*one.processes, *other.processes),
    )


def compare(declared: DeclaredInventory, found: Inventory) -> tuple[Difference, ...]:
    """Returns every difference between declaration and container; none means that they are equal."""
    return (
        *_files(declared, found),
        *_named("environment", _variables(declared), {v.name: v.value for v in found.environment}),
        *_mounts(declared, found),
        *_processes(declared, found),
        *(
            _difference("interface", name, None, name)
            for name in sorted(set(found.interfaces) - set(declared.interfaces))
        ),
        *_scalars(declared, found),
    )


def _variables(declared: DeclaredInventory) -> dict[str, str]:
    both = (*declared.environment, *declared.additions.environment)
    return {variable.name: variable.value for variable in both}


def _scalars(declared: DeclaredInventory, found: Inventory) -> Iterable[Difference]:
    powerless = set(found.capabilities_effective) == {"0"}
    for what, subject, expected, is_ in (
        ("image_file", "listing of the image", declared.listing_sha256, found.listing_sha256),
        ("work_tree", "/work", declared.work_tree, found.work_tree),
        ("user", "uid", str(declared.uid), str(found.uid)),
        ("user", "capabilities", "0", "0" if powerless else found.capabilities_effective),
        ("hostname", "hostname", declared.hostname, found.hostname),
        ("file", "files beyond the bound", "False", str(found.files_cut)),
    ):
        if expected != is_:
            yield _difference(what, subject, expected, is_)


def _files(declared: DeclaredInventory, found: Inventory) -> Iterable[Difference]:
    engine = set(declared.engine_files)
    folders = {mount.point for mount in found.mounts}
    seen = {
        file.path: _of_file(file)
        for file in found.files
        if f"{file.kind}:{file.path}" not in engine
        and not (file.kind == "folder" and file.path in folders)
    }
    return _named("file", {file.path: _of_file(file) for file in declared.additions.files}, seen)


def _of_file(file: FileSeen) -> str:
    return f"{file.kind} {file.bytes} {file.sha256}"


def _mounts(declared: DeclaredInventory, found: Inventory) -> Iterable[Difference]:
    expected = {
        m.point: f"{m.fs_type} {m.writable}" for m in (*declared.mounts, *declared.additions.mounts)
    }
    seen: dict[str, str] = {}
    for mount in found.mounts:
        name = f"{mount.point}:{mount.fs_type}"
        if mount.point not in expected and any(
            fnmatchcase(name, pattern) for pattern in declared.engine_mounts
        ):
            continue
        anything = expected.get(mount.point, "").startswith("* ")
        key = mount.point if mount.point not in seen else f"{mount.point} (again)"
        seen[key] = f"{'*' if anything else mount.fs_type} {mount.writable}"
    return _named("mount", expected, seen)


def _processes(declared: DeclaredInventory, found: Inventory) -> Iterable[Difference]:
    expected = [*declared.processes, *declared.additions.processes]
    undeclared: list[ProcessSeen] = []
    for process in found.processes:
        twin = next((e for e in expected if _same_command(e.command, process.command)), None)
        if twin is None:
            undeclared.append(process)
            continue
        expected.remove(twin)
        if not _descriptors_fit(twin, process):
            yield _difference(
                "descriptor",
                process.command[0] if process.command else "?",
                " ".join(twin.descriptors),
                " ".join(process.descriptors),
            )
    for process in undeclared:
        words = " ".join(process.command)
        yield _difference("process", process.command[0] if process.command else "?", None, words)
    for process in expected:
        yield _difference("process", process.command[0], " ".join(process.command), None)


def _same_command(expected: tuple[str, ...], found: tuple[str, ...]) -> bool:
    if expected[0] != INIT:
        return expected == found
    # An init is called with a separator before the program, and by a path or name of its own.
    program = expected[1:]
    return (
        len(found) > len(program)
        and found[-len(program) :] == program
        and set(found[1 : -len(program)]) <= {"--"}
        and "init" in found[0]
    )


def _descriptors_fit(expected: ProcessSeen, found: ProcessSeen) -> bool:
    plain = tuple(
        item.replace(":socket", ":pipe").replace(":/dev/null", ":pipe")
        for item in found.descriptors
    )
    # An init that the container's account may not look into shows none.
    return plain == expected.descriptors or (expected.command[0] == INIT and not plain)


def _named(what: str, expected: dict[str, str], found: dict[str, str]) -> Iterable[Difference]:
    for name in sorted({*expected, *found}):
        if expected.get(name) != found.get(name):
            yield _difference(what, name, expected.get(name), found.get(name))


def _difference(what: str, subject: str, expected: str | None, found: str | None) -> Difference:
    return Difference(
        what=what,  # type: ignore[arg-type]
        how="undeclared" if expected is None else "missing" if found is None else "different",
        subject=subject,
        expected_sha256=None if expected is None else sha256_hex(expected.encode()),
        found_sha256=None if found is None else sha256_hex(found.encode("utf-8", "replace")),
    )
