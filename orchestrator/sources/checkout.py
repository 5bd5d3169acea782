"""From a pinned source to a deterministic one-commit repository, as files in memory.

Reads fixtures and the download cache; git works in a temporary folder under a scrubbed environment.
Never runs a package's build backend, never clones.
"""

from __future__ import annotations

import fnmatch
import os
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.core.errors import (
    DocumentError,
    EnvironmentMissing,
    IntegrityError,
    UsageError,
)
from orchestrator.core.files import safe_relative
from orchestrator.core.gittree import FileEntry, object_id, tree_id
from orchestrator.model.source import Source
from orchestrator.sources.origins import read_origin

if TYPE_CHECKING:
    import git

NAME = "memtrial"
MAIL = "fixtures@memtrial.invalid"
IDENTITY = f"{NAME} <{MAIL}>"
MESSAGE = "Pinned checkout\n"
COMMIT_TIME = "946684800 +0000"
# Beats every .gitattributes of the tree: no filter, no line-end or encoding conversion.
NEUTRAL_ATTRIBUTES = "* -text -eol -filter -ident -working-tree-encoding -export-subst\n"
CONFIG = """[core]
\trepositoryformatversion = 0
\tfileMode = true
\tbare = false
\tautocrlf = false
\tsymlinks = true
\tlogAllRefUpdates = false
[gc]
\tauto = 0
"""
# RFC 1951 section 3.2.4: a stored block holds at most this many bytes.
STORED_BLOCK_BYTES = 65_535


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
    files, notes = read_origin(source, fixtures=fixtures, cache=cache)
    for pattern in source.exclude:
        for path in [path for path in files if fnmatch.fnmatchcase(path, pattern)]:
            del files[path]
    for overlay in source.overlay:
        path = str(safe_relative(overlay.path, where=f"overlay of {source.id}"))
        files[path] = FileEntry(path, "100644", overlay.text.encode())
    missing = [name for name in source.licence_files if name not in files]
    if missing:
        raise DocumentError(
            "licence-missing",
            f"source {source.id}: expected licence file {missing[0]}, found none",
            hint="name the right file in licence_files",
        )
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
        raise IntegrityError(
            "source-changed",
            f"source {source.id}: expected {what} {expected}, found {found}",
            hint=f"restore the source, or review and re-pin fixtures/sources/{source.id}.json",
        )


def commit_id(tree: str) -> str:
    """Returns the id of the one commit of a pinned tree (git's commit object format)."""
    lines = (
        f"tree {tree}",
        f"author {IDENTITY} {COMMIT_TIME}",
        f"committer {IDENTITY} {COMMIT_TIME}",
        "",
        MESSAGE,
    )
    return object_id("commit", "\n".join(lines).encode())


def repository_entries(checkout: Checkout) -> tuple[FileEntry, ...]:
    """Returns the files of the checkout's `.git` folder: one commit, no remote, tag, reflog or hook.

    Objects are stored without compression and the index without file times, so the same checkout gives
    the same bytes whatever git and zlib are installed.

    Raises:
        IntegrityError: git came to another tree or commit than the pure computation.
        EnvironmentMissing: there is no git.
    """
    with tempfile.TemporaryDirectory(prefix="memtrial-git-") as name:
        folder = Path(name) / "checkout"
        _write_files(checkout, folder)
        git_folder = folder / ".git"
        _commit(checkout, _scrubbed_git(folder), git_folder)
        files = {
            "HEAD": b"ref: refs/heads/main\n",
            "config": CONFIG.encode(),
            "index": (git_folder / "index").read_bytes(),
            "info/attributes": NEUTRAL_ATTRIBUTES.encode(),
            "refs/heads/main": f"{checkout.commit}\n".encode(),
        }
        for path in (git_folder / "objects").glob("??/*"):
            files[path.relative_to(git_folder).as_posix()] = _stored(path.read_bytes())
        return tuple(FileEntry(f".git/{path}", "100644", files[path]) for path in sorted(files))


def write_checkout(checkout: Checkout, folder: Path) -> None:
    """Writes a pinned checkout with its one-commit repository into a new folder, for people to work in.

    Raises:
        UsageError: the folder exists.
    """
    if folder.exists():
        raise UsageError(
            "folder-exists", f"expected no {folder}, found one", hint="name a new folder"
        )
    _write_files(checkout, folder)
    for entry in repository_entries(checkout):
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(entry.data)


def _stored(loose: bytes) -> bytes:
    """Packs a loose object anew as stored blocks: where a zlib cuts them is its own choice, this is ours.

    Format: RFC 1950 (header, Adler-32) around RFC 1951 section 3.2.4.
    """
    plain = zlib.decompress(loose)
    out = bytearray(b"\x78\x01")
    starts = range(0, len(plain), STORED_BLOCK_BYTES)
    for start in starts:
        block = plain[start : start + STORED_BLOCK_BYTES]
        out.append(start == starts[-1])
        out += (
            len(block).to_bytes(2, "little") + (len(block) ^ 0xFFFF).to_bytes(2, "little") + block
        )
    return bytes(out) + zlib.adler32(plain).to_bytes(4, "big")


def _write_files(checkout: Checkout, folder: Path) -> None:
    for entry in checkout.entries:
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode == "120000":
            path.symlink_to(entry.data.decode())
        else:
            path.write_bytes(entry.data)
            path.chmod(0o755 if entry.mode == "100755" else 0o644)


def _scrubbed_git(folder: Path) -> git.Git:
    """Returns a git that no setting of user, machine or caller reaches.

    The client can set variables but not unset them, so each one that could redirect git is pinned.
    """
    try:
        import git
    except ImportError as error:
        raise EnvironmentMissing(
            "git-missing", "expected git on the PATH, found none", hint="apt-get install -y git"
        ) from error
    client = git.Git(str(folder))
    own = folder / ".git"
    client.update_environment(
        HOME="/nonexistent", XDG_CONFIG_HOME="/nonexistent", LC_ALL="C", TZ="UTC",
        GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_SYSTEM=os.devnull, GIT_CONFIG=str(own / "config"),
        GIT_CONFIG_COUNT="0", GIT_CONFIG_PARAMETERS="", GIT_ATTR_NOSYSTEM="1", GIT_TEMPLATE_DIR="",
        GIT_DIR=str(own), GIT_COMMON_DIR=str(own), GIT_WORK_TREE=str(folder), GIT_INDEX_FILE=str(own / "index"),
        GIT_OBJECT_DIRECTORY=str(own / "objects"), GIT_ALTERNATE_OBJECT_DIRECTORIES="",
        GIT_NAMESPACE="", GIT_NO_REPLACE_OBJECTS="1", GIT_REPLACE_REF_BASE="refs/replace/", GIT_OPTIONAL_LOCKS="0",
        GIT_DEFAULT_HASH="sha1", GIT_DEFAULT_REF_FORMAT="files", GIT_INDEX_VERSION="2",
        GIT_LITERAL_PATHSPECS="1", GIT_ICASE_PATHSPECS="0", GIT_GLOB_PATHSPECS="0", GIT_NOGLOB_PATHSPECS="0",
        GIT_AUTHOR_NAME=NAME, GIT_AUTHOR_EMAIL=MAIL, GIT_AUTHOR_DATE=COMMIT_TIME,
        GIT_COMMITTER_NAME=NAME, GIT_COMMITTER_EMAIL=MAIL, GIT_COMMITTER_DATE=COMMIT_TIME,
    )  # fmt: skip
    return client


def _commit(checkout: Checkout, client: git.Git, git_folder: Path) -> None:
    """Makes the one commit and leaves an index without file times behind."""
    client.init("--quiet", "--template=", "--initial-branch=main")
    (git_folder / "config").write_text(CONFIG, encoding="ascii")
    (git_folder / "info").mkdir(exist_ok=True)
    (git_folder / "info" / "attributes").write_text(NEUTRAL_ATTRIBUTES, encoding="ascii")
    # Force: a plain add loses files through the tree's own .gitignore.
    client.add("--all", "--force", ".")
    tree = str(client.write_tree())
    commit = str(client.commit_tree(tree, "-m", MESSAGE.rstrip("\n")))
    if (tree, commit) != (checkout.tree, checkout.commit):
        raise IntegrityError(
            "checkout-mismatch",
            f"source {checkout.source_id}: expected tree {checkout.tree} and commit {checkout.commit}, git found {tree} and {commit}",
            hint="report this with your git version",
        )
    (git_folder / "index").unlink()
    client.read_tree(tree)
