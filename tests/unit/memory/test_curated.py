"""The curated file: cut into its own entries, in its own order; and the arm that remembers nothing."""

from __future__ import annotations

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.memory.curated import CuratedAdapter, split_entries
from orchestrator.memory.none import NoMemoryAdapter
from orchestrator.pipeline.memory import adapter_of
from tests.unit.memory.lives import COUNTER, arm, life_of, said


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("- one\n- two\n", ["one", "two"]),
        ("* one\n+ two\n1. three\n2) four\n", ["one", "two", "three", "four"]),
        (
            "A paragraph\nover two lines.\n\nAnother.\n",
            ["A paragraph\nover two lines.", "Another."],
        ),
        (
            "- one\n  goes on\n  - with a sub-entry\n- two\n",
            ["one\ngoes on\n- with a sub-entry", "two"],
        ),
        ("# Memory\n\n## Panel\n- parked\n## Api\nText.\n", ["Panel: parked", "Api: Text."]),
        (
            "- run this:\n```sh\n# not a heading\n- nor an entry\n\nmake\n```\n- two\n",
            ["run this:\n```sh\n# not a heading\n- nor an entry\n\nmake\n```", "two"],
        ),
        ("-not a list\n1.5 is a number\n", ["-not a list\n1.5 is a number"]),
        ("# Only a title\n", []),
        ("", []),
    ],
)
def test_a_file_is_cut_at_top_level_entries_and_paragraphs(text: str, entries: list[str]) -> None:
    assert split_entries(text) == entries


def test_items_are_numbered_in_file_order() -> None:
    remembered = life_of(CuratedAdapter("- b\n- a\n", COUNTER), arm("curated"), said("secret"))
    assert [(item.item_id, item.text) for item in remembered.items] == [
        ("c001", "b"),
        ("c002", "a"),
    ]


def test_neither_history_nor_prompt_changes_what_the_file_says() -> None:
    found = [
        life_of(CuratedAdapter("- b\n", COUNTER), arm("curated"), said(text), prompt)
        for text, prompt in (("one", "two"), ("three", "four"))
    ]
    assert found[0].items == found[1].items
    assert found[0].store_sha256 == found[1].store_sha256


def test_a_task_without_a_curated_file_is_refused() -> None:
    with pytest.raises(DocumentError, match="expected a curated file of the task"):
        adapter_of(arm("curated"), None, COUNTER)


def test_the_arm_without_memory_returns_no_items_and_no_store() -> None:
    remembered = life_of(NoMemoryAdapter(COUNTER), arm("none", max_tokens=None), said("secret"))
    assert (remembered.items, remembered.store_sha256, remembered.captured_events) == ((), None, 0)
    assert (remembered.context, remembered.failure) == (None, None)
