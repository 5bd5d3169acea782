"""Promise: times are UTC, sort as text, and a time without its zone is none."""

import re

import pytest

from orchestrator.core import clock


def test_the_present_has_milliseconds_and_sorts_with_a_given_second():
    before = clock.utc_text_of(int(clock.unix_time_s()) - 1)
    now = clock.utc_now_text()
    after = clock.utc_text_of(int(clock.unix_time_s()) + 1)
    assert before < now <= after
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", now)


def test_a_second_is_read_back_from_its_text():
    assert clock.utc_seconds(clock.utc_text_of(1_700_000_000)) == 1_700_000_000


def test_milliseconds_are_read_back():
    assert clock.utc_seconds("1970-01-01T00:00:01.250Z") == 1.25


def test_a_time_without_its_zone_is_refused():
    with pytest.raises(ValueError, match="expected a time with its zone"):
        clock.utc_seconds("2026-01-01T00:00:00")


@pytest.mark.parametrize("year_10000", [253_402_300_800])
def test_past_the_year_9999_there_is_no_text(year_10000):
    with pytest.raises(ValueError, match="year 10000"):
        clock.utc_text_of(year_10000)


def test_the_stamp_of_a_run_is_a_name_that_sorts():
    assert re.fullmatch(r"\d{8}T\d{6}Z", clock.run_stamp())


def test_an_engines_time_has_six_decimals():
    assert re.fullmatch(r"\d+\.\d{6}", clock.unix_time_text())


def test_the_monotonic_clock_does_not_go_back():
    first = clock.monotonic_ms()
    assert clock.monotonic_ms() >= first
