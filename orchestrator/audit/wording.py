"""What of a report is words of the program that wrote it, and what its text must tell whoever words it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from orchestrator.core.printable import printable
from orchestrator.model.report import RunReport, TrialRow

# A sign counts, and so does a fraction that begins with its point, or an `x` for `times`.
_FIGURE = re.compile(r"(?<![\w.])[-+\u2212]?(?:x(?=[\d.,]+(?!\w)))?(?:\d+(?:[.,]\d+)*|\.\d+)")
_BETWEEN_CELLS = re.compile(r"\s{2,}")
_WORD = re.compile(r"[\w-]+|[^\w-]")
"""A run of what names are made of, which none begins or ends within, or what stands between two."""
_ITEM = re.compile(r"\s*[-*] (?=\S)")
MIN_CELLS = 3
"""A line of so many cells, two blanks apart, is one of a table."""


def figures(text: str) -> tuple[str, ...]:
    """Returns the numbers of a text, in order; digits within a word are none."""
    return tuple(_FIGURE.findall(text))


def told_lines(text: str, report: RunReport) -> list[tuple[str, ...]]:
    """Returns what each line tells, in order: of a table its cells, else the names and figures in it.

    Args:
        text: a report in words.
        report: whose trials, arms and tasks are the names.
    """
    names = _Names(
        {
            *(name for row in report.trials for name in (row.trial, row.task_id)),
            *(name for arm in report.arms for name in (arm.agent, arm.condition_id)),
        }
    )
    lines = []
    for line in text.splitlines():
        cells = _BETWEEN_CELLS.split(line.strip())
        found = tuple(cells) if len(cells) >= MIN_CELLS else tuple(_names_and_figures(line, names))
        if found:
            lines.append(found)
    return lines


class _Names:
    """Names by their words: a look at a place of a line takes as long as the longest name, however many there are."""

    def __init__(self, names: Iterable[str]) -> None:
        self.below: dict[str, _Names] = {}
        self.is_whole = False
        for name in names:
            place = self
            for word in _WORD.findall(name):
                place = place.below.setdefault(word, _Names(()))
            place.is_whole = True

    def longest(self, words: Sequence[str], start: int) -> int:
        """Returns how many words from a place on are the longest name there; a trial's key holds those of its arm."""
        node, found = self, 0
        for at in range(start, len(words)):
            below = node.below.get(words[at])
            if below is None:
                break
            node = below
            found = at + 1 - start if node.is_whole else found
        return found


def _names_and_figures(line: str, names: _Names) -> Iterator[str]:
    """Yields the names in a line and the figures between them, in order."""
    words = _WORD.findall(line)
    begun = at = place = 0
    while place < len(words):
        many = names.longest(words, place)
        if many:
            name = "".join(words[place : place + many])
            yield from _FIGURE.findall(line, begun, at)
            yield name
            begun = at + len(name)
        for word in words[place : place + max(many, 1)]:
            at += len(word)
        place += max(many, 1)
    yield from _FIGURE.findall(line, begun)


def items(text: str) -> set[str]:
    """Returns the items of a text's lists, each on one line, however it was wrapped."""
    found: list[list[str]] = []
    within = False
    for line in text.splitlines():
        begins = _ITEM.match(line)
        if begins:
            found.append([line[begins.end() :]])
        elif within and line[:1].isspace() and line.strip():
            found[-1].append(line)
        within = bool(begins) or (within and line[:1].isspace() and bool(line.strip()))
    return {" ".join(" ".join(lines).split()) for lines in found}


def untold(text: str, report: RunReport) -> list[str]:
    """Returns the limitations of a report that stand in no list of its text."""
    stand = items(text)
    return [
        limitation
        for limitation in report.limitations
        if " ".join(printable(limitation).split()) not in stand
    ]


def wordless(report: RunReport) -> RunReport:
    """Returns a report without the sentences that a program chooses."""
    blocks = tuple(
        block.model_copy(update={"because": ("",) * len(block.because)})
        for block in report.inadmissible_blocks
    )
    return report.model_copy(
        update={
            "trials": tuple(_wordless_row(row) for row in report.trials),
            "maintenance": tuple(r.model_copy(update={"why": ""}) for r in report.maintenance),
            "inadmissible_blocks": blocks,
            "limitations": (),
        }
    )


def _wordless_row(row: TrialRow) -> TrialRow:
    charge = row.charge and row.charge.model_copy(update={"evidence": ()})
    return row.model_copy(update={"why": "", "charge": charge})


def worded(said: RunReport, report: RunReport) -> Iterator[tuple[str, str, str | None]]:
    """Yields where words stand, what they say, and what this program says there; None where it says nothing.

    Args:
        said: as another program words it.
        report: as this one does; the two are equal without their words.
    """
    for trial, ours in zip(said.trials, report.trials, strict=True):
        yield f"why of {trial.trial}", trial.why, ours.why
        yield f"charge of {trial.trial}", _evidence(trial), _evidence(ours)
    for row, mine in zip(said.maintenance, report.maintenance, strict=True):
        yield f"maintenance of {row.condition_id}", row.why, mine.why
    for block, own in zip(said.inadmissible_blocks, report.inadmissible_blocks, strict=True):
        for text, because in zip(block.because, own.because, strict=True):
            yield f"reasons of {block.task_id}", text, because
    for text in said.limitations:
        yield "limitations", text, text if text in report.limitations else None


def _evidence(row: TrialRow) -> str:
    return "\n".join(row.charge.evidence) if row.charge else ""
