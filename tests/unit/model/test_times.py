"""Promise: a time in a document is one of the calendar, and a plan is asked only for what it names."""

import pytest
from pydantic import TypeAdapter, ValidationError

from orchestrator.core.errors import DocumentError
from orchestrator.model.base import Day, UtcTime
from tests.recorded import TINY, make_plan

TIME, DAY = TypeAdapter(UtcTime), TypeAdapter(Day)


@pytest.mark.parametrize("text", ["2026-02-28T23:59:59Z", "2024-02-29T00:00:00.123456Z"])
def test_a_time_of_the_calendar_is_taken(text):
    assert TIME.validate_python(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T23:59:60Z",
        "0000-01-01T00:00:00Z",
        "٢٠٢٦-01-01T00:00:00Z",
    ],
)
def test_no_other_time_is(text):
    with pytest.raises(ValidationError):
        TIME.validate_python(text)


def test_a_day_is_one_of_the_calendar():
    assert DAY.validate_python("2024-02-29") == "2024-02-29"
    with pytest.raises(ValidationError):
        DAY.validate_python("2026-02-29")


def test_a_plan_says_what_it_does_not_name():
    plan = make_plan(TINY)
    for ask in (plan.task, plan.condition, plan.agent, plan.parity.task):
        with pytest.raises(DocumentError, match="no-such") as caught:
            ask("no-such")
        assert caught.value.reference == "plan-lacks"
