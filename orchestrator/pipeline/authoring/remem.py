"""Imports a public remem pack: an inline repository and tasks with a hidden unittest file each.

Format: version 1, `repo.files`, `tasks[]` with prompt, score, history_episodes and gold_memory. Summaries,
ready-made memories and curated context are left out: they are what a memory system is to find by itself.
"""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from typing import Any

from orchestrator.model.imported import ImportedTask
from orchestrator.model.task import Category
from orchestrator.pipeline.authoring.drafts import (
    FORBIDDEN,
    Draft,
    brief,
    card,
    slug,
)

SOURCE = "remem-inline"
TASK_FIELDS = frozenset(
    {
        "id",
        "category",
        "smoke",
        "prompt",
        "timeout_ms",
        "allowed_paths",
        "forbidden_paths",
        "score",
        "history_episodes",
        "gold_memory",
    }
)
SCORE_FIELDS = frozenset(
    {"commands", "required_patch_patterns", "forbidden_patch_patterns", "hidden_files"}
)
MIN_EPISODES = 10
RUNNER = {"kind": "pytest", "source_roots": ["."], "test_paths": ["tests"], "timeout_s": 120}


class Refusal(ValueError):
    """Why a task cannot be imported, with the field named."""


def repository(document: dict[str, Any]) -> dict[str, str]:
    """Returns the inline repository's files.

    Raises:
        Refusal: there is none.
    """
    repo = document.get("repo")
    files = repo.get("files") if isinstance(repo, dict) else None
    if (
        not isinstance(files, dict)
        or not all(isinstance(t, str) for t in files.values())
        or not files
    ):
        raise Refusal("repo.files: expected texts by path, found none")
    return dict(files)


def import_task(raw: Any, files: dict[str, str]) -> tuple[Draft | None, ImportedTask]:
    """Returns the draft of one task, or None with what was refused."""
    name = str(raw.get("id")) if isinstance(raw, dict) else "(no object)"
    try:
        return _import(raw, files)
    except Refusal as refusal:
        return None, ImportedTask(id=name or "(none)", refused=(str(refusal),))


def _import(raw: Any, files: dict[str, str]) -> tuple[Draft, ImportedTask]:
    hidden = _checked(raw)
    task_id = slug(str(raw["id"]))
    tests = [name for path, text in hidden.items() for name in unittest_ids(path, text)]
    if not tests:
        raise Refusal("score.hidden_files: expected test methods, found none")
    visible = {path: text for path, text in files.items() if path.startswith("tests/")}
    base = [name for path, text in visible.items() for name in unittest_ids(path, text)]
    episodes, notes = _episodes(raw.get("history_episodes"))
    draft = Draft(task_id, _documents(raw, task_id, episodes, base))
    draft.documents["key.json"] = _key(task_id, raw, tests, hidden)
    draft.texts = {f"key/hidden/{path}": text for path, text in hidden.items()}
    draft.texts |= {f"rehearsal/{n}.patch": "" for n in ("reference", "natural", "overeager")}
    draft.texts["README.md"] = (
        f"# {task_id}\nImported from a public remem pack; see `import-report.json`.\n"
    )
    report = ImportedTask(
        id=task_id,
        kept=("prompt", "hidden tests", "raw events", "patch patterns, as literal text"),
        changed=(
            "summaries, memories and fact ids are left out of the history: they are the answer",
            "agents may not change tests; hidden tests are run by pytest",
            *notes,
        ),
        to_do=("write rehearsal patches: reference, natural and overeager", "add capability tests"),
    )
    return draft, report


def _checked(raw: Any) -> dict[str, str]:
    """Checks a task's fields and returns its hidden files."""
    if not isinstance(raw, dict) or not isinstance(raw.get("score"), dict):
        raise Refusal("task: expected an object with a score")
    unknown = sorted({*raw} - TASK_FIELDS) + sorted({*raw["score"]} - SCORE_FIELDS)
    if unknown:
        raise Refusal(f"{unknown[0]}: expected no unknown field")
    hidden = raw["score"].get("hidden_files")
    if not isinstance(hidden, dict) or not hidden:
        raise Refusal("score.hidden_files: expected texts by path, found none")
    if raw.get("category") not in set(Category):
        raise Refusal(f"category: expected one of the eight, found {raw.get('category')!r}")
    for name in ("id", "prompt", "allowed_paths", "forbidden_paths"):
        if name not in raw:
            raise Refusal(f"{name}: expected it, found none")
    return dict(hidden)


def _documents(
    raw: dict[str, Any], task_id: str, episodes: list[dict[str, Any]], base: list[str]
) -> dict[str, dict[str, Any]]:
    facts = [
        {"id": f"f{i}", "any_of": [[event["text"][:60]]]}
        for i, event in enumerate(_events(episodes), 1)
    ]
    return {
        "task.json": card(
            task_id,
            task_id.replace("-", " "),
            category=raw["category"],
            source=SOURCE,
            language="python",
            runner=RUNNER,
        ),
        "brief.json": brief(
            task_id,
            str(raw["prompt"]),
            tuple(p for p in raw["allowed_paths"] if p != "tests"),
            (*FORBIDDEN, *raw["forbidden_paths"]),
        ),
        "history.json": {"task_id": task_id, "episodes": episodes},
        "key/pass_to_pass.json": {
            "task_id": task_id,
            "pass_to_pass": [{"id": name} for name in sorted(base)],
        },
        "rehearsal/rehearsal.json": {"task_id": task_id, "facts": facts},
    }


def unittest_ids(path: str, text: str) -> list[str]:
    """Returns the ids under which pytest reports the test methods and functions of a file.

    Raises:
        Refusal: the file does not parse.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise Refusal(
            f"{path}: expected Python, found {error.msg} in line {error.lineno}"
        ) from error
    module = path.removesuffix(".py").replace("/", ".")
    ids = [
        f"{module}::{n.name}"
        for n in tree.body
        if isinstance(n, ast.FunctionDef) and n.name.startswith("test")
    ]
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            ids += [
                f"{module}.{node.name}::{n.name}"
                for n in node.body
                if isinstance(n, ast.FunctionDef) and n.name.startswith("test")
            ]
    return ids


def _episodes(raw: Any) -> tuple[list[dict[str, Any]], list[str]]:
    if not isinstance(raw, list) or not raw:
        raise Refusal("history_episodes: expected at least one, found none")
    episodes = []
    for number, episode in enumerate(raw, 1):
        events = []
        for index, event in enumerate(episode.get("raw_events", []), 1):
            text = event.get("sanitized_content")
            if not isinstance(text, str) or not isinstance(event.get("timestamp_epoch"), int):
                raise Refusal(f"history_episodes[{number - 1}]: expected events with text and time")
            role = event.get("role") if event.get("role") in {"user", "assistant"} else "assistant"
            events.append(
                {
                    "event_id": f"ep{number:02}-e{index:02}",
                    "at": _utc(event["timestamp_epoch"]),
                    "role": role,
                    "text": text,
                    "tool": None,
                }
            )
        if not events:
            raise Refusal(f"history_episodes[{number - 1}].raw_events: expected events, found none")
        episodes.append(
            {"episode_id": f"ep{number:02}", "started_at": events[0]["at"], "events": events}
        )
    count = len(_events(episodes))
    notes = ["event ids are numbered anew: the old ones are digests of the answer"]
    if len(episodes) < MIN_EPISODES:
        notes.append(
            f"degenerate history: {len(episodes)} episode with {count} events, and the event is the answer; nothing can be lost at capture or retrieval"
        )
    return episodes, notes


def _events(episodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for episode in episodes for event in episode["events"]]


def _utc(epoch_s: int) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _key(
    task_id: str, raw: dict[str, Any], tests: list[str], hidden: dict[str, str]
) -> dict[str, Any]:
    episodes, _ = _episodes(raw["history_episodes"])
    score = raw["score"]

    def patterns(kind: str) -> list[dict[str, str]]:
        return [
            {"id": f"{kind}-{i}", "pattern": re.escape(p), "why": f"the pack's {kind} text {p!r}"}
            for i, p in enumerate(score.get(f"{kind}_patch_patterns", []), 1)
        ]

    facts = [
        {
            "id": f"f{i}",
            "kind": "selective",
            "statement": e["text"],
            "supporting_event_ids": [e["event_id"]],
            "matchers": [re.escape(e["text"][:40])],
        }
        for i, e in enumerate(_events(episodes), 1)
    ]
    return {
        "task_id": task_id,
        "hidden_files": [{"path": path} for path in hidden],
        "fail_to_pass": [{"id": name, "group": "memory"} for name in tests],
        "required_patch_patterns": patterns("required"),
        "forbidden_patch_patterns": patterns("forbidden"),
        "gold_facts": facts,
        "relevant_files": [p for p in raw["allowed_paths"] if p.endswith(".py")],
    }
