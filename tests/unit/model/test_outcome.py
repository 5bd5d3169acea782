"""Promise: every way in which an attempt can end is one of seven, and what is unknown is infrastructure."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.core import errors
from orchestrator.model.outcome import OUTCOME_OF_ERROR, Outcome, outcome_of_error
from orchestrator.model.record import AttemptEnded

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.MemtrialError)
]


def test_the_list_of_outcomes_is_closed():
    assert [outcome.value for outcome in Outcome] == [
        "completed",
        "timeout",
        "budget",
        "misconduct",
        "inadmissible",
        "infra_error",
        "cancelled",
    ]


def test_every_class_of_error_has_an_outcome_of_its_own_choice():
    assert set(OUTCOME_OF_ERROR) == set(CLASSES)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (errors.IntegrityError("r", "m", hint="h"), Outcome.INFRA_ERROR),
        (errors.Inadmissible("r", "m", hint="h"), Outcome.INADMISSIBLE),
        (errors.Misconduct("r", "m", hint="h"), Outcome.MISCONDUCT),
        (errors.BudgetExhausted("r", "m", hint="h"), Outcome.BUDGET),
        (errors.Cancelled("r", "m", hint="h"), Outcome.CANCELLED),
        (errors.ApprovalRefused("r", "m", hint="h"), Outcome.CANCELLED),
        (ValueError("not ours"), Outcome.INFRA_ERROR),
        (MemoryError(), Outcome.INFRA_ERROR),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_comes_to_one_outcome(error, outcome):
    assert outcome_of_error(error) is outcome


def test_a_class_of_an_upper_room_has_the_outcome_of_its_ancestor():
    class Found(errors.Inadmissible):
        """A later finding of some room."""

    assert outcome_of_error(Found("r", "m", hint="h")) is Outcome.INADMISSIBLE


@pytest.mark.parametrize(
    ("outcome", "graded", "sound"),
    [
        ("completed", True, True),
        ("completed", False, False),
        ("timeout", True, True),
        ("timeout", False, False),
        ("misconduct", True, True),
        ("misconduct", False, False),
        ("budget", True, True),
        ("budget", False, True),
        ("inadmissible", False, True),
        ("inadmissible", True, False),
        ("infra_error", False, True),
        ("infra_error", True, False),
        ("cancelled", False, True),
        ("cancelled", True, False),
    ],
)
def test_a_verdict_goes_with_graded_outcomes_only(outcome, graded, sound):
    fields: dict[str, Any] = {
        "trial": "t/c/a/e1",
        "attempt": 1,
        "outcome": Outcome(outcome),
        "verdict_sha256": "0" * 64 if graded else None,
        "error_reference": None,
        "error": None,
        "wall_ms": 0,
        "container_ms": 0,
    }
    if sound:
        assert AttemptEnded(**fields).outcome == outcome
    else:
        with pytest.raises(ValidationError):
            AttemptEnded(**fields)
