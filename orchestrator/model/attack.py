"""Attacks: hostile agents as documents, and what came of them. An attack names the defence that stops it.

An attack is real only if it succeeds with that defence switched off; the test suite proves it for each.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from orchestrator.model.base import Closed, Document, Slug, Text

Goal = Literal[
    "accepted",
    "escape_verdict",
    "exceed",
    "hide_regression",
    "loot",
    "outlive",
    "resolve",
    "unseen",
]
Bound = Literal[
    "diff_bytes",
    "memory_bytes",
    "output_bytes",
    "pids",
    "scratch_bytes",
    "work_bytes",
    "work_inodes",
]


class Defence(StrEnum):
    """What an attack is stopped by; docs/threat-model.md says what each is."""

    ANSWERS_AT_ACT = "answers_at_act"
    BLIND_CONTAINER = "blind_container"
    BOUNDED_HARVEST = "bounded_harvest"
    EXAMINED_APART = "examined_apart"
    FIXED_PATH = "fixed_path"
    FRESH_CONTAINERS = "fresh_containers"
    HARVEST_RULES = "harvest_rules"
    HIDDEN_FROM_CANDIDATE = "hidden_from_candidate"
    KILL_CONTAINER = "kill_container"
    LIMIT = "limit"
    NO_CAPABILITIES = "no_capabilities"
    NO_HOST_MOUNTS = "no_host_mounts"
    NO_LEFTOVER_PROCESS = "no_leftover_process"
    NO_NETWORK = "no_network"
    ONE_COMMIT_CHECKOUT = "one_commit_checkout"
    OWN_CONFIGURATION = "own_configuration"
    OWN_GIT = "own_git"
    OWN_NAMESPACES = "own_namespaces"
    PATH_RULES = "path_rules"
    PINNED_RUNNER_FILES = "pinned_runner_files"
    PROCESS_BOUNDARY = "process_boundary"
    READ_ONLY_ROOT = "read_only_root"
    REPORT_CHANNEL = "report_channel"
    SAFE_PATH = "safe_path"
    SEAL = "seal"


class AttackCard(Document):
    """One hostile agent. `rounds`: 2 for one that leaves something and comes back to look for it.

    Goals: `resolve` a task unsolved; `hide_regression` in the base suite; `loot`: see what it must not;
    `outlive` its end; `exceed` a limit; `escape_verdict`: end without a grade; `accepted`: have a diff that
    breaks the rules accepted; `unseen`: change files without the change being harvested.
    """

    id: Slug
    family: Slug
    tried: Text
    stopped_by: Text
    defences: tuple[Defence, ...] = Field(min_length=1)
    goal: Goal
    bound: Bound | None = None
    rounds: Literal[1, 2] = 1
    wall_s: int | None = Field(default=None, gt=0, le=120)


class AttackRow(Closed):
    """What came of one attack."""

    id: Slug
    tried: Text
    stopped_by: Text
    succeeded: bool
    evidence: Text


class AttackReport(Document):
    """All attacks that were run, sorted by id, and whether an honest trial still came out right after them."""

    attacks: tuple[AttackRow, ...]
    honest_trial_ok: bool
    left_behind: tuple[Text, ...]
