"""Imports Harbor task directories (schema 1.4): one step, a Python suite, forced to a separate verifier without network.

`task.toml`, `instruction.md`, `environment/` and `tests/` are read; nothing of them is run, and no Dockerfile
is followed: the files of `environment/` are the repository. `solution/` never leaves its folder.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from orchestrator.core.errors import DocumentError
from orchestrator.core.files import read_confined
from orchestrator.model.imported import ImportedTask
from orchestrator.pipeline.authoring.drafts import (
    FORBIDDEN,
    Draft,
    brief,
    card,
    slug,
    without_history,
)
from orchestrator.pipeline.authoring.remem import Refusal, unittest_ids

SCHEMA = "1.4"
MAX_BYTES = 4 * 1024 * 1024
NO_REPOSITORY = frozenset({"Dockerfile", "docker-compose.yaml", ".dockerignore"})
TABLES: dict[str, frozenset[str]] = {
    "": frozenset(
        [
            "schema_version",
            "version",
            "task",
            "metadata",
            "environment",
            "agent",
            "verifier",
            "solution",
            "artifacts",
            "steps",
            "multi_step_reward_strategy",
            "source",
        ]
    ),
    "task": frozenset(["name", "version", "description", "authors", "keywords"]),
    "environment": frozenset(
        [
            "docker_image",
            "build_timeout_sec",
            "cpus",
            "memory_mb",
            "storage_mb",
            "network_mode",
            "allowed_hosts",
            "env",
            "workdir",
            "healthcheck",
            "mcp_servers",
            "skills_dir",
            "os",
            "memory",
            "storage",
            "allow_internet",
            "gpus",
            "gpu_types",
        ]
    ),
    "agent": frozenset(["timeout_sec", "user", "network_mode", "allowed_hosts"]),
    "verifier": frozenset(
        ["timeout_sec", "env", "user", "environment_mode", "environment", "collect"]
    ),
}


def import_folder(folder: Path) -> tuple[Draft | None, dict[str, bytes], ImportedTask]:
    """Returns (draft, repository files, report) of one task directory, or None with what was refused."""
    try:
        return _import(folder)
    except Refusal as refusal:
        return None, {}, ImportedTask(id=folder.name, refused=(str(refusal),))
    except DocumentError as error:
        return None, {}, ImportedTask(id=folder.name, refused=(error.message,))


def _import(folder: Path) -> tuple[Draft, dict[str, bytes], ImportedTask]:
    settings = _settings(folder)
    changed = _forced(settings)
    prompt = _text(folder, "instruction.md").strip()
    if not prompt:
        raise Refusal("instruction.md: expected a prompt, found none")
    files, visible = _repository(folder)
    hidden, wanted = _hidden(folder)
    clash = sorted(set(hidden) & set(files))
    if clash:
        raise Refusal(
            f"{clash[0]}: expected a hidden test to be a new file, found it in environment too"
        )
    task_id = slug(str(settings["task"]["name"]))
    draft = _draft(
        task_id,
        settings=settings,
        prompt=prompt,
        hidden=hidden,
        wanted=sorted(wanted),
        visible=visible,
        files=files,
    )
    report = ImportedTask(
        id=task_id,
        kept=("instruction.md", "environment files, as repository", "Python tests, as hidden ones"),
        changed=(
            *changed,
            "test.sh is not run: pytest runs the hidden files",
            "solution/ is left where it is",
        ),
        to_do=(
            "write a history of 10 to 30 episodes and the facts in it: this task has none",
            "write the three rehearsal patches, and sort the tests into capability and memory",
        ),
    )
    return draft, files, report


def _repository(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """Returns the files of `environment/` and the ids of the visible tests among them."""
    files = {p: d for p, d in _below(folder, "environment").items() if p not in NO_REPOSITORY}
    if not files:
        raise Refusal(
            "environment: expected the repository's files, found only a Dockerfile: its steps are not followed"
        )
    texts = {p: d.decode("utf-8", "replace") for p, d in files.items() if _is_test(p)}
    visible = [name for path, text in texts.items() for name in unittest_ids(path, text)]
    if not visible:
        raise Refusal("environment: expected a visible Python test for the base suite, found none")
    return files, visible


def _hidden(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Returns the Python files of `tests/` and the ids of their tests."""
    hidden = {
        f"tests/{p}": d.decode("utf-8", "replace")
        for p, d in _below(folder, "tests").items()
        if p.endswith(".py")
    }
    wanted = [name for path, text in hidden.items() for name in unittest_ids(path, text)]
    if not wanted:
        raise Refusal(
            "tests: expected Python test files, found none; other suites cannot be judged from test.sh"
        )
    return hidden, wanted


def _settings(folder: Path) -> dict[str, Any]:
    try:
        settings = tomllib.loads(_text(folder, "task.toml"))
    except tomllib.TOMLDecodeError as error:
        raise Refusal(f"task.toml: expected TOML, found {error}") from error
    version = str(settings.get("schema_version", settings.get("version", "")))
    if version != SCHEMA:
        raise Refusal(f"schema_version: expected {SCHEMA}, found {version or 'none'}")
    for table, known in TABLES.items():
        values = settings if table == "" else settings.get(table, {})
        if not isinstance(values, dict):
            raise Refusal(f"{table}: expected a table")
        unknown = sorted({*values} - known)
        if unknown:
            raise Refusal(f"{table + '.' if table else ''}{unknown[0]}: expected no unknown field")
    if not isinstance(settings.get("task", {}).get("name"), str):
        raise Refusal("task.name: expected a name, found none")
    if settings.get("steps"):
        raise Refusal("steps: expected a single-step task, found several steps")
    return settings


def _forced(settings: dict[str, Any]) -> list[str]:
    """Returns what is forced: the verifier apart, and no network anywhere."""
    verifier, environment = settings.get("verifier", {}), settings.get("environment", {})
    changed = []
    mode = verifier.get("environment_mode", "shared")
    if mode not in {"shared", "separate"}:
        raise Refusal(f"verifier.environment_mode: expected shared or separate, found {mode!r}")
    if mode == "shared":
        changed.append(
            "verifier.environment_mode shared: forced to separate; in its own form the task is refused for official plans"
        )
    for where, table in (("environment", environment), ("agent", settings.get("agent", {}))):
        network = table.get("network_mode", "no-network")
        if network not in {"public", "no-network", "allowlist"}:
            raise Refusal(
                f"{where}.network_mode: expected public, no-network or allowlist, found {network!r}"
            )
        if network != "no-network" or table.get("allow_internet"):
            changed.append(f"{where}.network_mode {network}: forced to no network")
    changed += [
        f"environment.{n} is deprecated and not used"
        for n in ("memory", "storage", "allow_internet")
        if n in environment
    ]
    if environment.get("mcp_servers"):
        raise Refusal(
            "environment.mcp_servers: expected none, found servers that the agent would need"
        )
    return changed


def _text(folder: Path, name: str) -> str:
    try:
        return read_confined(folder, name, max_bytes=MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(f"{name}: expected UTF-8, found {error.reason}") from error


def _below(folder: Path, name: str) -> dict[str, bytes]:
    """Returns the regular files below a folder; a link refuses the task."""
    found: dict[str, bytes] = {}
    for path in sorted((folder / name).rglob("*")) if (folder / name).is_dir() else []:
        inner = path.relative_to(folder / name).as_posix()
        if path.is_symlink():
            raise Refusal(f"{name}/{inner}: expected files, found a link")
        if path.is_file() and "__pycache__" not in path.parts:
            found[inner] = read_confined(folder, f"{name}/{inner}", max_bytes=MAX_BYTES)
    return found


def _is_test(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _draft(
    task_id: str,
    *,
    settings: dict[str, Any],
    prompt: str,
    hidden: dict[str, str],
    wanted: list[str],
    visible: list[str],
    files: dict[str, bytes],
) -> Draft:
    tests = sorted(p for p in files if _is_test(p))
    runner = {"kind": "pytest", "source_roots": ["."], "test_paths": tests, "timeout_s": 600}
    sources = sorted(p for p in files if p.endswith(".py") and not _is_test(p)) or sorted(files)
    draft = Draft(
        task_id,
        without_history(task_id, hidden=hidden, wanted=wanted, base=visible, relevant=sources[:5]),
    )
    draft.documents["task.json"] = card(
        task_id,
        str(settings["task"].get("description") or task_id),
        category="workstream_continuity",
        source=task_id,
        language="python",
        runner=runner,
    )
    draft.documents["brief.json"] = brief(task_id, prompt, ("**",), (*FORBIDDEN, *tests))
    draft.texts = {f"key/hidden/{path}": text for path, text in hidden.items()}
    draft.texts |= {f"rehearsal/{n}.patch": "" for n in ("reference", "natural", "overeager")}
    draft.texts["README.md"] = (
        f"# {task_id}\nImported from a Harbor task; see `import-report.json`.\n"
    )
    return draft
