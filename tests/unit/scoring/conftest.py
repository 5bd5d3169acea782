"""One small task as the graders see it, and the documents of a trial of it that did everything right."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.model.memory import Injection
from orchestrator.model.plan import Trial
from orchestrator.model.task import Brief, Key
from orchestrator.model.verdict import Acted, Harvest, TestReport, Verdict
from orchestrator.scoring.verdict import grade

HIDDEN_PATH = "tests/hidden/test_h.py"
SHA = "0" * 64
BASE = ("tests.test_old::test_a", "tests.test_old::test_b")
CAPABILITY, MEMORY = "tests.hidden.test_h::test_shape", "tests.hidden.test_h::test_parked"
GOOD_DIFF = (
    b"diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -0,0 +1 @@\n+parked\n"
)
REMEMBERED = "- [mem:m0] the text is\n  parked\n"


@pytest.fixture
def brief() -> Brief:
    limits = {
        "wall_s": 60,
        "cpus_milli": 1000,
        "memory_bytes": 2**30,
        "pids": 64,
        "work_bytes": 2**26,
        "work_inodes": 1000,
        "output_bytes": 2**20,
        "diff_bytes": 2**20,
    }
    return Brief.model_validate(
        {
            "task_id": "t",
            "prompt": "Do it.",
            "allowed_paths": ("src/**",),
            "forbidden_paths": ("tests/**", "**/conftest.py", "src/private/**"),
            "limits": limits,
        }
    )


@pytest.fixture
def key() -> Key:
    return Key.model_validate(
        {
            "task_id": "t",
            "card": {
                "task_id": "t",
                "hidden_files": ({"path": HIDDEN_PATH},),
                "fail_to_pass": (
                    {"id": CAPABILITY, "group": "capability"},
                    {"id": MEMORY, "group": "memory"},
                ),
                "forbidden_patch_patterns": (
                    {"id": "no-eval", "pattern": r"\beval\(", "why": "eval is barred"},
                ),
                "required_patch_patterns": (),
                "gold_facts": (
                    {
                        "id": "f1",
                        "kind": "coined",
                        "statement": "s",
                        "supporting_event_ids": ("e1",),
                        "matchers": ("the text is parked",),
                    },
                ),
                "stale_facts": (
                    {"id": "s1", "statement": "s", "event_ids": ("e0",), "matchers": ("stalled",)},
                ),
                "relevant_files": ("src/a.py",),
            },
            "hidden_files": ({"path": HIDDEN_PATH, "text": "x", "sha256": SHA},),
            "pass_to_pass": tuple({"id": name} for name in BASE),
        }
    )


def make_report(phase: str, passed: tuple[str, ...], /, **changes: Any) -> TestReport:
    tests = tuple({"id": name, "status": "pass", "n": 1} for name in sorted(passed))
    return TestReport.model_validate(
        {
            "runner": "pytest",
            "phase": phase,
            "compiled": True,
            "timed_out": False,
            "exit_code": 0,
            "tests": tests,
        }
        | changes
    )


def make_injection(text: str) -> Injection:
    return Injection(
        condition_id="c",
        channel="prompt_prefix",
        text=text,
        text_sha256=SHA,
        unit="o200k_base",
        tokens=1,
        max_tokens=9,
        included=(),
        dropped=(),
        prompt_sha256=SHA,
    )


def make_harvest(diff: bytes, **changes: Any) -> Harvest:
    change = {
        "path": "src/a.py",
        "status": "modified",
        "old_mode": "100644",
        "new_mode": "100644",
        "blob": "0" * 40,
        "bytes": 1,
    }
    values = {
        "pinned_tree": "0" * 40,
        "tree": "1" * 40,
        "diff_sha256": hashlib.sha256(diff).hexdigest(),
        "diff_bytes": len(diff),
        "diff_truncated": False,
        "changes": (change,),
        "left_out": (),
    }
    return Harvest.model_validate(values | changes)


@pytest.fixture
def judge(brief: Brief, key: Key) -> Callable[..., Verdict]:
    """Grades a trial that did everything right but for what the caller changes."""

    def run(
        *,
        memory: str = REMEMBERED,
        diff: bytes = GOOD_DIFF,
        ended: str = "exited",
        base: dict[str, Any] | None = None,
        hidden: dict[str, Any] | None = None,
        harvest: dict[str, Any] | None = None,
        base_passed: tuple[str, ...] = BASE,
        hidden_passed: tuple[str, ...] = (CAPABILITY, MEMORY),
        changed_key: Key | None = None,
    ) -> Verdict:
        acted = Acted.model_validate(
            {
                "agent": "a",
                "ended": ended,
                "exit_code": 0,
                "output_sha256": SHA,
                "output_bytes": 0,
                "output_truncated": False,
            }
        )
        return grade(
            trial=Trial(seq=0, task_id="t", condition_id="c", agent="a", epoch=1),
            key=changed_key or key,
            brief=brief,
            acted=acted,
            harvest=make_harvest(diff, **(harvest or {})),
            injection=make_injection(memory),
            diff=diff,
            pass_to_pass=make_report("pass_to_pass", base_passed, **(base or {})),
            fail_to_pass=make_report("fail_to_pass", hidden_passed, **(hidden or {})),
            diagnostic=True,
        )

    return run
