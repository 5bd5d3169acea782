"""The rules of a diff: where it may go, what it may be made of, what its added lines must and must not hold."""

from __future__ import annotations

import posixpath
import re

from orchestrator.core.patchtext import added_lines
from orchestrator.core.pathglob import matches_any
from orchestrator.model.task import Brief, Key, PatchPattern
from orchestrator.model.verdict import Change, Harvest, Violation

# A pattern's cost must not be the candidate's to choose. What lies beyond these bounds is not matched, and
# a task that forbids something then refuses the diff: padding must not hide what is forbidden.
MAX_LINE_BYTES = 2_000
MAX_LINES = 20_000
# Whatever lies in these is never harvested, so it can do nothing; tools that an agent runs leave them behind.
BLAMELESS = frozenset({"by-product", "git-folder"})
# The harvester lists at most so many changes; a longer list may be cut.
MAX_CHANGES = 5_000


def path_violations(harvest: Harvest, brief: Brief, key: Key) -> list[Violation]:
    """Returns every breach of the path rules, in the order of the changes."""
    hidden = tuple(file.path for file in key.hidden_files)
    found: list[Violation] = []
    for change in harvest.changes:
        found += _of_change(change, brief, hidden)
    for left in harvest.left_out:
        if left.reason in BLAMELESS:
            continue
        found.append(Violation(rule="unusable_name", subject=left.name, detail=left.reason))
    if len(harvest.changes) >= MAX_CHANGES:
        found.append(
            Violation(
                rule="diff_too_large",
                subject="changes",
                detail=f"expected fewer than {MAX_CHANGES} changed paths, found at least so many",
            )
        )
    if harvest.diff_truncated:
        found.append(
            Violation(
                rule="diff_too_large",
                subject="diff",
                detail=f"expected at most {brief.limits.diff_bytes} bytes, found more",
            )
        )
    return found


def _of_change(change: Change, brief: Brief, hidden: tuple[str, ...]) -> list[Violation]:
    path = change.path
    found: list[Violation] = []
    if any(path == h or h.startswith(f"{path}/") or path.startswith(f"{h}/") for h in hidden):
        found.append(
            Violation(
                rule="hidden_test_path",
                subject=path,
                detail=f"{change.status} a path of the hidden tests",
            )
        )
    elif matches_any(path, brief.forbidden_paths):
        found.append(
            Violation(
                rule="forbidden_path", subject=path, detail=f"{change.status} a forbidden path"
            )
        )
    elif not matches_any(path, brief.allowed_paths):
        found.append(
            Violation(
                rule="outside_allowed_paths",
                subject=path,
                detail=f"{change.status} a path outside {', '.join(brief.allowed_paths)}",
            )
        )
    if change.new_mode == "120000":
        found += _of_link(change, brief, hidden)
    return found


def _of_link(change: Change, brief: Brief, hidden: tuple[str, ...]) -> list[Violation]:
    """A link may point at an allowed path of the tree and nowhere else, nor at a folder above a barred one."""
    target = change.link_target or ""
    inner = posixpath.normpath(posixpath.join(posixpath.dirname(change.path), target))
    allowed = matches_any(inner, brief.allowed_paths)
    barred = _barred(inner, brief, hidden) or _climbs_after_descent(target)
    if not target or target.startswith("/") or inner in {".", ".."} or not allowed or barred:
        return [
            Violation(
                rule="symlink", subject=change.path, detail=f"points at {target or 'nothing'}"
            )
        ]
    return []


def _barred(inner: str, brief: Brief, hidden: tuple[str, ...]) -> bool:
    below = f"{inner}/-"
    return (
        matches_any(inner, brief.forbidden_paths)
        or matches_any(below, brief.forbidden_paths)
        or any(f"{h}/".startswith(f"{inner}/") or inner.startswith(f"{h}/") for h in hidden)
    )


def _climbs_after_descent(target: str) -> bool:
    """A `..` behind a name cannot be judged by the text alone: the name may itself be a link."""
    parts = [part for part in target.split("/") if part not in {"", "."}]
    descent = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
    return ".." in parts[descent:]


def checked_lines(diff: bytes) -> tuple[list[str], bool]:
    """Returns the added lines as patterns see them, and whether anything had to be cut for it."""
    lines = added_lines(diff)
    cut = len(lines) > MAX_LINES or any(len(line) > MAX_LINE_BYTES for line in lines)
    shown = [line[:MAX_LINE_BYTES].decode("utf-8", "replace") for line in lines[:MAX_LINES]]
    return shown, cut


def pattern_violations(diff: bytes, key: Key) -> list[Violation]:
    """Returns missing required patterns and present forbidden ones, over added lines only."""
    lines, cut = checked_lines(diff)
    required = [p for p in key.card.required_patch_patterns if not _occurs(p, lines)]
    forbidden = [p for p in key.card.forbidden_patch_patterns if _occurs(p, lines)]
    found = [
        Violation(rule="required_pattern_missing", subject=p.id, detail=p.why) for p in required
    ] + [Violation(rule="forbidden_pattern_added", subject=p.id, detail=p.why) for p in forbidden]
    if cut and key.card.forbidden_patch_patterns:
        bounds = f"at most {MAX_LINES} added lines of {MAX_LINE_BYTES} bytes"
        found.append(
            Violation(rule="diff_too_large", subject="added-lines", detail=f"expected {bounds}")
        )
    return found


def _occurs(pattern: PatchPattern, lines: list[str]) -> bool:
    expression = re.compile(pattern.pattern)
    return any(expression.search(line) for line in lines)
