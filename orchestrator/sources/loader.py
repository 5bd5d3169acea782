"""Loads tasks, conditions and curated files from the fixtures, checked against one another.

A task loads as separate views; whoever gets one view cannot reach the others through it. Reads only
below the fixtures folder, follows no links there, writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError, unknown_name
from orchestrator.core.files import read_confined, safe_relative
from orchestrator.core.patchtext import touched_paths
from orchestrator.core.pathglob import matches_any
from orchestrator.core.places import added_conditions_path, data_root
from orchestrator.model.condition import AddedConditions, ConditionRegistry
from orchestrator.model.curation import CuratorLog, parse_curator_log
from orchestrator.model.source import Source, parse_source
from orchestrator.model.task import (
    Brief,
    HiddenFile,
    History,
    Key,
    KeyCard,
    PassToPassList,
    Rehearsal,
    RehearsalCard,
    TaskCard,
    TaskDigests,
)
from orchestrator.sources.checkout import Checkout

MAX_FILE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LoadedTask:
    """All views of one task. `root` is the folder of fixtures, or of a pack, that it came from."""

    card: TaskCard
    source: Source
    brief: Brief
    history: History
    key: Key
    rehearsal: Rehearsal
    digests: TaskDigests
    root: Path | None = None


@dataclass(frozen=True, slots=True)
class CuratedFile:
    """A MEMORY.md with the log of how it came to be."""

    text: str
    log: CuratorLog
    file_sha256: str
    log_sha256: str


def list_tasks(fixtures: Path) -> tuple[str, ...]:
    """Returns the ids of all tasks, sorted."""
    folder = fixtures / "tasks"
    return (
        tuple(sorted(p.name for p in folder.iterdir() if (p / "task.json").is_file()))
        if folder.is_dir()
        else ()
    )


def load_task(fixtures: Path, task_id: str) -> LoadedTask:
    """Loads and checks one task.

    Raises:
        UsageError: there is no such task.
        DocumentError: one of its files is missing, malformed, or contradicts another.
    """
    known = list_tasks(fixtures)
    if task_id not in known:
        raise unknown_name("task", task_id, known, option="--task; `memtrial tasks` lists them")
    folder = fixtures / "tasks" / task_id
    card = TaskCard.parse(_read(folder, "task.json"), where=f"{task_id}/task.json")
    brief = Brief.parse(_read(folder, "brief.json"), where=f"{task_id}/brief.json")
    history = History.parse(_read(folder, "history.json"), where=f"{task_id}/history.json")
    key = _load_key(folder, task_id)
    rehearsal = _load_rehearsal(folder, task_id)
    source = load_source(fixtures, card.source)
    for what, named in (
        ("task.json", card.id),
        ("brief.json", brief.task_id),
        ("history.json", history.task_id),
        ("key.json", key.card.task_id),
        ("rehearsal.json", rehearsal.task_id),
    ):
        if named != task_id:
            raise _contradiction(task_id, f"{what}: expected task {task_id}, found {named}")
    boundaries = ("process" if card.language == "python" else "values", "in_process")
    if key.card.boundary not in boundaries:
        raise _contradiction(task_id, f"key.json: expected boundary {' or '.join(boundaries)} for {card.language}, found {key.card.boundary}")  # fmt: skip
    _check_events(task_id, history, key)
    _check_patches(task_id, brief, key, rehearsal)
    digests = TaskDigests(
        id=task_id,
        card_sha256=card.digest_sha256(),
        source_sha256=source.digest_sha256(),
        brief_sha256=brief.digest_sha256(),
        history_sha256=history.digest_sha256(),
        key_sha256=key.digest_sha256(),
        rehearsal_sha256=rehearsal.digest_sha256(),
    )
    return LoadedTask(card, source, brief, history, key, rehearsal, digests, fixtures)


def load_source(fixtures: Path, source_id: str) -> Source:
    """Loads one source pin.

    Raises:
        DocumentError: it is missing, malformed, or bears another id than its file name.
    """
    where = f"sources/{source_id}.json"
    source = parse_source(_read(fixtures, where), where=where)
    if source.id != source_id:
        raise DocumentError(
            "source-invalid",
            f"{where}: expected id {source_id}, found {source.id}",
            hint="name the file as its id",
        )
    return source


def load_conditions(fixtures: Path) -> ConditionRegistry:
    """Loads the registry of conditions; a pack without one of its own uses that of memtrial.

    The file that MEMTRIAL_CONDITIONS names adds arms of its own; it can change none that are there.

    Raises:
        DocumentError: a registry is malformed, or an added id is taken.
    """
    own = fixtures / "conditions.json"
    folder = fixtures if own.is_file() else data_root() / "fixtures"
    registry = ConditionRegistry.parse(_read(folder, "conditions.json"), where="conditions.json")
    added = added_conditions_path()
    if added is None:
        return registry
    more = AddedConditions.parse(_read(added.parent, added.name), where=added.name)
    try:
        return ConditionRegistry(
            conditions=(*registry.conditions, *more.conditions),
            failure_stages=registry.failure_stages,
            legacy=registry.legacy,
        )
    except ValueError as error:
        raise DocumentError(
            "conditions-clash",
            f"{added.name}: expected new ids and known stages, found {error}",
            hint="give the added conditions ids of their own: `memtrial list conditions`",
        ) from error


def load_curated(fixtures: Path, task_id: str) -> CuratedFile:
    """Loads a curated file and checks it against its log and against the history.

    Raises:
        UsageError: there is no such task.
        DocumentError: file or log is missing or malformed, too long, or made from another history.
        IntegrityError: the file is not the one that the log closed.
    """
    return check_curated(fixtures / "curated" / task_id, load_history(fixtures, task_id))


def load_history(fixtures: Path, task_id: str) -> History:
    """Loads the timeline of a task and none of its other files: what a curator may see.

    Raises:
        UsageError: there is no such task.
        DocumentError: its history is missing, malformed, or another task's.
    """
    known = list_tasks(fixtures)
    if task_id not in known:
        raise unknown_name("task", task_id, known, option="TASK; `memtrial tasks` lists them")
    where = f"{task_id}/history.json"
    history = History.parse(_read(fixtures / "tasks" / task_id, "history.json"), where=where)
    if history.task_id != task_id:
        raise _contradiction(
            task_id, f"history.json: expected task {task_id}, found {history.task_id}"
        )
    return history


def check_curated(folder: Path, history: History) -> CuratedFile:
    """Reads MEMORY.md and its log from a folder and checks them against each other and the history.

    Raises:
        DocumentError: file or log is missing or malformed, too long, or made from another history.
        IntegrityError: the file is not the one that the log closed.
    """
    task_id = history.task_id
    where = f"curated/{task_id}/curator-log.json"
    text = _read_text(folder, "MEMORY.md")
    raw = text.encode()
    log = parse_curator_log(_read(folder, "curator-log.json"), where=where)
    if log.task_id != task_id:
        raise _contradiction(task_id, f"{where}: expected task {task_id}, found {log.task_id}")
    if sha256_hex(raw) != log.final_file_sha256:
        raise IntegrityError(
            "curated-file-changed",
            f"curated/{task_id}/MEMORY.md: expected SHA-256 {log.final_file_sha256}, found {sha256_hex(raw)}",
            hint="restore the file that the curator closed",
        )
    if len(text) != log.final_char_count or len(text) > log.budget.max_chars:
        raise _contradiction(
            task_id,
            f"curated/{task_id}/MEMORY.md: expected {log.final_char_count} characters within the cap of {log.budget.max_chars}, found {len(text)}",
        )
    if log.history_sha256 != history.digest_sha256():
        raise _contradiction(
            task_id,
            f"{where}: expected history {history.digest_sha256()}, found {log.history_sha256}: it was curated from other episodes",
        )
    if [step.episode_id for step in log.steps] != [
        episode.episode_id for episode in history.episodes
    ]:
        raise _contradiction(
            task_id,
            f"{where}: expected one step per episode in the history's order, found {[step.episode_id for step in log.steps]}",
        )
    return CuratedFile(text, log, sha256_hex(raw), log.digest_sha256())


def check_against_checkout(task: LoadedTask, checkout: Checkout) -> None:
    """Checks what only the repository's files can tell.

    Raises:
        DocumentError: a hidden test lies in the checkout already, or a relevant file does not exist.
    """
    paths = {entry.path for entry in checkout.entries}
    for hidden in task.key.hidden_files:
        if hidden.path in paths:
            raise _contradiction(
                task.card.id,
                f"hidden test {hidden.path}: expected a new file, found it in the checkout",
            )
    for relevant in task.key.card.relevant_files:
        if relevant not in paths:
            raise _contradiction(
                task.card.id, f"relevant file {relevant}: expected it in the checkout, found none"
            )


def _read(folder: Path, relative: str) -> bytes:
    if not folder.is_dir():
        raise DocumentError(
            "fixture-missing",
            f"expected a folder {folder.name}, found none",
            hint="restore the fixtures",
        )
    return read_confined(folder, relative, max_bytes=MAX_FILE_BYTES)


def _read_text(folder: Path, relative: str) -> str:
    try:
        return _read(folder, relative).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError(
            "file-not-utf8",
            f"{folder.name}/{relative}: expected UTF-8, found {error.reason} at byte {error.start}",
            hint="save the file as UTF-8",
        ) from error


def _load_key(folder: Path, task_id: str) -> Key:
    card = KeyCard.parse(_read(folder, "key.json"), where=f"{task_id}/key.json")
    base = PassToPassList.parse(
        _read(folder, "key/pass_to_pass.json"), where=f"{task_id}/key/pass_to_pass.json"
    )
    hidden = []
    for file in card.hidden_files:
        safe_relative(file.path, where=f"{task_id}/key.json")
        text = _read_text(folder, f"key/hidden/{file.path}")
        hidden.append(HiddenFile(path=file.path, text=text, sha256=sha256_hex(text.encode())))
    both = {test.id for test in card.fail_to_pass} & {test.id for test in base.pass_to_pass}
    if both:
        raise _contradiction(
            task_id, f"key.json: expected each test in one list, found {sorted(both)[0]} in both"
        )
    if base.apart and card.boundary != "process":
        raise _contradiction(
            task_id,
            f'pass_to_pass.json: expected tests apart under the boundary "process" alone, found {len(base.apart)} under "{card.boundary}"',
        )
    return Key(
        task_id=task_id,
        card=card,
        hidden_files=tuple(hidden),
        pass_to_pass=base.pass_to_pass,
        also_reported=base.also_reported,
        apart=base.apart,
    )


def _load_rehearsal(folder: Path, task_id: str) -> Rehearsal:
    card = RehearsalCard.parse(
        _read(folder, "rehearsal/rehearsal.json"), where=f"{task_id}/rehearsal/rehearsal.json"
    )
    patches = {
        name: _read_text(folder, f"rehearsal/{name}.patch")
        for name in ("reference", "natural", "overeager")
    }
    return Rehearsal(
        task_id=card.task_id,
        facts=card.facts,
        reference_patch=patches["reference"],
        natural_patch=patches["natural"],
        overeager_patch=patches["overeager"],
    )


def _contradiction(task_id: str, message: str) -> DocumentError:
    return DocumentError(
        "task-invalid", message, hint=f"mend fixtures/tasks/{task_id} (docs: fixtures/README.md)"
    )


def _check_events(task_id: str, history: History, key: Key) -> None:
    events = {event.event_id for episode in history.episodes for event in episode.events}
    cited = [e for fact in key.card.gold_facts for e in fact.supporting_event_ids] + [
        e for fact in key.card.stale_facts for e in fact.event_ids
    ]
    for event_id in cited:
        if event_id not in events:
            raise _contradiction(
                task_id, f"key.json: expected event {event_id} in the history, found none"
            )


def _check_patches(task_id: str, brief: Brief, key: Key, rehearsal: Rehearsal) -> None:
    hidden = {file.path for file in key.hidden_files}
    patches = {
        "reference": rehearsal.reference_patch,
        "natural": rehearsal.natural_patch,
        "overeager": rehearsal.overeager_patch,
    }
    for name, patch in patches.items():
        for path in touched_paths(patch):
            if path in hidden:
                raise _contradiction(
                    task_id,
                    f"rehearsal/{name}.patch: expected a patch that leaves hidden tests alone, found {path}",
                )
            if not matches_any(path, brief.allowed_paths) or matches_any(
                path, brief.forbidden_paths
            ):
                raise _contradiction(
                    task_id,
                    f"rehearsal/{name}.patch: expected changes of allowed paths only, found {path}",
                )
