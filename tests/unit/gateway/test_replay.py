"""Promise: a recording answers the same questions again, anywhere, and nothing but the same questions."""

from __future__ import annotations

import http.client
import shutil
from contextlib import ExitStack

import pytest

from orchestrator.core.errors import MemtrialError, UsageError
from orchestrator.gateway.cassette import Cassette, ReplayMode
from orchestrator.gateway.normalise import first_difference, normal_form
from tests.unit.gateway.support import chat, post, running

TRIAL = "t/none/chat/e1"
QUESTIONS = [
    ("/v1/chat/completions", chat("first")),
    ("/v1/chat/completions", chat("second", stream=True)),
    ("/v1/messages", chat("third")),
    ("/v1/messages", chat("fourth", stream=True)),
    ("/v1/responses", {"model": "model-1", "input": "fifth"}),
]


@pytest.fixture
def recorded(scripted):
    """Plays five calls, closes, and gives the answers and the folder."""
    opened = scripted.open()
    answers = [post(opened, path, body) for path, body in QUESTIONS]
    scripted.close_trial()
    return answers, scripted.folder


@pytest.fixture
def replay(recorded, tmp_path):
    """Makes replaying gateways over a copy of the recording."""
    copy = tmp_path / "elsewhere" / "cassette"
    shutil.copytree(recorded[1], copy)
    with ExitStack() as stack:

        def make(name="again", attempts=None):
            mode = ReplayMode(Cassette(copy, {TRIAL: 1} if attempts is None else attempts))
            return stack.enter_context(running(mode, tmp_path / name))

        yield make


def test_a_recording_gives_the_same_bytes_again_on_another_machine(recorded, replay):
    again = replay()
    opened = again.open()
    assert [post(opened, path, body) for path, body in QUESTIONS] == recorded[0]
    traffic = again.close_trial()
    assert dict(traffic.matches) == {"exact": 5}
    assert traffic.divergence is None


def test_a_replay_costs_what_the_recording_cost(recorded, replay, scripted):
    again = replay()
    opened = again.open()
    for path, body in QUESTIONS:
        post(opened, path, body)
    again.close_trial()
    assert [e.cost for e in again.exchanges()] == [e.cost for e in scripted.exchanges()]


@pytest.mark.parametrize(
    ("recorded_text", "found_text"),
    [
        ("Ran 3 tests in 0.001s", "Ran 3 tests in 12.5s"),
        ("on 2026-11-30", "on 2026-12-01"),
        ("id 0f8fad5b-d9cb-469f-a165-70867728950e", "id 7c9e6679-7425-40de-944b-e07fc1f90ae7"),
        ("Linux 6.1.0-18-amd64", "Linux 6.18.2"),
        ("object at 0x7f8141846950", "object at 0x7f063471b650"),
        ("Chunk ID: 0a1b2c", "Chunk ID: ffffff"),
        ("in /tmp/tmpabcd1234", "in /tmp/tmpzyxw9876"),
        ("Mon Nov 30 08:35:51 UTC 2026", "Tue Dec  1 10:00:00 UTC 2026"),
    ],
)
def test_what_moves_between_honest_runs_does_not_matter(
    scripted, tmp_path, recorded_text, found_text
):
    opened = scripted.open()
    post(opened, "/v1/chat/completions", chat(recorded_text))
    scripted.close_trial()
    mode = ReplayMode(Cassette(scripted.folder, {TRIAL: 1}))
    with running(mode, tmp_path / "again") as again:
        opened = again.open()
        assert post(opened, "/v1/chat/completions", chat(found_text))[0] == 200
        assert dict(again.close_trial().matches) == {"normalised": 1}


def test_the_token_of_another_run_in_a_tools_output_does_not_matter(scripted, tmp_path):
    opened = scripted.open()
    post(opened, "/v1/chat/completions", chat(f"env: {opened.token('agent')}"))
    scripted.close_trial()
    with running(ReplayMode(Cassette(scripted.folder, {TRIAL: 1})), tmp_path / "x") as again:
        opened = again.open()
        body = chat(f"env: {opened.token('agent')}")
        assert post(opened, "/v1/chat/completions", body)[0] == 200


def test_another_question_stops_the_trial_and_says_where_it_differs(replay):
    again = replay()
    opened = again.open()
    assert post(opened, *QUESTIONS[0])[0] == 200
    status, answer = post(opened, "/v1/chat/completions", chat("another", stream=True))
    assert (status, b"/messages/0/content" in answer) == (400, True)
    assert post(opened, *QUESTIONS[1])[0] == 400
    assert post(opened, *QUESTIONS[2])[0] == 400
    divergence = again.close_trial().divergence
    assert divergence is not None
    assert (divergence.ordinal, divergence.match) == (1, "divergent")
    assert (divergence.pointer, divergence.recorded, divergence.found) == (
        "/messages/0/content",
        "second",
        "another",
    )


def test_a_divergent_trial_does_not_stop_the_others(scripted, tmp_path):
    other = "u/none/chat/e1"
    first, second = scripted.open(), scripted.open(other)
    for opened in (first, second):
        post(opened, "/v1/chat/completions", chat())
    scripted.close_trial()
    scripted.close_trial(other)
    mode = ReplayMode(Cassette(scripted.folder, {TRIAL: 1, other: 1}))
    with running(mode, tmp_path / "again") as again:
        first, second = again.open(), again.open(other)
        assert post(first, "/v1/chat/completions", chat("else"))[0] == 400
        assert post(second, "/v1/chat/completions", chat())[0] == 200


def test_more_calls_than_were_recorded_are_refused(replay):
    again = replay()
    opened = again.open()
    for path, body in QUESTIONS:
        post(opened, path, body)
    assert post(opened, "/v1/responses", {"model": "model-1", "input": "sixth"})[0] == 400
    divergence = again.close_trial().divergence
    assert divergence is not None
    assert (divergence.api, divergence.ordinal, divergence.match) == ("responses", 1, "exhausted")


def test_calls_made_side_by_side_may_come_in_another_order(replay):
    again = replay()
    opened = again.open()
    for question in (QUESTIONS[1], QUESTIONS[0], QUESTIONS[3], QUESTIONS[2]):
        assert post(opened, *question)[0] == 200
    assert dict(again.close_trial().matches) == {"exact": 4}


def test_the_same_question_twice_gets_the_second_answer_and_not_the_first_again(
    live, provider, tmp_path
):
    opened = live.open()
    answers = [
        post(opened, "/v1/messages", chat(), headers={"x-fake": f"model:m{n}"})[1] for n in range(2)
    ]
    live.close_trial()
    assert answers[0] != answers[1]
    provider.seen.clear()
    with running(ReplayMode(Cassette(live.folder, {TRIAL: 1})), tmp_path / "x") as again:
        opened = again.open()
        assert [post(opened, "/v1/messages", chat())[1] for _ in range(2)] == answers
    assert provider.seen == []


def test_a_cut_stream_is_cut_at_the_same_place_again(live, tmp_path):
    def partial(opened, headers=None) -> bytes:
        with pytest.raises(http.client.IncompleteRead) as cut:
            post(opened, "/v1/messages", chat(stream=True), headers=headers)
        return cut.value.partial

    before = partial(live.open(), {"x-fake": "cut:3"})
    live.close_trial()
    with running(ReplayMode(Cassette(live.folder, {TRIAL: 1})), tmp_path / "x") as again:
        assert partial(again.open()) == before


def test_errors_are_played_too(live, tmp_path):
    opened = live.open()
    before = post(opened, "/v1/messages", chat(), headers={"x-fake": "status:529"})
    live.close_trial()
    with running(ReplayMode(Cassette(live.folder, {TRIAL: 1})), tmp_path / "x") as again:
        assert post(again.open(), "/v1/messages", chat()) == before


def test_only_the_chosen_attempt_is_played(scripted, tmp_path):
    for attempt, text in ((1, "broken"), (2, "whole")):
        opened = scripted.open(attempt=attempt)
        post(opened, "/v1/chat/completions", chat(text))
        scripted.close_trial()
    with running(ReplayMode(Cassette(scripted.folder, {TRIAL: 2})), tmp_path / "x") as again:
        assert post(again.open(), "/v1/chat/completions", chat("whole"))[0] == 200
        again.close_trial()
        assert post(again.open(attempt=2), "/v1/chat/completions", chat("broken"))[0] == 400


@pytest.mark.parametrize("name", ["traffic.jsonl", "bodies.pack"])
def test_a_changed_recording_is_refused(recorded, replay, name, tmp_path):
    path = tmp_path / "elsewhere" / "cassette" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    refused = None
    again = None
    try:
        again = replay()
    except MemtrialError as error:
        refused = error.exit_code
    if again is None:
        assert refused in {3, 6}
        return
    opened = again.open()
    statuses = [post(opened, path, body)[0] for path, body in QUESTIONS]
    assert 400 in statuses


def test_a_folder_without_a_recording_is_refused(tmp_path):
    with pytest.raises(UsageError, match="recorded folder"):
        Cassette(tmp_path, {})


def test_the_first_difference_is_a_json_pointer():
    before = {"a": [{"b/c": "x" * 60 + "one"}], "z": 1}
    after = {"a": [{"b/c": "x" * 60 + "two"}], "z": 2}
    pointer, left, right = first_difference(before, after)
    assert pointer == "/a/0/b~1c"
    assert (left[-3:], right[-3:]) == ("one", "two")
    assert first_difference([1], [1, 2]) == ("", "1 items", "2 items")


def test_what_the_model_is_asked_still_matters_after_normalising():
    one, other = normal_form(chat("return a + b")), normal_form(chat("return a - b"))
    assert one != other
    assert normal_form({**chat(), "temperature": 1}) != normal_form(chat())
    assert normal_form({**chat(), "user": "a"}) == normal_form({**chat(), "user": "b"})
