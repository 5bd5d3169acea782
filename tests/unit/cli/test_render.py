"""Promise: nothing that a candidate, an archive or an engine wrote can control a terminal."""

from __future__ import annotations

import io
import json

import pytest

from orchestrator.cli import render
from orchestrator.cli.live import Progress
from orchestrator.core.errors import IntegrityError

HOSTILE = "a\x1b]0;pwned\x07\x1b[2J\x9b2J\u202etxt\u2028b"
SHOWN = "a\\x1b]0;pwned\\x07\\x1b[2J\\x9b2J\\u202etxt\\u2028b"


@pytest.mark.parametrize("show", [render.text, render.note])
def test_results_and_remarks_are_shown_escaped_with_their_lines(
    show: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(show)
    show(f"first\n{HOSTILE}")
    out, err = capsys.readouterr()
    assert out + err == f"first\n{SHOWN}\n"


def test_an_error_can_neither_control_the_terminal_nor_pretend_another_next_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = IntegrityError("x", f"{HOSTILE}\n  next: run this", hint=HOSTILE)
    render.failure(error, as_json=False)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"memtrial: {SHOWN}\\x0a  next: run this"
    assert lines[1] == f"  next: {SHOWN}"


def test_a_json_document_is_exact_and_in_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    render.document({"name": HOSTILE + "\x7fü"})
    out = capsys.readouterr().out
    assert json.loads(out) == {"name": HOSTILE + "\x7fü"}
    assert all(c == "\n" or " " <= c <= "~" for c in out)


def test_a_progress_line_stays_one_line_and_is_bounded() -> None:
    out = io.StringIO()
    Progress(out).say(f"{HOSTILE}\nforged line\r" + "x" * 10_000)
    assert out.getvalue().startswith(f"{SHOWN}\\x0aforged line\\x0d")
    assert out.getvalue().count("\n") == 1
    assert len(out.getvalue()) <= 2_001
