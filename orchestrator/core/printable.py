"""Makes text of unknown origin safe to show: on a terminal, in a plain text file, in an error message.

Pure. Whatever could move the cursor, restyle, reorder or break a line is shown as an escape instead.
Exact text stays in the record and in report.json.
"""

from __future__ import annotations

from typing import Final

MAX_SHOWN_CHARACTERS: Final = 2_000


def printable(text: str, *, limit: int | None = MAX_SHOWN_CHARACTERS, lines: bool = False) -> str:
    r"""Returns the text with every character that is not plainly visible as `\x..`, `\u....` or `\U........`.

    Escaped are the Unicode categories Cc (C0 and C1 controls), Cf (format, bidirectional overrides), Zl, Zp,
    Cs, Co, Cn, and Zs but for the space: those for which `str.isprintable` is false.

    Args:
        text: anything.
        limit: most characters that are returned, the mark of what was cut included; at least 32,
            or None for no limit.
        lines: leave line feeds and tabs as they are, for text of several lines.
    """
    kept = "\n\t" if lines else ""
    # What lies beyond the limit cannot show, so it need not be looked at.
    looked_at = text if limit is None else text[: limit + 1]
    shown = "".join(c if c.isprintable() or c in kept else _escape(c) for c in looked_at)
    if limit is None or len(shown) <= limit:
        return shown
    mark = f"... ({len(text)} characters)"
    return shown[: limit - len(mark)] + mark


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
