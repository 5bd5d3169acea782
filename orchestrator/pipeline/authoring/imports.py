"""Imports tasks of other benchmarks into a new pack: ordinary task folders, pins, and a report.

What is imported is loaded once before the pack gets its name, so that nothing half-written is left.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.errors import DocumentError, MemtrialError, UsageError
from orchestrator.core.files import safe_relative
from orchestrator.core.gittree import FileEntry, tree_id
from orchestrator.core.places import cache_root
from orchestrator.core.strictjson import parse_json
from orchestrator.model.imported import ImportedTask, ImportReport
from orchestrator.pipeline.authoring import harbor, remem, swebench
from orchestrator.pipeline.authoring.drafts import Draft, as_document, new_folder, write_files
from orchestrator.sources.checkout import commit_id
from orchestrator.sources.loader import load_task

Kind = Literal["remem-pack", "swebench", "harbor"]
MAX_INPUT_BYTES = 256 * 1024 * 1024
UPSTREAM = "MEMTRIAL_UPSTREAM"
NO_LICENCE = "LICENCE-NOT-STATED.txt"


def import_tasks(kind: Kind, path: Path, out: Path) -> ImportReport:
    """Imports everything at a path into a new pack.

    Args:
        kind: what lies at the path.
        path: a remem pack's tasks.json, a file of SWE-bench rows (JSON list or one row a line), or a
            Harbor task directory or a folder of such.
        out: the pack's folder, new or empty.

    Raises:
        UsageError: there is nothing at the path.
        DocumentError: it is no such input, or `out` holds files.
    """
    new_folder(out)
    if not path.exists():
        raise UsageError(
            "input-missing", f"expected {path} to exist, found nothing", hint="check the path"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".memtrial-import-", dir=out.parent) as name:
        pack = Path(name) / "pack"
        pack.mkdir()
        digest, tasks = _READERS[kind](path, pack)
        report = ImportReport(
            kind=kind, input_sha256=digest, tasks=tuple(_loads(pack, t) for t in tasks)
        )
        write_files(pack, {"import-report.json": report.canonical() + b"\n"})
        if any(not task.refused for task in report.tasks):
            if out.exists():
                out.rmdir()
            pack.replace(out)
    return report


def _loads(pack: Path, task: ImportedTask) -> ImportedTask:
    """Loads what was written; a task that does not load is refused and leaves nothing behind."""
    if task.refused:
        return task
    try:
        load_task(pack, task.id)
    except MemtrialError as error:
        shutil.rmtree(pack / "tasks" / task.id)
        return task.model_copy(update={"refused": (error.message,)})
    return task


def _write(pack: Path, draft: Draft) -> None:
    write_files(pack / "tasks" / draft.task_id, draft.files())


def _vendor(pack: Path, source_id: str, files: dict[str, bytes]) -> None:
    """Writes a repository and its pin; where no licence is stated, a file says so."""
    licences = [
        p for p in sorted(files) if p.split(".")[0].upper() in {"LICENSE", "LICENCE", "COPYING"}
    ]
    if not licences:
        files = {**files, NO_LICENCE: b"The imported task states no licence.\n"}
    entries = [
        FileEntry(str(safe_relative(path, where=source_id)), "100644", data)
        for path, data in files.items()
    ]
    tree = tree_id(entries)
    pin = {
        "id": source_id,
        "kind": "vendored",
        "path": f"vendored/{source_id}",
        "licence": "NOASSERTION",
        "licence_files": licences or [NO_LICENCE],
        "exclude": [],
        "overlay": [],
        "expect": {
            "tree": tree,
            "commit": commit_id(tree),
            "files": len(entries),
            "bytes": sum(len(entry.data) for entry in entries),
        },
    }
    write_files(pack / "vendored" / source_id, files)
    write_files(pack / "sources", {f"{source_id}.json": as_document(pin)})


def _remem(path: Path, pack: Path) -> tuple[str, list[ImportedTask]]:
    data = _bytes(path)
    document = parse_json(data, where=path.name, max_bytes=MAX_INPUT_BYTES)
    if not isinstance(document, dict) or not isinstance(document.get("tasks"), list):
        raise _no_input(path, "an object with tasks")
    try:
        files = remem.repository(document)
    except remem.Refusal as refusal:
        raise _no_input(path, str(refusal)) from refusal
    _vendor(pack, remem.SOURCE, {name: text.encode() for name, text in files.items()})
    tasks = []
    for raw in document["tasks"]:
        draft, task = remem.import_task(raw, files)
        tasks.append(_taken(pack, draft, task))
    return sha256_hex(data), tasks


def _swebench(path: Path, pack: Path) -> tuple[str, list[ImportedTask]]:
    data = _bytes(path)
    rows = _rows(path, data)
    upstream = os.environ.get(UPSTREAM, swebench.UPSTREAM)
    tasks = []
    for row in rows:
        draft, source, task = swebench.import_row(row, cache=cache_root(), upstream=upstream)
        if source is not None:
            write_files(pack / "sources", {f"{source.id}.json": source.canonical() + b"\n"})
        tasks.append(_taken(pack, draft, task))
    return sha256_hex(data), tasks


def _rows(path: Path, data: bytes) -> list[Any]:
    if data.lstrip()[:1] == b"[":
        rows = parse_json(data, where=path.name, max_bytes=MAX_INPUT_BYTES)
        return list(rows) if isinstance(rows, list) else []
    return [
        parse_json(line, where=f"{path.name}, line {n}", max_bytes=MAX_INPUT_BYTES)
        for n, line in enumerate(data.splitlines(), 1)
        if line.strip()
    ]


def _harbor(path: Path, pack: Path) -> tuple[str, list[ImportedTask]]:
    folders = (
        [path]
        if (path / "task.toml").is_file()
        else sorted(p for p in path.iterdir() if p.is_dir())
    )
    if not folders:
        raise _no_input(path, "task directories")
    tasks = []
    for folder in folders:
        draft, files, task = harbor.import_folder(folder)
        if draft is not None:
            _vendor(pack, draft.task_id, files)
        tasks.append(_taken(pack, draft, task))
    names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
    return digest_sha256({n: sha256_hex((path / n).read_bytes()) for n in names}), tasks


def _taken(pack: Path, draft: Draft | None, task: ImportedTask) -> ImportedTask:
    if draft is None:
        return task
    if (pack / "tasks" / draft.task_id).exists():
        return task.model_copy(
            update={"refused": (f"id: expected each once, found {draft.task_id} twice",)}
        )
    try:
        _write(pack, draft)
    except DocumentError as error:
        return task.model_copy(update={"refused": (error.message,)})
    return task


def _bytes(path: Path) -> bytes:
    if not path.is_file() or path.stat().st_size > MAX_INPUT_BYTES:
        raise _no_input(path, f"a file of at most {MAX_INPUT_BYTES} bytes")
    return path.read_bytes()


def _no_input(path: Path, expected: str) -> DocumentError:
    return DocumentError(
        "import-input-invalid", f"{path.name}: expected {expected}", hint="check kind and path"
    )


_READERS = {"remem-pack": _remem, "swebench": _swebench, "harbor": _harbor}
