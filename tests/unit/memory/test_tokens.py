"""The frozen unit: what counts as a token never depends on what the text says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.memory.tokens import TokenCounter


@pytest.fixture(scope="module")
def counter() -> TokenCounter:
    return TokenCounter()


def test_the_empty_text_has_no_tokens(counter: TokenCounter) -> None:
    assert counter.count("") == 0


def test_counts_are_those_of_the_published_encoding(counter: TokenCounter) -> None:
    # https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken, o200k_base
    assert counter.count("antidisestablishmentarianism") == 6
    assert counter.count("2 + 2 = 4") == 7
    assert counter.count("お誕生日おめでとう") == 8


def test_a_special_token_in_the_text_is_ordinary_text(counter: TokenCounter) -> None:
    assert counter.count("<|endoftext|>") > 1


def test_a_text_of_more_than_a_million_characters_is_counted(counter: TokenCounter) -> None:
    assert counter.count("a " * 600_000) == 600_001


def test_a_lone_surrogate_does_not_stop_the_count(counter: TokenCounter) -> None:
    assert counter.count("a\ud800b") == counter.count("a\ufffdb")


def test_threads_share_one_counter() -> None:
    shared = TokenCounter()
    with ThreadPoolExecutor(max_workers=8) as pool:
        assert set(pool.map(shared.count, ["two words"] * 64)) == {2}
