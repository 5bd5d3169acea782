"""The offline extractor: general conversations in, typed proposals with evidence out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from orchestrator.memory.reference import cues
from orchestrator.memory.reference.drafts import CONTESTED, TENTATIVE
from orchestrator.memory.reference.extract import MAX_TEXT_CHARS, HeuristicExtractor
from tests.unit.memory.reference.talk import Line, utterances


def drafts(*lines: Line):
    return HeuristicExtractor().extract("s", utterances(*lines)).drafts


KINDS = [
    ("decision", [("user", "We decided to go with Postgres from now on.")]),
    ("veto", [("user", 'Never use "moment" in the front end, do not even import it.')]),
    (
        "constraint",
        [("user", "Every export must be at most 40 MB and always ends with a newline.")],
    ),
    (
        "root_cause",
        [
            ("user", "The nightly import fails."),
            ("tool", "KeyError: region", 1),
            ("assistant", "It broke because the feed was empty on Sundays."),
        ],
    ),
    ("preference", [("user", "I prefer short commit subjects, I read them on my phone.")]),
    (
        "workstream",
        [
            ("user", "Where are we with the parser?"),
            (
                "assistant",
                "The lexer is done on its branch, the grammar is next, nothing is written yet.",
            ),
        ],
    ),
    ("fact", [("user", "The billing table belongs to the finance crew."), ("assistant", "Noted.")]),
]


@pytest.mark.parametrize(("kind", "lines"), KINDS, ids=[kind for kind, _ in KINDS])
def test_what_people_say_to_last_is_proposed_under_its_kind(kind, lines):
    (draft,) = drafts(*lines)
    assert draft.kind == kind
    assert set(draft.evidence) <= {f"e{n}" for n in range(1, len(lines) + 1)}
    assert draft.evidence


CHATTER: list[list[Line]] = [
    [("user", "Please close the old branches."), ("assistant", "Closed.")],
    [("user", "Does it build?"), ("tool", "ok", 0), ("assistant", "It builds.")],
    [("user", "Thanks, that was quick!"), ("assistant", "You are welcome.")],
    [("user", "Bump the version, please."), ("assistant", "Tagged.")],
]


@pytest.mark.parametrize("lines", CHATTER, ids=[lines[0][1] for lines in CHATTER])
def test_chatter_and_chores_are_not_proposed(lines):
    assert drafts(*lines) == ()


def test_a_rejected_option_and_its_reason_are_named():
    (draft,) = drafts(
        ("user", "We decided: never use Redis for sessions, because the box reboots at night.")
    )
    assert draft.rejected == ("Redis",)
    assert draft.reason == "the box reboots at night"


def test_an_answer_is_kept_with_the_question_that_it_answers():
    (draft,) = drafts(
        ("user", "What does code 17 mean in the scanner log?"),
        ("assistant", "Code 17 means that the belt was empty for 30 seconds."),
    )
    assert "What does code 17 mean" in draft.text
    assert "belt was empty" in draft.text
    assert draft.evidence == ("e1", "e2")


def test_a_reply_that_only_repeats_is_evidence_but_no_second_text():
    (draft,) = drafts(
        ("user", "From now on the report uses tabs between columns."),
        ("assistant", "Noted, tabs between columns."),
    )
    assert draft.text.count("columns") == 1
    assert draft.evidence == ("e1", "e2")


def test_two_topics_of_one_session_are_two_proposals():
    found = drafts(
        ("user", "We decided that invoices are numbered per year from now on."),
        ("assistant", "Noted."),
        ("user", "Passwords must always have at least 14 characters."),
        ("assistant", "Understood."),
    )
    assert len(found) == 2


def test_a_statement_that_is_answered_as_contradicting_is_marked_contested():
    (draft,) = drafts(
        ("user", "Marketing writes: from now on all buttons must be green."),
        ("assistant", "That contradicts what design decided. I have not changed anything yet."),
    )
    assert CONTESTED in draft.labels


def test_what_was_only_considered_is_marked_tentative():
    (draft,) = drafts(
        ("user", "Maybe we could use port 9000 instead of 8443."), ("assistant", "Understood.")
    )
    assert TENTATIVE in draft.labels


def test_files_that_a_thread_names_are_kept():
    (draft,) = drafts(
        ("user", "In src/app/limits.py the maximum must stay 512."), ("assistant", "Noted.")
    )
    assert draft.files == ("src/app/limits.py",)


def test_the_text_of_a_proposal_is_bounded_and_a_long_message_costs_no_more_than_its_head():
    long = "We must always keep the limit at 12. " * 30_000
    (draft,) = drafts(("user", long), ("assistant", "Noted."))
    assert len(draft.text) <= MAX_TEXT_CHARS
    assert "cut" in draft.labels


def test_the_lexicon_holds_no_value_of_the_packs_answers(fixtures: Path):
    source = Path(cues.__file__).read_text(encoding="utf-8").lower()
    for path in sorted(fixtures.glob("tasks/*/key.json")):
        key = json.loads(path.read_text(encoding="utf-8"))
        for fact in key["gold_facts"]:
            values = re.findall(
                r'"([^"]{2,})"|\b(\d[\d.:]+)\b|\b(\w*[a-z][A-Z]\w+)\b', fact["statement"]
            )
            coined = {part.lower() for groups in values for part in groups if part}
            # One plain English word may be anybody's; all else is the pack's own.
            own = {value for value in coined if not value.isalpha()}
            assert [value for value in own if value in source] == [], path


@pytest.mark.parametrize(
    "phrase",
    [
        "It is torture to read.",
        "Lena will not have it.",
        "Nobody is to see it.",
        "The ink had run out.",
        "There were two causes.",
        "They swapped seats after the reorganisation.",
        "We got opposite orders.",
        "He has not changed anything.",
        "The prefix and the suffix are short.",
    ],
)
def test_a_phrase_of_one_history_alone_is_no_cue(phrase):
    assert not cues.cues_of(phrase)
