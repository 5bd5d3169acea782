"""What of a task's secret files is telling enough to be looked for in image layers. Pure.

A line that only opens something (`def __init__(self, path: str) -> None:`, `@pytest.mark.parametrize(`) is
written by everybody, and stands in our own programs too. It tells something together with what it opens, so
it is looked for joined with the lines that follow, up to the first that opens nothing. White space is taken
out of what is looked for and of what is searched: another indentation hides nothing, nor does a line break.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from orchestrator.sandbox.leaks.forms import squeeze

MIN_BYTES = 24
_OPENING = (b"(", b"[", b"{", b":", b"=>")


def units(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the squeezed lines of a file, each that opens something joined with what it opens."""
    opened: list[bytes] = []
    for line in map(squeeze, lines):
        if not line:
            continue
        opened.append(line)
        if not opens(line):
            # The inner ones of several openers tell something on their own as well.
            yield from (b"".join(opened[n:]) for n in range(len(opened)))
            opened = []


def opens(line: bytes) -> bool:
    """Tells whether a squeezed line says nothing without the next one."""
    return line.startswith(b"@") or line.endswith(_OPENING)


def telling(secrets: Iterable[bytes], pinned: bytes) -> list[bytes]:
    """Returns what is long enough not to occur by chance and is no part of the pinned checkout, sorted."""
    known = squeeze(pinned)
    return sorted({unit for unit in secrets if len(unit) >= MIN_BYTES and unit not in known})
