"""Promise: a time that is asked for is put in the form of a history without changing what was by then."""

from __future__ import annotations

import pytest

from orchestrator.model.chronology import in_form_of, sortable

FORMS = ["2026-01-05T09:00:00Z", "2026-01-05T09:00:00.000Z", "2026-01-05T09:00:00.000000Z"]


@pytest.mark.parametrize(
    ("at", "like", "found"),
    [
        ("2026-01-05T09:00:00Z", FORMS[0], "2026-01-05T09:00:00Z"),
        ("2026-01-05T09:00:00Z", FORMS[1], "2026-01-05T09:00:00.000Z"),
        ("2026-01-05T09:00:00.5Z", FORMS[1], "2026-01-05T09:00:00.500Z"),
        ("2026-01-05T09:00:00.999999Z", FORMS[1], "2026-01-05T09:00:00.999Z"),
        ("2026-01-05T09:00:00.5Z", FORMS[0], "2026-01-05T09:00:00Z"),
        ("2026-01-05T09:00:00.123Z", FORMS[2], "2026-01-05T09:00:00.123000Z"),
    ],
)
def test_a_time_gets_the_digits_of_another(at, like, found):
    assert in_form_of(at, like) == found


def test_times_of_any_form_sort_as_text_once_they_are_made_alike():
    late, early, between = ("00.5Z", "00Z", "00.000001Z")
    times = [f"2026-01-05T09:00:{second}" for second in (late, early, between)]
    assert sorted(times, key=sortable) == [times[1], times[2], times[0]]
    assert {sortable(one) for one in FORMS} == {FORMS[2]}
