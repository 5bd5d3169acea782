"""Promise: every command that the README shows is one that this memtrial understands."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest

from orchestrator.cli.arguments import Parser
from orchestrator.cli.main import VERBS

README = Path(__file__).resolve().parents[3] / "README.md"
SHOWN = sorted(
    {
        command.replace(" ...", "")
        for command in re.findall(r"`memtrial ([a-z][^`]*)`", README.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize("command", SHOWN)
def test_a_command_of_the_readme_is_understood(command):
    verb, *words = shlex.split(command)
    assert verb in VERBS
    if words:
        module = importlib.import_module(f"orchestrator.cli.{verb}")
        parser = Parser(verb, module.__doc__ or "")
        module.configure(parser)
        parser.parse_args(words)


def test_the_readme_shows_commands():
    assert len(SHOWN) > 15


@pytest.mark.parametrize("verb", ["official", "supervisor"])
def test_a_verb_that_dispatches_runs_says_so_in_the_list_of_verbs(verb):
    assert "dispatch" in VERBS[verb][0]
