"""Promise: files of a checkout that steer agents are found wherever they lie, and no others are taken for them."""

from __future__ import annotations

import pytest

from orchestrator.core.gittree import FileEntry
from orchestrator.sources.steering import steering_files, steers, telling_lines


@pytest.mark.parametrize(
    "path",
    [
        "CLAUDE.md",
        "CLAUDE.local.md",
        "AGENTS.md",
        "docs/deep/AGENTS.override.md",
        ".claude/settings.json",
        "sub/.claude/skills/a/SKILL.md",
        ".codex/hooks.json",
        ".agents/skills/a/SKILL.md",
        ".mcp.json",
        ".github/copilot-instructions.md",
    ],
)
def test_a_file_that_steers_agents_is_found(path):
    assert steers(path)


@pytest.mark.parametrize("path", ["README.md", "src/claude.py", "docs/AGENTS.rst", "claude/x.md"])
def test_other_files_are_none(path):
    assert not steers(path)


def test_they_come_by_path_with_the_lines_that_tell_them():
    entries = [FileEntry(p, "100644", b"short\nA line that is long enough to be known.\n") for p in ("b/CLAUDE.md", "x.py", "AGENTS.md")]  # fmt: skip
    assert [e.path for e in steering_files(entries)] == ["AGENTS.md", "b/CLAUDE.md"]
    assert telling_lines(entries[0].data) == ("A line that is long enough to be known.",)
