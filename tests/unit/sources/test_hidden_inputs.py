"""Promise: who reads a hidden suite whose process it shares learns from names and inputs nothing of the answer."""

from __future__ import annotations

import re
from itertools import pairwise

from orchestrator.core.places import fixtures_root
from orchestrator.sources.loader import LoadedTask, load_task

FIXTURES = fixtures_root()


def suite(task: LoadedTask) -> str:
    return "\n".join(file.text for file in task.key.hidden_files)


def memory_values(task: LoadedTask) -> list[tuple[str, ...]]:
    return [test.values for test in task.key.card.fail_to_pass if test.group == "memory"]


def test_no_two_inputs_lie_close_on_both_sides_of_the_hour_that_ends_a_service_day() -> None:
    """An input before the hour beside one after it would be the hour: a quarter of an hour apart at least."""
    task = load_task(FIXTURES, "ferrytimes-service-day")
    written = re.findall(r"\b(\d{1,2}), (\d{1,2}), (?:time|where)", suite(task))
    times = sorted(int(hour) * 60 + int(minute) for hour, minute in written)
    turn = 4 * 60 + 30
    around = [(a, b) for a, b in pairwise(times) if a < turn <= b]
    assert around
    assert all(b - a >= 60 for a, b in around)


def test_the_sweep_of_service_days_shows_the_second_and_the_minute_of_the_turn() -> None:
    """The sweep tells 04:30 from every other hour, and from a minute that begins it late."""
    task = load_task(FIXTURES, "ferrytimes-service-day")
    for rows in memory_values(task):
        days = " ".join(rows).split()
        first = days.index(days[-1])
        assert days == [days[0]] * first + [days[-1]] * (len(days) - first)
        assert len(rows) == 12
        # Two moments to each fifth minute: the second before it, and itself.
        assert (first // 2 * 5, first % 2) == (4 * 60 + 30, 1)


def test_scores_of_records_are_tables_of_all_pairs_under_names_that_say_nothing() -> None:
    """Two blanks are told from other pairs by nothing that stands in the suite, and a table is no constant."""
    task = load_task(FIXTURES, "strsim-record-score")
    assert not re.search(r"blank|empty|white|space|odd|side", suite(task))
    for rows in memory_values(task):
        scores = [row.split() for row in rows]
        assert all(len(row) == len(scores) for row in scores)
        assert scores == [list(column) for column in zip(*scores, strict=True)]
        assert len({score for row in scores for score in row}) > 5
