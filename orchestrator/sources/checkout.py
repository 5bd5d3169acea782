"""From a pinned source to a deterministic one-commit repository, as files in memory.

Reads fixtures and the download cache; git works in a temporary folder under a scrubbed environment.
Never runs a package's build backend, never clones.
"""

from __future__ import annotations

import fnmatch
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.core.files import safe_relative
from orchestrator.core.gittree import FileEntry, tree_id
from orchestrator.model.source import PypiSdistSource, Source, VendoredSource
from orchestrator.sources.archive import read_archive
from orchestrator.sources.fetch import PinnedFile, fetch

IDENTITY = "memtrial <fixtures@memtrial.invalid>"
MESSAGE = "Pinned checkout\n"
COMMIT_TIME = "946684800 +0000"
# Beats every .gitattributes of the tree: no filter, no line-end or encoding conversion.
NEUTRAL_ATTRIBUTES = "* -text -eol -filter -ident -working-tree-encoding -export-subst\n"
CONFIG = (
    ("core.repositoryformatversion", "0"),
    ("core.fileMode", "true"),
    ("core.bare", "false"),
    ("core.autocrlf", "false"),
    ("core.symlinks", "true"),
    ("core.logAllRefUpdates", "false"),
    ("gc.auto", "0"),
)


@dataclass(frozen=True, slots=True)
class Checkout:
    """The files of a pinned tree, sorted by path, with the ids that they were checked against."""

    source_id: str
    entries: tuple[FileEntry, ...]
    tree: str
    commit: str
    notes: tuple[str, ...]


def materialise(source: Source, *, fixtures: Path, cache: Path) -> Checkout:
    """Brings a source's files into memory and checks every pin.

    Raises:
        IntegrityError: archive, tree, commit, count or size are not the pinned ones.
        DocumentError: the archive holds what no honest archive has, or a licence file is missing.
    """
    files, notes = _read(source, fixtures, cache)
    for pattern in source.exclude:
        for path in [path for path in files if fnmatch.fnmatchcase(path, pattern)]:
            del files[path]
    for overlay in source.overlay:
        path = str(safe_relative(overlay.path, where=f"overlay of {source.id}"))
        files[path] = FileEntry(path, "100644", overlay.text.encode())
    missing = [name for name in source.licence_files if name not in files]
    if missing:
        raise DocumentError("licence-missing", f"source {source.id}: expected licence file {missing[0]}, found none", hint="name the right file in licence_files")
    entries = tuple(files[path] for path in sorted(files))
    tree = tree_id(entries)
    _expect(source, "tree", source.expect.tree, tree)
    _expect(source, "files", source.expect.files, len(entries))
    _expect(source, "bytes", source.expect.bytes, sum(len(entry.data) for entry in entries))
    commit = commit_id(tree)
    _expect(source, "commit", source.expect.commit, commit)
    return Checkout(source.id, entries, tree, commit, notes)


def _expect(source: Source, what: str, expected: object, found: object) -> None:
    if expected != found:
        raise IntegrityError("source-changed", f"source {source.id}: expected {what} {expected}, found {found}", hint=f"restore the source, or review and re-pin fixtures/sources/{source.id}.json")


def _read(source: Source, fixtures: Path, cache: Path) -> tuple[dict[str, FileEntry], tuple[str, ...]]:
    if isinstance(source, VendoredSource):
        return _read_folder(fixtures / safe_relative(source.path, where=f"source {source.id}"), source), ()
    return _read_sdist(source, cache)


def _read_sdist(source: PypiSdistSource, cache: Path) -> tuple[dict[str, FileEntry], tuple[str, ...]]:
    path = fetch(PinnedFile(source.name, (source.archive_sha256,), source.filename), cache)
    data = path.read_bytes()
    if sha256_hex(data) != source.archive_sha256:
        raise IntegrityError("archive-changed", f"{source.filename}: expected SHA-256 {source.archive_sha256}, found {sha256_hex(data)}", hint="delete the file from the cache and try again")
    return read_archive(data, strip=source.strip_components, where=source.filename)


def _read_folder(folder: Path, source: VendoredSource) -> dict[str, FileEntry]:
    files: dict[str, FileEntry] = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).as_posix()
        if "__pycache__" in path.parts or path.is_dir():
            continue
        if path.is_symlink() or not path.is_file():
            raise DocumentError("vendored-not-plain", f"source {source.id}: expected plain files, found {relative}", hint="replace it by a regular file")
        # Only the pin knows the modes: a wheel does not keep the x bit, so vendored files are all plain.
        files[relative] = FileEntry(relative, "100644", path.read_bytes())
    if not files:
        raise DocumentError("vendored-missing", f"source {source.id}: expected files below fixtures/{source.path}, found none", hint="restore the folder")
    return files


def commit_id(tree: str) -> str:
    """Returns the id of the one commit of a pinned tree (git's commit object format)."""
    import hashlib

    body = f"tree {tree}\nauthor {IDENTITY} {COMMIT_TIME}\ncommitter {IDENTITY} {COMMIT_TIME}\n\n{MESSAGE}".encode()
    return hashlib.sha1(b"commit %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


def repository_entries(checkout: Checkout) -> tuple[FileEntry, ...]:
    """Returns the files of the checkout's `.git` folder: one commit, no remote, tag, reflog or hook.

    Objects are stored without compression and the index without file times, so the same checkout gives
    the same bytes whatever git and zlib are installed.

    Raises:
        IntegrityError: git came to another tree or commit than the pure computation.
    """
    with tempfile.TemporaryDirectory(prefix="memtrial-git-") as name:
        folder = Path(name) / "checkout"
        _write_files(checkout, folder)
        git_folder = _commit(checkout, folder)
        names = ["HEAD", "config", "index", "info/attributes", "refs/heads/main"]
        objects = sorted(p.relative_to(git_folder).as_posix() for p in (git_folder / "objects").rglob("*") if p.is_file())
        return tuple(
            FileEntry(f".git/{path}", "100644", (git_folder / path).read_bytes()) for path in sorted([*names, *objects])
        )


def _write_files(checkout: Checkout, folder: Path) -> None:
    for entry in checkout.entries:
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode == "120000":
            path.symlink_to(entry.data.decode())
        else:
            path.write_bytes(entry.data)
            path.chmod(0o755 if entry.mode == "100755" else 0o644)


def _commit(checkout: Checkout, folder: Path) -> Path:
    import git

    scrubbed = {
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1", "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent",
        "LC_ALL": "C", "TZ": "UTC", "GIT_TEMPLATE_DIR": "",
        "GIT_AUTHOR_NAME": "memtrial", "GIT_AUTHOR_EMAIL": "fixtures@memtrial.invalid", "GIT_AUTHOR_DATE": COMMIT_TIME,
        "GIT_COMMITTER_NAME": "memtrial", "GIT_COMMITTER_EMAIL": "fixtures@memtrial.invalid", "GIT_COMMITTER_DATE": COMMIT_TIME,
    }
    client = git.Git(str(folder))
    # Inherited settings of the caller (GIT_DIR, GIT_CONFIG_COUNT, ...) must not reach these commands.
    scrubbed.update({name: "" for name in os.environ if name.startswith("GIT_CONFIG_") and name not in scrubbed})
    client.update_environment(**scrubbed)
    client.init("--quiet", "--template=", "--initial-branch=main", ".")
    git_folder = folder / ".git"
    (git_folder / "config").unlink()
    for key, value in CONFIG:
        client.config("--file", str(git_folder / "config"), key, value)
    (git_folder / "info").mkdir(exist_ok=True)
    (git_folder / "info" / "attributes").write_text(NEUTRAL_ATTRIBUTES, encoding="ascii")
    # Force: a plain add loses files through the tree's own .gitignore.
    client.execute(["git", "-c", "core.compression=0", "-c", "core.looseCompression=0", "add", "-A", "-f", "."])
    tree = str(client.execute(["git", "-c", "core.compression=0", "-c", "core.looseCompression=0", "write-tree"]))
    commit = str(client.execute(["git", "-c", "core.compression=0", "-c", "core.looseCompression=0", "commit-tree", tree, "-m", MESSAGE.rstrip("\n")]))
    if (tree, commit) != (checkout.tree, checkout.commit):
        raise IntegrityError("checkout-mismatch", f"source {checkout.source_id}: expected tree {checkout.tree} and commit {checkout.commit}, git found {tree} and {commit}", hint="report this with your git version")
    client.execute(["git", "update-ref", "refs/heads/main", commit])
    (git_folder / "index").unlink()
    client.execute(["git", "read-tree", tree])
    return git_folder
