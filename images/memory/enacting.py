"""How the enactor runs a product's commands, and how nothing but the store outlives the freeze and a question.

Joins a program's folder beside the enactor: standard library only.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent
# Said by the box alone, because what is not the store is removed: nobody runs this anywhere else by mistake.
HOME = Path(os.environ["MEMTRIAL_WORK"]) / "home"
# The box names the folders that hold what processes share, too; System V's objects are there by their numbers alone.
SHARED = [Path(place) for place in os.environ["MEMTRIAL_SHARED"].split(":")]
SYSTEM_V = Path("/proc/sysvipc")
MAX_SAID_BYTES = 8 * 1024 * 1024
MAX_STDERR_BYTES = 2000
PATIENCE_S = 5.0
_IPC_RMID = 0
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_COULD_NOT_START = 127


class Ended:
    """How a command ended: its exit code, or none after its limit; what it printed."""

    def __init__(self, code: int | None, out: bytes, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def told(self) -> str:
        """Returns it as words."""
        how = "no end within its limit" if self.code is None else f"exit {self.code}"
        return f"{how} {self.err}".strip()


def stand_apart() -> None:
    """Shuts this process to the product's, which run under the same uid, and becomes the parent of what they leave.

    Without the first a hook could stop this process and speak on its pipes, out of a memory that no freeze sees;
    without the second what a hook leaves running could not be found and ended.
    """
    _prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, 0)
    _prctl("PR_SET_CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, 1)


def _prctl(name: str, option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({name})")


def bounded(
    argv: list[str],
    given: bytes,
    limit_s: float,
    cwd: Path,
    environment: Mapping[str, str],
    *,
    quiet: bool = False,
) -> Ended:
    """Runs a command within a time; its output goes to files, so that what it leaves running holds nothing up."""
    around = {
        "HOME": str(HOME),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        **environment,
    }
    with (
        tempfile.TemporaryFile(dir=PROGRAM.parent) as stdin,
        tempfile.TemporaryFile(dir=PROGRAM.parent) as out,
        tempfile.TemporaryFile(dir=PROGRAM.parent) as err,
    ):
        stdin.write(given)
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=subprocess.DEVNULL if quiet else out,
                stderr=subprocess.DEVNULL if quiet else err,
                cwd=cwd,
                env=around,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return Ended(_COULD_NOT_START, b"", str(error))
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        out.seek(0)
        err.seek(0)
        said = out.read(MAX_SAID_BYTES + 1)
        if len(said) > MAX_SAID_BYTES:
            raise ValueError(f"{argv[0]}: expected at most {MAX_SAID_BYTES} bytes, found more")
        return Ended(code, said, err.read(MAX_STDERR_BYTES).decode("utf-8", "replace").strip())


def children() -> set[int]:
    """Returns the processes whose parent is this one."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.add(int(entry.name))
    return found


def end_others() -> None:
    """Ends what the product left running, whoever its parent was: it comes to this process when that ends."""
    until = time.monotonic() + PATIENCE_S
    while left := children():
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue
        if time.monotonic() > until:
            raise ValueError("expected processes that can be ended, found some that come again")


def forget(folder: Path, *, but: tuple[Path, ...] = ()) -> None:
    """Empties a folder, whatever its permissions are; raises where something stays."""
    for child in folder.iterdir() if folder.is_dir() else ():
        if child in but:
            continue
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child, onerror=_open_up)
        else:
            child.unlink()
        if os.path.lexists(child):
            raise ValueError(f"{child.name}: expected it to be gone before the task is known")


def forget_shared() -> None:
    """Removes what processes share outside the home: it would outlive them all."""
    for place in SHARED:
        if place != SYSTEM_V:
            forget(place)
            continue
        libc = ctypes.CDLL(None, use_errno=True)
        for kind, remove in (("shm", libc.shmctl), ("msg", libc.msgctl)):
            for number in _system_v(kind):
                remove(number, _IPC_RMID, None)
        for number in _system_v("sem"):
            libc.semctl(number, 0, _IPC_RMID)
        if any(map(_system_v, ("shm", "msg", "sem"))):
            raise ValueError("expected no shared memory before the task is known, found some")


def _system_v(kind: str) -> list[int]:
    """Returns the numbers of the objects of a kind in this container; none where the kernel has no such objects."""
    table = SYSTEM_V / kind
    lines = table.read_text().splitlines()[1:] if table.is_file() else []
    return [int(line.split()[1]) for line in lines]


def _open_up(remove: object, path: str, _: object) -> None:
    """Gives the folder of what could not be removed its permissions back, and removes again."""
    for folder in (Path(path).parent, Path(path)):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o700)
    if Path(path).is_dir() and not Path(path).is_symlink():
        shutil.rmtree(path)
    else:
        Path(path).unlink()
    del remove


@contextmanager
def question(end: Callable[[], None]) -> Iterator[None]:
    """Works on a copy of the home inside the block; the files as they were frozen come back untouched.

    Args:
        end: ends what the block left behind, before the copy is removed.
    """
    frozen = HOME.with_name("home-as-frozen")
    HOME.rename(frozen)
    try:
        shutil.copytree(frozen, HOME, symlinks=True, ignore=_not_files)
        yield
    finally:
        try:
            end()
            if HOME.exists():
                forget(HOME)
                HOME.rmdir()
        finally:
            frozen.rename(HOME)


def _not_files(folder: str, names: list[str]) -> list[str]:
    """Returns what is no file, folder or link: a socket or pipe of a worker that has ended."""
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    modes = {name: (Path(folder) / name).lstat().st_mode for name in names}
    return [name for name, mode in modes.items() if not any(kind(mode) for kind in kinds)]


def program_files() -> dict[str, bytes]:
    """Returns the files of the program's folder."""
    return {
        path.relative_to(PROGRAM).as_posix(): path.read_bytes()
        for path in sorted(PROGRAM.rglob("*"))
        if path.is_file()
    }


def forget_bytecode() -> None:
    """Removes what an interpreter wrote beside the program's files."""
    for folder in [*PROGRAM.rglob("__pycache__")]:
        shutil.rmtree(folder)
