"""An arm of the reference pipeline with a person's answers on what it holds back over one task of the pack."""

from __future__ import annotations

from pathlib import Path

from orchestrator.core.files import write_atomic
from orchestrator.core.places import fixtures_root
from orchestrator.model.condition import AddedConditions, Condition
from orchestrator.model.review import ReviewLog
from orchestrator.pipeline.byhand import Asked, Lived, live_by_hand
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.reviewing import Answer, begin, walk
from orchestrator.sources.loader import load_conditions

ARM = "reference_reviewed"
TASK = "mux-route-overview"
"""Its history holds a message that poses as a decision, which the pipeline holds back."""
REVIEWED = PlanRequest(agents=("follower",), tasks=(TASK,), conditions=("no_memory", ARM))


def arm() -> Condition:
    """Returns the arm: the whole pipeline, with reviews."""
    known = load_conditions(fixtures_root()).conditions
    whole = next(condition for condition in known if condition.id == "reference_e2e")
    return whole.model_copy(
        update={"id": ARM, "claim_bearing": False, "standard": False, "reviews": "reviews"}
    )


def lived(*, reviewed: bool = True, condition: str = ARM) -> Lived:
    """Takes the arm through its life over the task."""
    asked = Asked(condition=condition, task=TASK, reviewed=reviewed)
    return live_by_hand(asked, fixtures=fixtures_root())


def answered(answer: Answer, *, took_ms: int = 90_000) -> ReviewLog:
    """Returns the log of a person who gives every held candidate the same answer."""
    clock = iter(range(0, 100 * took_ms, took_ms))
    found = lived(reviewed=False)
    return walk(
        found, begin(found, "anna", None), lambda _: answer, lambda _: None, lambda: next(clock)
    )


def install(folder: Path, log: ReviewLog | None) -> Path:
    """Writes the registry of the arm with its log; returns the path of the registry."""
    added = folder / "conditions.json"
    write_atomic(added, AddedConditions(conditions=(arm(),)).canonical())
    (folder / "reviews").mkdir(exist_ok=True)
    if log is not None:
        write_atomic(folder / "reviews" / f"{TASK}.json", log.canonical())
    return added
