"""The verifier: builds the candidate's tree from pinned objects and the diff, later hands out the report.

The work area is made from a tree whose id must equal the harvested one, before any candidate code has
run. The tests themselves are started by the engine under another uid, which cannot write the sources,
the hidden tests or this program's output. Writes one line of JSON per step.
"""

from __future__ import annotations

import base64
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from frames import answer, read_frame
from plumbing import GitFailed, Repository

WORK = Path("/work")
REPORT = Path("/report/report.xml")
COMPILE_TIMEOUT_S = 60
COMPILE_PROGRAM = """
import sys
for path in sys.stdin.buffer.read().split(b"\\0"):
    if path:
        with open(path, "rb") as stream:
            compile(stream.read(), path, "exec", dont_inherit=True)
"""


class Refused(Exception):
    """The candidate's tree cannot be built as asked."""


def build_tree(frame: dict[str, Any]) -> str:
    """Applies the diff to the pinned tree in an index of ours and writes out the files."""
    repository = Repository(Path("/home/agent/git"))
    pinned = str(frame["pinned_tree"])
    repository.git("read-tree", pinned)
    diff = base64.b64decode(str(frame["diff_base64"]))
    if diff:
        repository.git("apply", "--cached", "--whitespace=nowarn", "-", data=diff)
    tree = repository.git("write-tree").decode("ascii").strip()
    if tree != frame["expect_tree"]:
        raise Refused(f"the diff gives tree {tree}, harvested was {frame['expect_tree']}")
    # A work tree is named only here, and it is empty: nothing of the candidate's is read.
    repository.git(
        "--work-tree=/work",
        "-c",
        "core.bare=false",
        "checkout-index",
        "-a",
        "-f",
        "-q",
        "--prefix=/work/",
    )
    return tree


def write_hidden(files: list[list[str]]) -> None:
    """Puts the hidden tests in place; no candidate link may stand in the way."""
    for path, text in files:
        target = WORK
        for part in Path(path).parts[:-1]:
            target /= part
            if target.is_symlink() or (target.exists() and not target.is_dir()):
                raise Refused(f"{target} is not a folder, so hidden test {path} cannot be placed")
            target.mkdir(exist_ok=True)
        target /= Path(path).name
        if target.is_symlink() or target.exists():
            raise Refused(f"hidden test path {path} exists already")
        target.write_text(text, encoding="utf-8")


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
            timeout=COMPILE_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return f"compiling took more than {COMPILE_TIMEOUT_S} s"
    if finished.returncode == 0:
        return None
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


def main() -> int:
    """Prepares, waits while the engine runs the tests, then hands out the report."""
    signal.alarm(int(sys.argv[1]))
    frame = read_frame()
    try:
        tree = build_tree(frame)
        write_hidden(frame["hidden_files"])
        open_to_others()
        broken = compile_error(frame["source_roots"])
    except Refused as error:
        answer({"refused": str(error)})
        return 1
    except (GitFailed, OSError) as error:
        answer({"failed": f"{type(error).__name__}: {error}"[:2000]})
        return 1
    answer({"prepared": tree, "compile_error": broken})
    frame = read_frame()
    answer({"report_base64": read_report(int(frame["max_report_bytes"]))})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
