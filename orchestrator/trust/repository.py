"""A git repository as the gate sees it: plain files of `.git`, and objects that were hashed again.

Never asks git about status, differences, ancestors or names: replace refs, grafts, commit graphs, index flags
and filters could answer for it. Reads only.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.errors import ApprovalRefused
from orchestrator.trust.plumbing import Objects, config_names
from orchestrator.trust.trusted import check_folders, read_trusted

COMMIT = re.compile(r"[0-9a-f]{40}")
# Names that read alike everywhere: no control or look-alike characters, no two that decode to one.
PLAIN_NAME = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,199}")
# The folders of `.git` in which refs lie: whoever can write there says what HEAD is.
REF_FOLDERS = ("", "refs", "refs/heads", "refs/remotes", "refs/remotes/origin")
MAX_REF_BYTES = 1024
MAX_PACKED_BYTES = 16 * 1024 * 1024
MAX_COMMITS = 200_000
# Of the folder of a trust root. A few trees that name one another can stand for more files than there are atoms.
MAX_LEVELS = 8
MAX_FILES = 4096
MAX_FOLDERS = 256
MAX_FILES_BYTES = 64 * 1024 * 1024
# What must not be there: each changes what git (or a reader of its files) takes for the history.
FORBIDDEN = (
    "commondir",
    "config.worktree",
    "gitdir",
    "info/grafts",
    "objects/info/alternates",
    "objects/info/http-alternates",
    "refs/replace",
    "shallow",
)
_CONFIG = re.compile(
    r"include\.|includeif\.|url\.|filter\.|extensions\.|alias\.|credential\.|protocol\.|trace2\.|"
    r"core\.(fsmonitor|hookspath|worktree|gitproxy|sshcommand|attributesfile|excludesfile|"
    r"alternaterefs.*|partialclonefilter|usereplacerefs|virtualfilesystem|askpass|editor|pager)$|"
    r"diff\.(.*\.)?(textconv|command|external)$|merge\..*\.driver$|safe\.|"
    r"remote\..*\.(promisor|partialclonefilter|uploadpack|receivepack|vcs|proxy)$|gpg\..*program$|"
    r"uploadpack\.packobjectshook$|http\.|sendemail\."
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a tree."""

    mode: str
    name: bytes
    oid: str


class Repository:
    """A repository that passed the hygiene checks, with its head on the default branch."""

    def __init__(self, worktree: Path, *, branch: str, objects: Objects) -> None:
        self._git = worktree / ".git"
        self._branch = branch
        self._objects = objects

    def head(self) -> str:
        """Returns the commit of the default branch, which HEAD must name and the remote must have.

        Raises:
            ApprovalRefused: detached, another branch, or not where the remote-tracking branch is.
        """
        wanted = f"ref: refs/heads/{self._branch}\n".encode()
        found = _small(self._git / "HEAD")
        if found != wanted:
            raise _refuse("head-not-on-branch", f"HEAD on {self._branch}", repr(found[:80]))
        head, remote = (self._ref(name) for name in refs_of(self._branch))
        if head != remote:
            raise _refuse("head-not-at-remote", f"origin/{self._branch} {remote}", head)
        return head

    def _ref(self, name: str) -> str:
        """Reads one ref by its full name: a loose file, else a line of packed-refs; never a symbolic one."""
        path = self._git / name
        if path.exists() or path.is_symlink():
            text = _small(path).decode("latin-1")
            if not text.endswith("\n") or not COMMIT.fullmatch(text[:-1]):
                raise _refuse("ref-not-plain", f"{name} with one commit", repr(text[:80]))
            return text[:-1]
        for line in packed_refs(self._git):
            commit, _, packed = line.partition(" ")
            if packed == name and COMMIT.fullmatch(commit):
                return commit
        raise _refuse("ref-missing", name, "none")

    def tree_of(self, commit: str) -> str:
        """Returns the tree of a commit."""
        return self._header(commit, "tree")[0]

    def committed_s(self, commit: str) -> int:
        """Returns when a commit was made, by its own word, in seconds since 1970."""
        line = self._line(commit, "committer")
        match = re.search(r"> (\d{1,11}) [+-]\d{4}$", line)
        if match is None:
            raise _refuse("commit-malformed", "a committer's time", repr(line[:80]))
        return int(match[1])

    def _line(self, commit: str, name: str) -> str:
        found = [line for line in self._headers(commit) if line.startswith(name + " ")]
        if len(found) != 1:
            raise _refuse("commit-malformed", f"one {name}", f"{len(found)}")
        return found[0]

    def _headers(self, commit: str) -> list[str]:
        body = self._objects.get(commit, "commit")
        return body.partition(b"\n\n")[0].decode("utf-8", "replace").split("\n")

    def _header(self, commit: str, name: str) -> tuple[str, ...]:
        values = tuple(
            line.split(" ", 1)[1] for line in self._headers(commit) if line.startswith(name + " ")
        )
        if any(not COMMIT.fullmatch(value) for value in values) or (name == "tree" and not values):
            raise _refuse("commit-malformed", f"ids in {name}", str(values)[:80])
        return values

    def is_ancestor(self, old: str, new: str) -> bool:
        """Tells whether a commit is in the history of another, by walking commits that were hashed again.

        Raises:
            ApprovalRefused: an object is missing or changed, or the history is too long.
        """
        waiting, seen = [new], {new}
        while waiting:
            commit = waiting.pop()
            if commit == old:
                return True
            if len(seen) > MAX_COMMITS:
                raise _refuse("history-too-long", f"at most {MAX_COMMITS} commits", "more")
            fresh = [p for p in self._header(commit, "parent") if p not in seen]
            seen.update(fresh)
            waiting += fresh
        return False

    def entries(self, tree: str) -> tuple[Entry, ...]:
        """Returns the entries of a tree.

        Raises:
            ApprovalRefused: malformed, or two names that differ in case alone.
        """
        entries = tuple(_parse_tree(self._objects.get(tree, "tree")))
        folded = [entry.name.lower() for entry in entries]
        if len(set(folded)) != len(folded):
            raise _refuse(
                "names-differ-in-case", "names that differ", "two that differ in case alone"
            )
        return entries

    def files_below(self, tree: str, folder: str) -> dict[str, bytes]:
        """Returns the regular files below a folder of a tree, by their path below it.

        Raises:
            ApprovalRefused: the folder is not there, holds a link, a submodule, an executable or a strange
                name, or more than a trust root has.
        """
        for name in filter(None, folder.split("/")):
            tree = self._child(tree, name, "40000", folder).oid
        files: dict[str, bytes] = {}
        waiting, folders, size = [(tree, "")], 0, 0
        while waiting:
            tree, prefix = waiting.pop()
            folders += 1
            for entry in self.entries(tree):
                name = prefix + _plain_name(entry.name)
                if entry.mode == "40000":
                    waiting.append((entry.oid, name + "/"))
                elif entry.mode == "100644":
                    files[name] = self._objects.get(entry.oid, "blob")
                    size += len(files[name])
                else:
                    raise _refuse("tracked-file-not-plain", f"{name} as mode 100644", entry.mode)
                within = len(files) <= MAX_FILES and folders + len(waiting) <= MAX_FOLDERS
                if not within or size > MAX_FILES_BYTES or name.count("/") >= MAX_LEVELS:
                    raise _refuse(
                        "tracked-files-too-many",
                        f"at most {MAX_FILES} files of {MAX_FILES_BYTES} bytes in {MAX_FOLDERS} folders below {folder}",
                        f"more at {name[:80]}",
                    )
        return files

    def _child(self, tree: str, name: str, mode: str, path: str) -> Entry:
        found = [e for e in self.entries(tree) if e.name.lower() == name.encode().lower()]
        if len(found) != 1 or found[0].name != name.encode() or found[0].mode != mode:
            raise _refuse("tracked-file-not-plain", f"{path} as mode {mode}", str(found)[:120])
        return found[0]


def refs_of(branch: str) -> tuple[str, str]:
    """Returns the names of a branch's ref, and of the remote's as this repository last saw it."""
    return f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"


def check_owned(worktree: Path, *, owner_uid: int, branch: str) -> None:
    """Refuses a `.git` in which somebody else could change what HEAD is, or git's configuration.

    Args:
        worktree: the repository.
        owner_uid: whose it must be, besides root.
        branch: whose two refs, here and at the remote, say what HEAD is.

    Raises:
        ApprovalRefused: it is no real folder, or a folder or file of it is open to others.
    """
    git = worktree / ".git"
    _check_real(git)
    for name in REF_FOLDERS:
        if (git / name).exists() or (git / name).is_symlink():
            check_folders(git / name, owner_uid=owner_uid)
    for name in ("HEAD", "config", "packed-refs"):
        if (git / name).exists() or (git / name).is_symlink():
            read_trusted(git / name, owner_uid=owner_uid, max_bytes=MAX_PACKED_BYTES)
    for ref in refs_of(branch):
        # One that is no plain file is refused where it is read, by what it is.
        if (git / ref).is_file() and not (git / ref).is_symlink():
            read_trusted(git / ref, owner_uid=owner_uid, max_bytes=MAX_PACKED_BYTES)


def _check_real(git: Path) -> None:
    try:
        found = os.lstat(git)
    except OSError as error:
        raise _refuse("repository-missing", f"{git}", error.strerror or "none") from error
    if not stat.S_ISDIR(found.st_mode):
        raise _refuse("git-folder-not-real", f"{git} as a folder", stat.filemode(found.st_mode))


def _plain_name(name: bytes) -> str:
    if not PLAIN_NAME.fullmatch(name):
        raise _refuse("tracked-name-not-plain", "letters, digits and . _ + @ -", repr(name[:80]))
    return name.decode("ascii")


def check_hygiene(worktree: Path) -> None:
    """Refuses a repository whose `.git` holds anything that could answer for its history.

    Raises:
        ApprovalRefused: `.git` is no real folder, or holds a replace ref, graft, alternate, shallow mark,
            worktree link or a setting that runs a program or reads elsewhere.
    """
    git = worktree / ".git"
    _check_real(git)
    for name in FORBIDDEN:
        if (git / name).exists() or (git / name).is_symlink():
            raise _refuse("repository-not-plain", f"no {name} in .git", "one")
    if any(line.partition(" ")[2].startswith("refs/replace/") for line in packed_refs(git)):
        raise _refuse("repository-not-plain", "no replace ref in packed-refs", "one")
    for name, value in config_names(git / "config"):
        if _CONFIG.match(name) or (name == "core.bare" and value != "false"):
            raise _refuse("repository-config", "no setting that reads or runs elsewhere", name)


def packed_refs(git: Path) -> list[str]:
    """Returns the lines of packed-refs, without comments and peeled tags."""
    path = git / "packed-refs"
    if not path.exists() and not path.is_symlink():
        return []
    data = _small(path, MAX_PACKED_BYTES + 1)
    if len(data) > MAX_PACKED_BYTES:
        raise _refuse("packed-refs-too-large", f"at most {MAX_PACKED_BYTES} bytes", "more")
    return [line for line in data.decode("latin-1").split("\n") if line[:1] not in {"", "#", "^"}]


def check_commit_name(commit: str) -> None:
    """Refuses anything but a full id: a name could be moved.

    Raises:
        ApprovalRefused: not 40 lower-case hexadecimal digits.
    """
    if not COMMIT.fullmatch(commit):
        raise _refuse("commit-not-an-id", "40 lower-case hexadecimal digits", repr(commit[:80]))


def _small(path: Path, max_bytes: int = MAX_REF_BYTES) -> bytes:
    """Reads the beginning of a regular file without following a link at its end or waiting for a pipe."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _refuse(
            "ref-not-plain", f"{path.name} as a file", error.strerror or "none"
        ) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _refuse("ref-not-plain", f"{path.name} as a file", "something else")
    with os.fdopen(handle, "rb") as stream:
        return stream.read(max_bytes)


def _parse_tree(body: bytes) -> Iterator[Entry]:
    at = 0
    while at < len(body):
        space, end = body.find(b" ", at), body.find(b"\0", at)
        if not at < space < end or end + 21 > len(body):
            raise _refuse("tree-malformed", "entries of a tree", f"something else at byte {at}")
        name = body[space + 1 : end]
        if not name or b"/" in name or name in {b".", b"..", b".git"}:
            raise _refuse("tree-malformed", "plain names", repr(name[:80]))
        yield Entry(body[at:space].decode("latin-1"), name, body[end + 1 : end + 21].hex())
        at = end + 21


# What helps where cloning again does not: these are met by people whose repository is sound.
_HELP = {
    "head-not-at-remote": "push what was committed (`git push`), or take over what others pushed (`git pull`)",
    "head-not-on-branch": "switch to the default branch: `git switch`",
    "ref-missing": "push or fetch the default branch: `git push`, or `git fetch origin`",
    "repository-missing": "name the clone with --repository",
    "commit-not-an-id": "write it in full: `git rev-parse HEAD` prints it",
}


def _refuse(reference: str, expected: str, found: str) -> ApprovalRefused:
    return ApprovalRefused(
        reference,
        f"repository: expected {expected}, found {found}",
        hint=_HELP.get(
            reference, "clone the repository again from its source, and compare what differs"
        ),
    )
