"""Search of the reference store: each channel finds, ranks are kept, what ended does not compete."""

from __future__ import annotations

import pytest

from orchestrator.memory.reference.adapter import embed_memories
from orchestrator.memory.reference.related import near_duplicates
from orchestrator.memory.reference.retrieve import Searcher, fuse
from orchestrator.memory.reference.vectors import HashEmbedder
from tests.unit.memory.reference.talk import heard, session

TOPICS = (
    ("user", "Invoices are numbered per year from now on, 2026-0001 and so on."),
    ("user", "The staging box must always run Debian, never Ubuntu."),
    (
        "user",
        "Exports are written as UTF-16 from now on, see src/export/writer.py for the encoder.",
    ),
    ("user", "The finance crew owns the ledger table and the crew prefers monthly totals."),
)


def store_of_topics():
    store, _ = heard(
        *(session(day, line, ("assistant", "Noted.")) for day, line in enumerate(TOPICS, 1))
    )
    embed_memories(store, HashEmbedder())
    return store


def found(prompt: str, channels=("fts", "vector", "files", "hop"), files=None, k=10):
    searcher = Searcher(store_of_topics(), "project", HashEmbedder(), channels)
    return searcher.search(prompt, k, files)


@pytest.mark.parametrize("channel", ["fts", "vector"])
def test_words_of_the_prompt_find_the_memory_in(channel):
    (best, *_) = found("How are invoices numbered per year?", (channel,))
    assert (best.ordinal, best.channels) == (0, ((channel, 1),))


def test_granted_files_find_the_memory_that_names_them():
    (best,) = found("Mend it.", ("files",), files=("src/export/writer.py",))
    assert (best.ordinal, best.channels) == (2, (("files", 1),))


def test_files_that_the_prompt_names_count_when_none_are_granted():
    (best,) = found("Mend src/export/writer.py please.", ("files",))
    assert best.ordinal == 2


def test_every_item_says_its_place_in_each_channel():
    items = found("Which encoder do the exports use in src/export/writer.py?")
    places = dict(items[0].channels)
    assert items[0].ordinal == 2
    assert places["fts"] == places["files"] == places["vector"] == 1


def test_a_query_without_a_known_word_finds_nothing_by_full_text():
    assert found("the of and", ("fts",)) == []
    assert found("zyzzyva", ("fts",)) == []


def test_search_syntax_in_a_prompt_is_plain_words():
    for prompt in ('invoices" OR *', "invoices NEAR(x)", "text:invoices", "'; DROP TABLE memories"):
        found(prompt, ("fts",))


def test_an_ended_memory_does_not_compete():
    store, _ = heard(
        session(1, ("user", "Decided: the gateway listens on port 8443."), ("assistant", "Noted.")),
        session(
            2,
            ("user", "New decision: the gateway listens on port 9443, port 8443 no longer holds."),
            ("assistant", "Replaced."),
        ),
    )
    embed_memories(store, HashEmbedder())
    searcher = Searcher(store, "project", HashEmbedder())
    assert [item.ordinal for item in searcher.search("Which port does the gateway have?", 10)] == [
        1
    ]
    assert searcher.considered == 1


def test_a_changed_memory_brings_its_change_with_it():
    store, _ = heard(
        session(
            1,
            (
                "user",
                "Owners: the search service belongs to team Oak, billing to team Elm, mail to team Fir.",
            ),
            ("assistant", "Noted."),
        ),
        session(
            2,
            ("user", "Reorganisation: team Fir takes over billing from team Elm, the others stay."),
            ("assistant", "Noted."),
        ),
    )
    items = Searcher(store, "project", None, ("fts",)).search("Who has the search service?", 10)
    assert [item.ordinal for item in items] == [0, 1]
    assert items[1].channels == (("link", 1),)


def test_another_scope_is_another_store():
    store, _ = heard(session(1, TOPICS[0], scope="elsewhere"))
    assert Searcher(store, "project", None).search("Number the invoices.", 5) == []


def test_fusion_is_by_reciprocal_rank_with_sixty():
    items = fuse({"fts": [7, 8], "vector": [8]})
    assert [item.ordinal for item in items] == [8, 7]
    assert items[0].score == pytest.approx(1 / 62 + 1 / 61)


def test_a_tie_goes_to_the_older_row():
    assert [i.ordinal for i in fuse({"fts": [5, 3], "vector": [3, 5]})] == [3, 5]


def test_texts_that_say_nearly_the_same_are_capped():
    texts = [(f"m{n}", f"The gateway listens on port 8443 behind the proxy {n}") for n in range(5)]
    other = ("other", "Invoices are numbered per year")
    assert near_duplicates([*texts, other], 2) == ["m2", "m3", "m4"]


def test_common_words_are_left_out_of_a_query_before_rare_ones():
    searcher = Searcher(store_of_topics(), "project", None, ("fts",))
    assert searcher._affordable(["now", "invoices", "crew"], 2) == ["invoices", "crew"]
    assert searcher._affordable(["now"], 0) == ["now"]
