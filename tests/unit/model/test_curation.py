"""Logs of people and of programs are two types: only the first has maintenance time."""

from __future__ import annotations

import json

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.model.curation import HumanCuratorLog, SyntheticCuratorLog, parse_curator_log

SHA = "a" * 64


def log(kind: str, **step: object) -> dict[str, object]:
    counts = {"edit_count": 1, "deletion_count": 0, "conflict_resolution_count": 0}
    return {
        "schema_version": 1,
        "task_id": "a-task",
        "curator_kind": kind,
        "target_blind": True,
        "protocol": "curated-file-budgeted-v1",
        "history_sha256": SHA,
        "budget": {"minutes_per_episode": 3, "max_chars": 100},
        "steps": [{"episode_id": "ep1", "chars_after": 5, **counts, **step}],
        "final_char_count": 5,
        "final_file_sha256": SHA,
    }


HUMAN = {"minutes_spent": 2.5, "episode_sha256": SHA, "file_sha256": SHA}


def read(document: dict[str, object]) -> SyntheticCuratorLog | HumanCuratorLog:
    return parse_curator_log(json.dumps(document).encode(), where="log")


def test_a_program_has_no_maintenance_time_to_ask_for():
    found = read(log("synthetic"))
    assert isinstance(found, SyntheticCuratorLog)
    assert not hasattr(found, "maintenance_minutes")


def test_a_person_has():
    found = read(log("human", **HUMAN) | {"minutes_by": "clock"})
    assert isinstance(found, HumanCuratorLog)
    assert found.maintenance_minutes == 2.5


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (log("synthetic", minutes_spent=1.0), "minutes_spent"),
        (log("human") | {"minutes_by": "clock"}, "minutes_spent"),
        (log("human", minutes_spent=3.1) | {"minutes_by": "report"}, "above the budget"),
        (log("human", minutes_spent=1.0) | {"minutes_by": "clock"}, "digests of episode and file"),
        (log("human", **HUMAN), "minutes_by"),
        (log("robot"), "curator_kind"),
        (log("synthetic") | {"target_blind": False}, "target_blind"),
        (log("synthetic", chars_after=101) | {"final_char_count": 101}, "cap 100"),
        (log("synthetic") | {"final_char_count": 6}, "differs from the last step"),
        (
            log("human", **(HUMAN | {"file_sha256": "b" * 64})) | {"minutes_by": "clock"},
            "final_file_sha256 differs",
        ),
    ],
)
def test_a_log_that_cannot_be_true_is_refused(document, words):
    with pytest.raises(DocumentError, match=words):
        read(document)


def test_a_record_holds_canonical_bytes_only():
    data = json.dumps(log("synthetic")).encode()
    with pytest.raises(DocumentError, match="RFC 8785"):
        parse_curator_log(data, where="log", canonical=True)
    canonical = parse_curator_log(data, where="log").canonical()
    assert parse_curator_log(canonical, where="log", canonical=True).canonical() == canonical
