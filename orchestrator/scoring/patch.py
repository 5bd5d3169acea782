"""The rules of a diff: where it may go, what it may be made of, what its added lines must and must not hold."""

from __future__ import annotations

import posixpath
import re

from orchestrator.core.patchtext import added_lines
from orchestrator.core.pathglob import matches_any
from orchestrator.model.task import Brief, Key, PatchPattern
from orchestrator.model.verdict import Change, Harvest, Violation

# Longer lines are cut before matching: a pattern's cost must not be the candidate's to choose.
MAX_LINE_BYTES = 2_000
MAX_LINES = 20_000


def path_violations(harvest: Harvest, brief: Brief, key: Key) -> list[Violation]:
    """Returns every breach of the path rules, in the order of the changes."""
    hidden = tuple(file.path for file in key.hidden_files)
    found: list[Violation] = []
    for change in harvest.changes:
        found += _of_change(change, brief, hidden)
    for left in harvest.left_out:
        found.append(Violation(rule="unusable_name", subject=left.name, detail=left.reason))
    if harvest.diff_truncated:
        found.append(Violation(rule="diff_too_large", subject="diff", detail=f"expected at most {brief.limits.diff_bytes} bytes, found more"))
    return found


def _of_change(change: Change, brief: Brief, hidden: tuple[str, ...]) -> list[Violation]:
    path = change.path
    found: list[Violation] = []
    if any(path == h or h.startswith(f"{path}/") or path.startswith(f"{h}/") for h in hidden):
        found.append(Violation(rule="hidden_test_path", subject=path, detail=f"{change.status} a path of the hidden tests"))
    elif matches_any(path, brief.forbidden_paths):
        found.append(Violation(rule="forbidden_path", subject=path, detail=f"{change.status} a forbidden path"))
    elif not matches_any(path, brief.allowed_paths):
        found.append(Violation(rule="outside_allowed_paths", subject=path, detail=f"{change.status} a path outside {', '.join(brief.allowed_paths)}"))
    if change.new_mode == "120000":
        found += _of_link(change, brief, hidden)
    return found


def _of_link(change: Change, brief: Brief, hidden: tuple[str, ...]) -> list[Violation]:
    """A link may point at an allowed path of the tree and nowhere else."""
    target = change.link_target or ""
    inner = posixpath.normpath(posixpath.join(posixpath.dirname(change.path), target))
    bad = target.startswith("/") or inner == ".." or inner.startswith("../") or inner in hidden
    if bad or not matches_any(inner, brief.allowed_paths) or matches_any(inner, brief.forbidden_paths):
        return [Violation(rule="symlink", subject=change.path, detail=f"points at {target or 'nothing'}")]
    return []


def pattern_violations(diff: bytes, key: Key) -> list[Violation]:
    """Returns missing required patterns and present forbidden ones, over added lines only."""
    lines = [line[:MAX_LINE_BYTES].decode("utf-8", "replace") for line in added_lines(diff)[:MAX_LINES]]
    required = [p for p in key.card.required_patch_patterns if not _occurs(p, lines)]
    forbidden = [p for p in key.card.forbidden_patch_patterns if _occurs(p, lines)]
    return [Violation(rule="required_pattern_missing", subject=p.id, detail=p.why) for p in required] + [
        Violation(rule="forbidden_pattern_added", subject=p.id, detail=p.why) for p in forbidden
    ]


def _occurs(pattern: PatchPattern, lines: list[str]) -> bool:
    expression = re.compile(pattern.pattern)
    return any(expression.search(line) for line in lines)
