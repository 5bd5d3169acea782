"""Curator logs of remem are checked against themselves, their file and a timeline, and taken over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.model.task import Episode, Event, History
from orchestrator.pipeline.authoring.curatorlog import RememCuratorLog, convert
from orchestrator.sources.loader import check_curated

CASES = Path(__file__).resolve().parents[2] / "cases" / "curation"
EXAMPLE = (CASES / "example" / "log.json").read_bytes()
FILE = b"- slugs keep their hyphens\n"


def history() -> History:
    return History(
        task_id="slug-normalizer-contract",
        episodes=tuple(
            Episode(
                episode_id=f"slug-history-{n}",
                started_at=f"2026-01-0{n}T10:00:00Z",
                events=(
                    Event(event_id=f"e{n}", at=f"2026-01-0{n}T10:00:00Z", role="user", text="x"),
                ),
            )
            for n in (1, 2)
        ),
    )


def closing(file: bytes) -> RememCuratorLog:
    """The example, as the log of a file that there is."""
    log = json.loads(EXAMPLE)
    log["sessions"][1]["chars_after"] = log["final_char_count"] = len(file.decode())
    log["final_file_sha256"] = sha256_hex(file)
    return RememCuratorLog.parse(json.dumps(log).encode(), where="log")


def test_the_example_of_the_schema_is_read():
    log = RememCuratorLog.parse(EXAMPLE, where="example")
    assert log.totals.maintenance_minutes == 4.0


@pytest.mark.parametrize("case", sorted(p.name for p in CASES.glob("*_refused")))
def test_a_log_that_contradicts_itself_is_refused(case):
    expected = (CASES / case / "expect").read_text().strip()
    with pytest.raises(DocumentError) as refused:
        RememCuratorLog.parse((CASES / case / "log.json").read_bytes(), where=case)
    assert expected in refused.value.message


def test_a_log_is_taken_over_with_its_minutes_by_report(tmp_path):
    made = convert(closing(FILE), history(), FILE, tmp_path)
    assert check_curated(tmp_path, history()).log == made
    assert (made.minutes_by, made.maintenance_minutes) == ("report", 4.0)
    assert made.steps[0].file_sha256 is None


def test_a_file_that_the_log_did_not_close_is_refused(tmp_path):
    with pytest.raises(IntegrityError):
        convert(closing(FILE), history(), FILE + b"- more\n", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_log_over_other_episodes_is_refused(tmp_path):
    fewer = history().model_copy(update={"episodes": history().episodes[:1]})
    with pytest.raises(DocumentError, match="one session for each episode"):
        convert(closing(FILE), fewer, FILE, tmp_path)


def test_a_log_that_breaks_its_own_budget_is_refused(tmp_path):
    log = closing(FILE)
    small = log.model_copy(update={"budget": log.budget.model_copy(update={"max_chars": 5})})
    with pytest.raises(DocumentError, match="cap 5"):
        convert(small, history(), FILE, tmp_path)


def test_the_command_reads_the_example_and_says_what_comes_next(capsys):
    assert main(["curate", "--import", str(CASES / "example" / "log.json")]) == 0
    out = capsys.readouterr().out
    assert "2 sessions, 4 minutes, 402 characters" in out
    assert out.splitlines()[-1].startswith("next: ")


def test_the_command_takes_a_log_over_for_a_timeline(tmp_path, capsys):
    (tmp_path / "h.json").write_bytes(history().canonical())
    (tmp_path / "log.json").write_bytes(closing(FILE).canonical())
    (tmp_path / "MEMORY.md").write_bytes(FILE)
    words = ["curate", "--history", str(tmp_path / "h.json"), "--out", str(tmp_path / "out")]
    words += ["--import", str(tmp_path / "log.json"), "--file", str(tmp_path / "MEMORY.md")]
    assert main(words) == 0
    assert "--install" in capsys.readouterr().out.splitlines()[-1]
    assert (tmp_path / "out" / "curator-log.json").is_file()
