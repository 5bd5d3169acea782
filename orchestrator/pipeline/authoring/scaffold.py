"""Scaffolds a task: every file with what belongs into it, ready to be filled in. Overwrites nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrator.core.errors import DocumentError, UsageError
from orchestrator.model.task import Category
from orchestrator.pipeline.authoring.drafts import (
    FORBIDDEN,
    RUNNER_OF,
    Draft,
    brief,
    card,
    slug,
    write_files,
)
from orchestrator.pipeline.authoring.templates import HIDDEN_IDS, HIDDEN_TEXT
from orchestrator.sources.loader import load_source

FILL = "FILL IN"
_NODE_OWN = ("package.json", "tsconfig*.json", "node_modules/**", "**/*.config.*", ".npmrc")
# (what an agent may change, what it may not): a start, to be fitted to the source.
PATHS_OF = {
    "python": (("src/**",), FORBIDDEN),
    "javascript": (("src/**",), ("tests/**", *_NODE_OWN, ".mocharc*", ".git/**")),
    "typescript": (("src/**",), ("tests/**", *_NODE_OWN, ".git/**")),
    "go": (("*.go",), ("**/*_test.go", "*_test.go", "go.mod", "go.sum", "go.work", "vendor/**", ".git/**")),
    "rust": (("src/**",), ("tests/**", "Cargo.*", "**/build.rs", "build.rs", ".cargo/**", ".config/**", "rust-toolchain*", ".git/**")),
}  # fmt: skip
HIDDEN_OF = {
    "python": "tests/test_hidden_{}.py",
    "javascript": "tests/{}.hidden.test.js",
    "typescript": "tests/{}.hidden.test.ts",
    "go": "{}_hidden_test.go",
    "rust": "tests/hidden_{}.rs",
}


def scaffold(
    fixtures: Path, task_id: str, *, source: str, language: str, category: str
) -> list[str]:
    """Writes the files of a new task and returns their paths.

    Raises:
        UsageError: the id or the category is none.
        DocumentError: the task exists, or there is no such source.
    """
    if task_id != slug(task_id):
        raise UsageError(
            "task-id-invalid",
            f"expected an id such as {slug(task_id)}, found {task_id!r}",
            hint="use small letters, digits and dashes",
        )
    if category not in set(Category):
        raise UsageError(
            "category-unknown",
            f"expected one of {', '.join(Category)}, found {category!r}",
            hint="choose with --category",
        )
    folder = fixtures / "tasks" / task_id
    if folder.exists():
        raise DocumentError(
            "task-exists", f"expected no task {task_id}, found {folder}", hint="choose another id"
        )
    load_source(fixtures, source)
    hidden = HIDDEN_OF[language].format(task_id.replace("-", "_"))
    draft = Draft(task_id, _documents(task_id, language))
    draft.documents["task.json"] = card(
        task_id,
        FILL,
        category=category,
        source=source,
        language=language,
        runner=RUNNER_OF[language],
    )
    draft.documents["key.json"] = _key(task_id, hidden, language)
    draft.texts = {f"rehearsal/{name}.patch": "" for name in ("reference", "natural", "overeager")}
    draft.texts[f"key/hidden/{hidden}"] = HIDDEN_TEXT[language]
    draft.texts["README.md"] = (
        f"# {task_id}\n{FILL}: what must be remembered, and how each patch fails.\n"
    )
    files = draft.files()
    write_files(folder, files)
    return [f"{folder.name}/{name}" for name in sorted(files)]


def _documents(task_id: str, language: str) -> dict[str, dict[str, Any]]:
    prompt = f"{FILL}: what an engineer would ask for. Say that something was agreed, never what."
    return {
        "brief.json": brief(task_id, prompt, *PATHS_OF[language]),
        "history.json": {
            "task_id": task_id,
            "episodes": [_episode(number) for number in range(1, 11)],
        },
        "key/pass_to_pass.json": {"task_id": task_id, "pass_to_pass": [{"id": FILL}]},
        "rehearsal/rehearsal.json": {
            "task_id": task_id,
            "facts": [{"id": "f1", "any_of": [[FILL]]}],
        },
    }


def _key(task_id: str, hidden: str, language: str) -> dict[str, Any]:
    fact = {
        "id": "f1",
        "kind": "selective",
        "statement": FILL,
        "supporting_event_ids": ["ep04-e01"],
        "matchers": [FILL],
    }
    place = {
        "python": hidden.removesuffix(".py").replace("/", "."),
        "rust": Path(hidden).stem,
    }.get(language, hidden)
    values = {} if language == "python" else {"values": [FILL]}
    return {
        "task_id": task_id,
        "hidden_files": [{"path": hidden}],
        "boundary": "process" if language == "python" else "values",
        "fail_to_pass": [
            {"id": name.format(place), "group": group, **values}
            for name, group in zip(HIDDEN_IDS[language], ("capability", "memory"), strict=True)
        ],
        "gold_facts": [fact],
        "relevant_files": [FILL],
    }


def _episode(number: int) -> dict[str, object]:
    name, at = f"ep{number:02}", f"2026-01-{number:02}T09:00:00Z"
    event = {"event_id": f"{name}-e01", "at": at, "role": "user", "text": FILL, "tool": None}
    return {"episode_id": name, "started_at": at, "events": [event]}
