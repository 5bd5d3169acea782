"""Promise: a busy machine alone makes no honest tree uncompilable and no ending process a leftover."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

IMAGES = Path(__file__).resolve().parents[3] / "images" / "verifier"


def told(program: str) -> object:
    """What a program that imports the verifier prints, as JSON."""
    finished = subprocess.run(
        [sys.executable, "-B", "-c", f"import json, time, verify\n{program}"],
        env={**os.environ, "PYTHONPATH": str(IMAGES)},
        capture_output=True,
        check=True,
    )
    found: object = json.loads(finished.stdout)
    return found


def compiled_by(program: str, work: Path) -> object:
    (work / "src").mkdir()
    (work / "src" / "a.py").write_text("x = 1\n")
    return told(
        f"verify.WORK = verify.Path({str(work)!r}); verify.COMPILE_CPU_S = 1\n"
        f"verify.COMPILE_PROGRAM = {program!r}\n"
        "print(json.dumps(verify.compile_error(['src'])))"
    )


def test_waiting_for_a_core_is_not_held_against_a_compilation(tmp_path):
    assert compiled_by("import time; time.sleep(2.5)", tmp_path) is None


def test_a_compilation_that_never_ends_is_stopped_by_its_cpu_time(tmp_path):
    said = compiled_by("while True: pass", tmp_path)
    assert said == "compiling took more than 1 s of CPU time"


def test_a_process_that_takes_seconds_to_end_is_not_left_running():
    ends_after = "began = time.monotonic()\nverify._is_alive_of = lambda uid, pid: pid == '1' and time.monotonic() - began < {}\nprint(json.dumps(verify.left_running(1)))"
    assert told(ends_after.format(4)) == 0


def test_a_process_that_does_not_end_is():
    never = "verify._is_alive_of = lambda uid, pid: pid == '1'\nprint(json.dumps(verify.left_running(1)))"
    assert told(never) == 1
