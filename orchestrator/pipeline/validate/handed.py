"""What a memory test hands over must need the memory: not a guess, and not what code beside the test can read.

For keys whose hidden tests hand over values (docs/adr/0046-values.md). Candidate code shares the tests'
process, so it can read names and inputs; it must not find the answer there, nor come to it by a usual word
or by the value that everyone who does the job gives. Pure; each finding says what to change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchestrator.model.task import FailToPass
from orchestrator.pipeline.validate.words import content_words
from orchestrator.scoring.suites.values import label_of
from orchestrator.sources.loader import LoadedTask

# What one would try first, whatever the question. Numbers are compared as numbers.
GUESSABLE = frozenset(
    re.findall(
        r"\w+",
        """true false yes no ok okay on off pass fail passed failed error none nil null undefined nan unknown
        empty string number boolean object function some any all inf infinity zero one""",
    )
)
GUESSABLE_NUMBERS = frozenset({-1.0, 0.0, 1.0})
# Brackets and quotes that a language writes around a value.
_WRAPPING = " \t\r\n[](){}<>\"'`&;,."
_NUMBER = re.compile(r"(?<![\w.])\d{2,}(?![\w])")
MIN_NAME_CHARS = 4


def problems(task: LoadedTask) -> list[str]:
    """Returns why memory tests could be passed without the memory; nothing where tests decide apart."""
    if task.key.card.boundary != "values":
        return []
    found: list[str] = []
    for test in task.key.card.fail_to_pass:
        if test.group == "memory":
            found += _of_values(task, test)
            found += _of_name(task, f"the name of {test.id}", label_of(test.id))
    for file in task.key.hidden_files:
        found += _of_name(task, f"the path {file.path}", file.path)
    return [*found, *_of_inputs(task)]


def guessable(value: str) -> bool:
    """Tells whether a value is one that code would try without knowing anything."""
    bare = value.strip(_WRAPPING).casefold()
    if len(bare) <= 1 or bare in GUESSABLE:
        return True
    try:
        return float(bare) in GUESSABLE_NUMBERS
    except ValueError:
        return False


def _of_values(task: LoadedTask, test: FailToPass) -> Iterator[str]:
    telling = [value for value in test.values if not guessable(value)]
    if not telling:
        yield f"{test.id} expects what one would guess: let it show more of what the code gave, as a table or a list"
        return
    shown = [task.brief.prompt, *(file.text for file in task.key.hidden_files)]
    if all(any(value.strip(_WRAPPING) in text for text in shown) for value in telling):
        yield f"the hidden files hold all that {test.id} expects: let the key alone say what is right"
    ordinary = {
        value
        for other in task.key.card.fail_to_pass
        if other.group == "capability"
        for value in other.values
    }
    if all(value in ordinary for value in telling):
        yield f"{test.id} expects only what capability tests expect: let it show a value that needs the fact"


def _of_name(task: LoadedTask, what: str, name: str) -> Iterator[str]:
    """No name, neither of a test nor of its file, may say which case the fact is about."""
    asked = set(content_words(task.brief.prompt))
    for fact in task.key.card.gold_facts:
        told = set(_words(name)) & set(content_words(fact.statement)) - asked
        for word in sorted(w for w in told if len(w) >= MIN_NAME_CHARS):
            yield f"{what} says {word!r}, a word of fact {fact.id}: give it a neutral one"


def _words(name: str) -> list[str]:
    return content_words(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name))


def _of_inputs(task: LoadedTask) -> Iterator[str]:
    """No number of a fact may stand among the inputs: a sweep over many says nothing."""
    asked = set(_NUMBER.findall(task.brief.prompt))
    written = {n for file in task.key.hidden_files for n in _NUMBER.findall(file.text)}
    for fact in task.key.card.gold_facts:
        for number in sorted(set(_NUMBER.findall(fact.statement)) & written - asked):
            yield f"the hidden files hold {number}, a number of fact {fact.id}: sweep over inputs instead"
