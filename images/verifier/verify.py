"""The verifier: builds the candidate's tree from pinned objects and the diff, later hands out the report.

The work area is made from a tree whose id must equal the harvested one, before any candidate code has
run; files that a runner reads before tests are taken from the pinned tree whatever the candidate made of
them. The tests are started by the engine under other uids, which cannot write the sources, the hidden
tests or this program's output. Writes one line of JSON per step.
"""

from __future__ import annotations

import ast
import base64
import importlib.util
import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from frames import answer, read_frame
from plumbing import GitFailed, Repository

WORK = Path("/work")
REPORT = Path("/report/report.xml")
LINK_MODE = "120000"
LEFT_OUT = ".left-out.json"
# Of CPU time, which load does not stretch; the wall time is only there so that nothing waits for ever.
COMPILE_CPU_S = 60
COMPILE_WALL_S = 160
# Load stretches the end of a process too, and only one that does not end makes anybody wait this long.
LINGER_STEPS = 100
LINGER_STEP_S = 0.1
COMPILE_PROGRAM = """
import sys
for path in sys.stdin.buffer.read().split(b"\\0"):
    if path:
        with open(path, "rb") as stream:
            compile(stream.read(), path, "exec", dont_inherit=True)
"""


class Refused(Exception):
    """The candidate's tree cannot be built as asked."""


class Unusable(Exception):
    """The task itself cannot be examined as asked."""


def build_tree(repository: Repository, frame: dict[str, Any]) -> str:
    """Applies the diff to the pinned tree in an index of ours; the result must be the harvested tree."""
    repository.git("read-tree", str(frame["pinned_tree"]))
    diff = base64.b64decode(str(frame["diff_base64"]))
    if diff:
        try:
            repository.git("apply", "--cached", "--whitespace=nowarn", "-", data=diff)
        except GitFailed as error:
            raise Refused(f"the diff cannot be applied: {error}") from error
    tree = repository.git("write-tree").decode("ascii").strip()
    if tree != frame["expect_tree"]:
        raise Refused(f"the diff gives tree {tree}, harvested was {frame['expect_tree']}")
    return tree


def restore_protected(
    repository: Repository, pinned: str, tree: str, rules: list[str]
) -> list[str]:
    """Gives protected paths back their pinned content in the index; returns those that differed."""
    expression = re.compile("|".join(f"(?:{rule})" for rule in rules) or r"(?!)", re.DOTALL)
    old, new = repository.tree_entries(pinned), repository.tree_entries(tree)
    changed = [path for path in sorted({*old, *new}) if old.get(path) != new.get(path)]
    restored = [path for path in changed if expression.fullmatch(path.casefold())]
    gone = "".join(f"0 {'0' * 40}\t{path}\0" for path in restored if path in new)
    back = "".join(f"{old[path][0]} {old[path][1]}\t{path}\0" for path in restored if path in old)
    repository.git("update-index", "-z", "--index-info", data=(gone + back).encode())
    return restored


def write_out(repository: Repository) -> None:
    """Writes the index out; the work tree is named only here, and it is empty."""
    arguments = ("--work-tree=/work", "-c", "core.bare=false", "checkout-index", "-a", "-f", "-q")
    repository.git(*arguments, "--prefix=/work/")


def write_files(root: Path, files: list[list[str]]) -> None:
    """Puts hidden tests and seals in place; no candidate link may stand in the way."""
    for path, text in files:
        target = root
        for part in Path(path).parts[:-1]:
            target /= part
            if target.is_symlink() or (target.exists() and not target.is_dir()):
                raise Refused(f"{target} is not a folder, so hidden test {path} cannot be placed")
            target.mkdir(exist_ok=True)
        target /= Path(path).name
        if target.is_symlink() or target.exists():
            raise Refused(f"hidden test path {path} exists already")
        target.write_text(text, encoding="utf-8")


def pinned_files(
    repository: Repository, entries: dict[str, tuple[str, str]], places: list[str]
) -> list[list[str]]:
    """Returns path and text of the pinned files at or below places; what is no text is no test."""
    found: list[list[str]] = []
    for path, (mode, blob) in sorted(entries.items()):
        if mode == LINK_MODE or not any(path == p or path.startswith(f"{p}/") for p in places):
            continue
        try:
            found.append([path, repository.git("cat-file", "blob", blob).decode()])
        except UnicodeDecodeError:
            continue
    return found


def candidate_names(pinned: list[str], roots: list[str], files: list[list[str]]) -> list[str]:
    """Returns the top-level modules of the pinned sources that the hidden files import."""
    below = [
        path.removeprefix("" if root == "." else f"{root}/")
        for root in roots
        for path in pinned
        if path.endswith(".py") and (root == "." or path.startswith(f"{root}/"))
    ]
    modules = {path.split("/")[0].removesuffix(".py") for path in below}
    wanted: set[str] = set()
    for path, text in files:
        for node in ast.walk(ast.parse(text, path)) if path.endswith(".py") else ():
            if isinstance(node, ast.Import):
                wanted |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                wanted.add(node.module.partition(".")[0])
    names = sorted(modules & wanted)
    shadowed = [name for name in names if importlib.util.find_spec(name) is not None]
    if shadowed:
        raise Unusable(
            f"{', '.join(shadowed)} of the checkout exists in the examiner too; "
            'give the task the boundary "in_process"'
        )
    return names


def limit_cpu() -> None:
    """Bounds the CPU time of this process, a child that is about to become another program."""
    resource.setrlimit(resource.RLIMIT_CPU, (COMPILE_CPU_S, COMPILE_CPU_S + 5))


def compile_error(roots: list[str]) -> str | None:
    """Compiles every Python file below the source roots, without running any of them."""
    paths = [
        os.fsencode(path)
        for root in roots
        for path in sorted((WORK / root).rglob("*.py"))
        if path.is_file() and not path.is_symlink()
    ]
    try:
        finished = subprocess.run(
            ["python3", "-I", "-c", COMPILE_PROGRAM],
            input=b"\0".join(paths),
            capture_output=True,
            check=False,
            timeout=COMPILE_WALL_S,
            preexec_fn=limit_cpu,
        )
    except subprocess.TimeoutExpired:
        return f"compiling took more than {COMPILE_WALL_S} s"
    if finished.returncode == 0:
        return None
    if finished.returncode == -signal.SIGXCPU:
        return f"compiling took more than {COMPILE_CPU_S} s of CPU time"
    return (
        finished.stderr[-1500:].decode("utf-8", "replace").strip() or f"exit {finished.returncode}"
    )


def open_to_others() -> None:
    """Lets the tests' uid read the sources; it owns nothing there."""
    for folder, names, files in os.walk(WORK):
        for name in names + files:
            path = Path(folder) / name
            if not path.is_symlink():
                mode = stat.S_IMODE(path.stat().st_mode)
                path.chmod(0o755 if path.is_dir() or mode & 0o100 else 0o644)


def read_report(max_bytes: int) -> str | None:
    """Reads the runner's report if it is a regular file of sane size."""
    try:
        handle = os.open(REPORT, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > max_bytes:
            return None
        return base64.b64encode(stream.read(max_bytes)).decode("ascii")


def left_running(uid: int) -> int:
    """Counts the processes of a uid that outlive the tests; ending ones get a moment."""
    found = 0
    for _ in range(LINGER_STEPS):
        found = sum(_is_alive_of(uid, name) for name in os.listdir("/proc") if name.isdigit())
        if not found:
            break
        time.sleep(LINGER_STEP_S)
    return found


def _is_alive_of(uid: int, pid: str) -> bool:
    try:
        text = Path("/proc", pid, "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return str(uid) in fields.get("Uid", "").split() and fields.get("State", "").strip()[:1] != "Z"


def prepare(frame: dict[str, Any]) -> dict[str, Any]:
    """Builds everything that the tests need and says what came of it."""
    repository = Repository(Path("/home/agent/git"))
    pinned = str(frame["pinned_tree"])
    tree = build_tree(repository, frame)
    restored = restore_protected(repository, pinned, tree, frame["protected"])
    write_out(repository)
    hidden_root = Path(str(frame["hidden_root"]))
    files = frame["hidden_files"]
    names: list[str] = []
    if hidden_root != WORK:
        entries = repository.tree_entries(pinned)
        files = [*pinned_files(repository, entries, frame["pinned_tests"]), *files]
        files.append([LEFT_OUT, json.dumps(frame["left_out"])])
        names = candidate_names(sorted(entries), frame["source_roots"], files)
    write_files(hidden_root, [*files, *frame["seal_files"]])
    open_to_others()
    return {
        "prepared": tree,
        "restored": restored[:1000],
        "candidate_names": names,
        "compile_error": compile_error(frame["source_roots"]),
    }


def main() -> int:
    """Prepares, waits while the engine runs the tests, then hands out the report."""
    signal.alarm(int(sys.argv[1]))
    frame = read_frame()
    try:
        answer(prepare(frame))
    except Refused as error:
        answer({"refused": str(error)})
        return 1
    except (GitFailed, OSError, Unusable) as error:
        answer({"failed": f"{type(error).__name__}: {error}"[:2000]})
        return 1
    frame = read_frame()
    # Who still runs could still write the report: it is counted first, and the grader is told.
    running = left_running(int(frame["tests_uid"]))
    report = read_report(int(frame["max_report_bytes"]))
    answer({"report_base64": report, "left_running": running})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
