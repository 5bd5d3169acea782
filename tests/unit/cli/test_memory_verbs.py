"""Promise: an engineer sees by hand what a memory system captured, stored, ranked and lost; every word leads to the next."""

from __future__ import annotations

import json

import pytest

from orchestrator.cli.main import main
from orchestrator.core.ustar import ArchiveReader

TASK = ("--task", "depotfeed-returns")
CURATED = ("--condition", "curated_file_budgeted")


def test_ingest_counts_events_and_writes_every_document(tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["memory", "ingest", *TASK, "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "captured" in told
    assert "memtrial memory retrieve --condition raw_fts --task depotfeed-returns" in told
    names = {path.name for path in out.iterdir()}
    assert names >= {"captures.json", "dump.json", "ranked.json", "context.json", "store.tar"}
    reader = ArchiveReader(out / "store.tar")
    assert reader.names() == ("events.sqlite",)
    reader.close()


def test_retrieve_shows_ranks_fate_and_the_text_that_an_agent_gets(capsys):
    assert main(["memory", "retrieve", *TASK, "--query", "empty carton count of 0"]) == 0
    told = capsys.readouterr().out
    assert "included" in told
    assert "# Notes from earlier sessions" in told
    assert "of 700 tokens" in told


def test_dump_shows_what_had_been_recorded_by_a_time(capsys):
    sizes = []
    for words in ([], ["--as-of", "2026-01-27T23:00:00Z"]):
        assert main(["memory", "dump", *TASK, *words, "--json"]) == 0
        sizes.append(len(json.loads(capsys.readouterr().out)["memories"]))
    assert 0 < sizes[1] < sizes[0]


@pytest.mark.parametrize(
    ("as_of", "shown"),
    [
        ("2026-01-05T09:00:00Z", ["e1"]),
        ("2026-01-05T09:00:00.499Z", ["e1"]),
        ("2026-01-05T09:00:00.5Z", ["e1", "e2"]),
    ],
)
@pytest.mark.parametrize("arm", ["raw_fts", "full_history"])
def test_a_time_of_another_form_is_compared_as_a_time(arm, as_of, shown, tmp_path, capsys):
    start = "2026-01-05T09:00:00.000Z"
    events = [
        {"event_id": "e1", "at": start, "role": "user", "text": "one"},
        {"event_id": "e2", "at": "2026-01-05T09:00:00.500Z", "role": "user", "text": "two"},
    ]
    episode = {"episode_id": "ep", "started_at": start, "events": events}
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"schema_version": 1, "task_id": "t", "episodes": [episode]}))
    words = ["--history", str(path), "--condition", arm, "--as-of", as_of, "--json"]
    assert main(["memory", "dump", *words]) == 0
    dump = json.loads(capsys.readouterr().out)
    assert [memory["evidence_event_ids"][0] for memory in dump["memories"]] == shown


def test_explain_says_of_every_fact_where_it_is_and_where_it_was_lost(capsys):
    assert main(["memory", "explain", *TASK, "--json"]) == 0
    lost = {fact["fact_id"]: fact["lost_at"] for fact in json.loads(capsys.readouterr().out)}
    assert set(lost) == {"f1", "f2"}
    assert set(lost.values()) == {"retrieved"}
    assert main(["memory", "explain", *TASK, "--condition", "oracle_evidence"]) == 0
    assert "2 of 2 facts reach the agent" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["memory"], 2, "ingest, retrieve, dump, explain"),
        (["memory", "ingest"], 2, "a task or a history file"),
        (["memory", "ingest", *TASK, "--history", "x.json"], 2, "neither or both"),
        (["memory", "ingest", "--task", "depotfeed"], 2, "depotfeed-returns"),
        (["memory", "ingest", *TASK, "--condition", "raw_ftz"], 2, "raw_fts"),
        (["memory", "ingest", "--history", "no.json"], 2, "found none"),
        (["memory", "ingest", "--history", ".", "--condition", "raw_fts"], 2, "found none"),
        (["memory", "dump", *TASK, "--as-of", "yesterday"], 2, "2026-01-05T09:00:00Z, found 'yest"),
        (["memory", "dump", *TASK, "--as-of", "2026-02-30T09:00:00Z"], 2, "found '2026-02-30"),
        (["memory", "dump", *TASK, "--as-of", "2026-01-27T23:00:00+02:00"], 2, "time in UTC"),
        (
            ["memory", "dump", *TASK, *CURATED, "--as-of", "2026-01-27T23:00:00Z"],
            2,
            "capability as_of), found curated",
        ),
    ],
)
def test_a_wrong_word_is_refused_with_what_is_right(words, code, told, capsys):
    assert main(words) == code
    assert told in capsys.readouterr().err


def test_a_history_alone_has_no_gold_facts(tmp_path, capsys):
    event = {"event_id": "e1", "at": "2026-01-05T09:00:00Z", "role": "user", "text": "x"}
    episode = {"episode_id": "ep", "started_at": "2026-01-05T09:00:00Z", "events": [event]}
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"schema_version": 1, "task_id": "t", "episodes": [episode]}))
    words = ["--history", str(path)]
    assert main(["memory", "explain", *words]) == 2
    assert "answer key" in capsys.readouterr().err
    assert main(["memory", "ingest", *words, "--condition", "poisoned"]) == 2
    assert "a task with an answer key" in capsys.readouterr().err


def test_conditions_are_listed_with_role_claim_and_channel(capsys):
    assert main(["list", "conditions"]) == 0
    told = capsys.readouterr().out
    assert "tool_presence_placebo" in told
    assert main(["list", "conditions", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {entry["id"] for entry in listed if entry["claim_bearing"]} >= {
        "no_memory",
        "curated_file_budgeted",
        "reference_e2e",
    }
