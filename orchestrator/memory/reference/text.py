"""Cuts text of history into sentences, content terms, values and files. Pure, linear in the text's length.

A value is what two statements can differ in: a quoted literal, a number, a clock time, a number word.
"""

from __future__ import annotations

import re
from typing import Final

from orchestrator.memory.sqlite.search import split_camel
from orchestrator.memory.stopwords import STOP_WORDS

MAX_SENTENCES: Final = 60
# What one message says first; the rest of a longer one is not looked at, and that is labelled.
MAX_READ_CHARS: Final = 8_000

_SENTENCE_END: Final = re.compile(
    r"(?<=[.!?])[\"')\]]?\s+(?=[\"'(\[]?[A-Z0-9\"'`])|\n+|\s-\s(?=[\"'A-Z0-9])"
)
_WORD: Final = re.compile(r"[^\W_]+")
_QUOTED: Final = re.compile(r"\"([^\"\n]{1,60})\"|`([^`\n]{1,60})`")
_NUMBER: Final = re.compile(
    r"(?<![\w.])\d{1,4}(?:[.:,/-]\d{1,6}){0,3}\b%?|(?<![\w.])\d{1,12}(?![\w])"
)
_IDENTIFIER: Final = re.compile(
    r"(?<![\w/.-])(?:[A-Za-z]\w{0,60}_\w{1,60}|[a-z]{1,40}[A-Z]\w{1,40}|[A-Z][a-z]{1,40}[A-Z]\w{0,40}|--?[a-z][\w-]{1,40}"
    r"|[A-Z]{2,20}\b|[\w.]{1,40}\(\)|[A-Z][a-z]{1,20}-[A-Z][\w-]{1,20}|\w{1,20}/(?![\w/]))"
)
_FILE: Final = re.compile(
    r"(?<![\w/.:-])(?:[\w.-]{1,60}/){0,8}[\w-]{1,60}\.(?:py|js|ts|tsx|jsx|go|rs|c|h|cpp|java|rb|md|rst|toml|json|ya?ml|cfg|ini|sql|sh)\b"
)
# A word with a capital inside a sentence: a product, a place, a person.
_NAME: Final = re.compile(r"(?<=[a-z0-9,] )[A-Z][a-z]{2,30}\b")
_NUMBER_WORDS: Final = frozenset(
    [
        "zero",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fifteen",
        "twenty",
        "thirty",
        "forty",
        "fifty",
        "sixty",
        "hundred",
        "thousand",
        "half",
        "quarter",
        "dozen",
        "twice",
    ]
)
_SUFFIXES: Final = ("ingly", "edly", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s")


def sentences(text: str) -> list[str]:
    """Returns the sentences of a message in order, at most 60 of its first 8,000 characters."""
    found = (part.strip() for part in _SENTENCE_END.split(text[:MAX_READ_CHARS]))
    return [part for part in found if part][:MAX_SENTENCES]


def stem(word: str) -> str:
    """Returns a word without its English ending: enough to see that two words are one."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            root = word[: -len(suffix)] + ("y" if suffix in {"ies", "ied"} else "")
            return root[:-1] if len(root) > 4 and root[-1] == root[-2] else root
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


_NUMBER_STEMS: Final = frozenset(map(stem, _NUMBER_WORDS))


def terms(text: str) -> frozenset[str]:
    """Returns the content words of a text, stemmed; identifiers are cut into their words."""
    return frozenset(word for word in content(text[:MAX_READ_CHARS]) if len(word) > 1)


def content(text: str) -> list[str]:
    """Returns the content words of a whole text in order, however long it is, with every digit that stands alone."""
    words = (word.lower() for word in _WORD.findall(split_camel(text)))
    return [stem(w) for w in words if (len(w) > 1 or w.isdigit()) and w not in STOP_WORDS]


def is_number(word: str) -> bool:
    """Whether a content word is a number, in digits or as a word."""
    return word.isdigit() or word in _NUMBER_STEMS


def stands_in(claim: str, text: str) -> bool:
    """Whether a text says a claim word for word, at any place, whatever the white space between the words."""
    wanted, said = " ".join(claim.split()), " ".join(text.split())
    found = re.escape(wanted)
    return bool(wanted) and re.search(rf"(?<![^\W_]){found}(?![^\W_])", said) is not None


def literals(text: str) -> tuple[str, ...]:
    """Returns the quoted literals of a text in order."""
    return tuple(dict.fromkeys((a or b).strip() for a, b in _QUOTED.findall(text[:MAX_READ_CHARS])))


def identifiers(text: str) -> tuple[str, ...]:
    """Returns what looks like a name in code or configuration, in order."""
    return tuple(dict.fromkeys(_IDENTIFIER.findall(text[:MAX_READ_CHARS])))


def numbers(text: str) -> tuple[str, ...]:
    """Returns numbers, clock times and number words, in order."""
    text = text[:MAX_READ_CHARS]
    words = [w for w in _WORD.findall(text.lower()) if w in _NUMBER_WORDS]
    return tuple(dict.fromkeys([*_NUMBER.findall(text), *words]))


def values(text: str) -> frozenset[str]:
    """Returns what two statements about one thing can differ in."""
    names = _NAME.findall(text[:MAX_READ_CHARS])
    return frozenset([*literals(text), *identifiers(text), *numbers(text), *names])


def files(text: str) -> tuple[str, ...]:
    """Returns the paths of source files that a text names, in order."""
    return tuple(dict.fromkeys(_FILE.findall(text[:MAX_READ_CHARS])))[:20]
