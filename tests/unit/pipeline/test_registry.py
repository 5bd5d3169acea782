"""Promise: the registry is the one list of arms; ids that are wrong or old lead to the right one; pins hold."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.core.errors import DocumentError, EnvironmentMissing, IntegrityError, UsageError
from orchestrator.memory.shelf import SHELF, Shelved
from orchestrator.model.condition import (
    AddedConditions,
    Condition,
    ConditionRegistry,
    MemoryBudget,
)
from orchestrator.pipeline.memory import check_available
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.pins import pinned
from orchestrator.pipeline.plan import choose
from orchestrator.sources.loader import load_conditions
from tests.unit.pipeline.conftest import ROOT

PRIMARY = ("no_memory", "curated_file_budgeted", "reference_e2e")
DIAGNOSTIC = (
    "seeded_sessionstart",
    "curated_file_expert",
    "oracle_evidence",
    "oracle_retrieval",
    "full_history",
    "no_enrichment",
    "fts_only",
    "conventions",
    "flatfile",
)
CONTROLS = (
    "placebo_context",
    "raw_history_tail",
    "raw_fts",
    "stale_only",
    "poisoned",
    "tool_presence_placebo",
)


def arms(fixtures: Path, role: str) -> set[str]:
    return {c.id for c in load_conditions(fixtures).conditions if c.role == role}


def test_every_arm_that_reviewers_ask_for_is_there_in_its_role(fixtures):
    assert arms(fixtures, "primary") >= set(PRIMARY)
    assert arms(fixtures, "diagnostic") >= set(DIAGNOSTIC)
    assert arms(fixtures, "control") >= set(CONTROLS)


def test_only_primary_arms_bear_claims_and_none_of_them_is_told_the_key(fixtures):
    for arm in load_conditions(fixtures).conditions:
        assert arm.claim_bearing == (arm.role == "primary")
        assert not (arm.claim_bearing and arm.door == "gold")
        assert arm.forbidden_shortcuts


def test_no_code_holds_a_second_list_of_arms(fixtures):
    ids = {c.id for c in load_conditions(fixtures).conditions} - {"no_memory", "raw_fts"}
    ids -= {"flatfile", "conventions", "full_history", "stale_only", "poisoned", "fts_only"}
    ids -= {"no_enrichment", "oracle_evidence", "oracle_retrieval", "curated_file_budgeted"}
    quoted = re.compile("|".join(f'"{re.escape(name)}"' for name in ids))
    found = [
        path.name
        for path in (ROOT / "orchestrator").rglob("*.py")
        if quoted.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_every_failure_has_one_stage(fixtures):
    entries = load_conditions(fixtures).failure_stages
    failures = [failure for entry in entries for failure in entry.failures]
    assert len(failures) == len(set(failures)) == 12
    assert [entry.stage for entry in entries] == [
        "capture",
        "extraction",
        "consolidation",
        "retrieval",
        "context_compilation",
        "reader_use",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("remem_e2e", "reference_e2e"),
        ("curated_file", "curated_file_budgeted"),
        ("preloaded_memory", "seeded_sessionstart"),
        ("placebo", "placebo_context"),
    ],
)
def test_a_legacy_id_is_refused_with_the_one_that_is_meant(fixtures, old, new):
    with pytest.raises(UsageError, match="legacy id") as caught:
        choose(
            PlanRequest(agents=("noop",), conditions=(old,)),
            fixtures=fixtures,
            images=ROOT / "images",
        )
    assert f"did you mean {new}?" in caught.value.hint


def test_the_shipped_pins_are_those_of_the_code(fixtures):
    data = (fixtures / "conditions.json").read_bytes()
    assert pinned(ConditionRegistry.parse(data, where="conditions.json")) == data, (
        "run `memtrial list conditions --pin`"
    )


def test_the_pin_of_the_guides_example_is_that_of_its_program(monkeypatch):
    path = ROOT / "docs" / "how-to" / "memory-example" / "conditions.json"
    monkeypatch.setenv("MEMTRIAL_CONDITIONS", str(path))
    data = path.read_bytes()
    assert pinned(AddedConditions.parse(data, where=path.name)) == data


def test_an_adapter_with_other_bytes_than_the_pinned_is_not_planned(fixtures, tmp_path):
    copy = tmp_path / "fixtures"
    shutil.copytree(fixtures, copy)
    path = copy / "conditions.json"
    registry = json.loads(path.read_text())
    registry["conditions"][0]["adapter_sha256"] = "0" * 64
    path.write_text(json.dumps(registry))
    with pytest.raises(IntegrityError) as caught:
        choose(
            PlanRequest(agents=("noop",), conditions=("no_memory",)),
            fixtures=copy,
            images=ROOT / "images",
        )
    assert caught.value.reference == "adapter-changed"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": "no_memory"}, "unique"),
        ({"id": "remem_e2e"}, "unique"),
        ({"stages": ["dreaming"]}, "failure_stages"),
    ],
)
def test_added_arms_cannot_take_an_id_or_invent_a_stage(fixtures, tmp_path, monkeypatch, change, told):  # fmt: skip
    arm = {
        "id": "mine",
        "role": "diagnostic",
        "summary": "s",
        "adapter": "raw_fts",
        "budget": {"unit": "o200k_base", "max_tokens": 10},
    }
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"schema_version": 1, "conditions": [{**arm, **change}]}))
    monkeypatch.setenv("MEMTRIAL_CONDITIONS", str(path))
    with pytest.raises(DocumentError, match=told):
        load_conditions(fixtures)


@pytest.mark.parametrize("change", [{"claim_bearing": True, "role": "primary"}, {"standard": True}])
def test_an_added_arm_bears_no_claim_and_is_never_standard(change):
    arm = {"id": "mine", "role": "diagnostic", "summary": "s", "adapter": "none", **change}
    data = json.dumps({"schema_version": 1, "conditions": [arm]}).encode()
    with pytest.raises(DocumentError, match="neither standard nor claim_bearing"):
        AddedConditions.parse(data, where="mine.json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"door": "gold", "role": "primary"}, "never primary"),
        ({"claim_bearing": True}, "only a primary arm"),
        ({"adapter_kind": "command"}, "program is given"),
        ({"adapter_kind": "entry_point"}, "its role is diagnostic"),
        (
            {"adapter_kind": "entry_point", "role": "primary", "claim_bearing": True},
            "its role is diagnostic",
        ),
    ],
)
def test_an_arm_that_contradicts_itself_is_refused(change, told):
    arm = {"id": "mine", "role": "control", "summary": "s", "adapter": "none", **change}
    data = json.dumps({"schema_version": 1, "conditions": [arm]}).encode()
    with pytest.raises(DocumentError, match=told):
        ConditionRegistry.parse(data, where="conditions.json")


def test_a_native_channel_that_no_agent_has_is_refused_by_name(fixtures):
    with pytest.raises(UsageError, match="mcp") as caught:
        choose(
            PlanRequest(agents=("follower",), conditions=("tool_presence_placebo",)),
            fixtures=fixtures,
            images=ROOT / "images",
        )
    assert caught.value.reference == "delivery-not-supported"


PLANNER = """
import sys
from pathlib import Path
from orchestrator.model.plan import ImagePin
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.plan import build_plan
from orchestrator.sources.revision import SourceState
root = Path(sys.argv[1])
image = ImagePin(id="sha256:" + "1" * 64, diff_ids=("sha256:" + "2" * 64,))
plan = build_plan(
    PlanRequest(agents=("follower",), task_set="full", matrix="primary", epochs=3),
    fixtures=root / "fixtures", images=root / "images", image_pins=lambda _: (image, image),
    source=SourceState("test", ()),
)
print(len(plan.tasks), len(plan.conditions), len(plan.trials), plan.digest_sha256())
"""


def planned(clone: Path, **surroundings: str) -> str:
    """Plans the primary matrix in a clone, in another process with other surroundings."""
    script = f'umask {surroundings.pop("umask")}; exec taskset -c {surroundings.pop("cores")} {sys.executable} -c "$PLANNER" {clone}'
    finished = subprocess.run(
        ["sh", "-c", script],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(clone),
            "PLANNER": PLANNER,
            **surroundings,
        },
        cwd=clone,
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout.strip()


def test_the_primary_matrix_has_144_trials_and_one_digest_wherever_it_is_planned(tmp_path):
    """Two clones differ in place, user, HOME, time zone, umask, hash seed and visible cores."""
    clones = [tmp_path / "a" / "memtrial", tmp_path / "b" / "deeper" / "clone"]
    for clone in clones:
        for part in ("orchestrator", "fixtures", "images"):
            shutil.copytree(ROOT / part, clone / part, ignore=shutil.ignore_patterns("__pycache__"))
        (clone / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    first = planned(
        clones[0],
        umask="022",
        cores="0",
        USER="ada",
        HOME=str(tmp_path / "ada"),
        TZ="Pacific/Auckland",
        PYTHONHASHSEED="1",
        LANG="C",
    )
    second = planned(
        clones[1],
        umask="077",
        cores="0,1" if (os.cpu_count() or 1) > 1 else "0",
        USER="zoe",
        LOGNAME="zoe",
        HOME=str(tmp_path / "zoe"),
        TZ="America/St_Johns",
        PYTHONHASHSEED="4242",
        LANG="C.UTF-8",
    )
    assert first == second
    assert first.split()[:3] == ["16", "3", "144"]


def test_an_arm_without_its_code_is_refused_before_a_run_has_a_folder():
    ghost = Condition(
        id="ghost_e2e",
        role="diagnostic",
        summary="s",
        adapter="ghost",
        budget=MemoryBudget(unit="o200k_base", max_tokens=10),
    )
    shelf = {**SHELF, "ghost": Shelved("no_such_module")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestrator.memory.shelf.SHELF", shelf)
        with pytest.raises(EnvironmentMissing, match="ghost_e2e") as caught:
            check_available((ghost,))
    assert caught.value.exit_code == 4
