"""Takes the tree of one upstream commit: its files alone, no history, no refs, no remote.

git only carries objects into a scratch repository. What it brought is checked without it: the commit's
bytes must hash to the pinned id, and the files to the tree that the commit names. Gitlinks and LFS
pointers are refused, since the tree does not hold what they stand for.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from orchestrator.core.errors import DocumentError, EnvironmentMissing, IntegrityError
from orchestrator.core.files import safe_relative, write_atomic
from orchestrator.core.gittree import FileEntry, Mode, object_id, tree_id
from orchestrator.model.source import GitSource
from orchestrator.sources.archive import (
    MAX_MEMBER_BYTES,
    MAX_MEMBERS,
    MAX_TOTAL_BYTES,
    drop_escaping_links,
)
from orchestrator.sources.cache import FOLDER
from orchestrator.sources.closed import check_open

if TYPE_CHECKING:
    import git

COMMIT_NAME = "commit"
PREFIX = "tree/"
GITLINK = "160000"
LFS_FIRST_LINE = b"version https://git-lfs"
# No helper program and no local surprise: the transports that a public repository is read over.
TRANSPORTS = "https:http:git:ssh:file"


def read_upstream(
    source: GitSource, cache: Path
) -> tuple[dict[str, FileEntry], tuple[str, ...], bytes]:
    """Returns files by path, notes on links left out, and the bytes that the cache keeps.

    Raises:
        EnvironmentMissing: git or the repository cannot be reached and the cache lacks the commit.
        IntegrityError: what came is not what the pinned commit names.
        DocumentError: the tree holds a gitlink, an LFS pointer, or is beyond a bound.
    """
    path = cache_path(source, cache)
    if path.is_file():
        packed = path.read_bytes()
    else:
        packed = _fetch(source)
        unpack_checked(packed, source.upstream_commit, where=source.id)
        write_atomic(path, packed)
    files, notes = unpack_checked(packed, source.upstream_commit, where=source.id)
    return files, notes, packed


def cache_path(source: GitSource, cache: Path) -> Path:
    """Returns where the cache keeps a commit's tree."""
    return cache / FOLDER / source.upstream_commit / f"{source.upstream_commit}.tree.tar"


def unpack_checked(
    packed: bytes, commit: str, *, where: str
) -> tuple[dict[str, FileEntry], tuple[str, ...]]:
    """Reads what the cache keeps and checks it against the commit id, without git.

    Raises:
        IntegrityError: commit or tree are not the pinned ones.
        DocumentError: a name leaves the tree.
    """
    body = b""
    files: dict[str, FileEntry] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isreg() else None
                data = stream.read() if stream is not None else member.linkname.encode()
                if member.name == COMMIT_NAME:
                    body = data
                    continue
                path = str(safe_relative(member.name.removeprefix(PREFIX), where=where))
                mode: Mode = "120000" if member.issym() else _file_mode(member)
                files[path] = FileEntry(path, mode, data)
    except (tarfile.TarError, OSError, ValueError) as error:
        raise _changed(where, commit, f"an unreadable cache file ({error})") from error
    found = object_id("commit", body)
    if found != commit:
        raise _changed(where, commit, f"commit {found}")
    named, tree = body[5:45].decode("ascii", "replace"), tree_id(files.values())
    if not body.startswith(b"tree ") or named != tree:
        raise _changed(where, commit, f"tree {tree} where the commit names {named}")
    notes: list[str] = []
    drop_escaping_links(files, notes)
    return files, tuple(notes)


def _file_mode(member: tarfile.TarInfo) -> Mode:
    return "100755" if member.mode & 0o100 else "100644"


def _changed(where: str, commit: str, found: str) -> IntegrityError:
    return IntegrityError(
        "upstream-changed",
        f"{where}: expected the tree of commit {commit}, found {found}",
        hint="delete the commit's folder from the cache and try again; check the pin",
    )


def _fetch(source: GitSource) -> bytes:
    check_open(f"source {source.id}")
    with tempfile.TemporaryDirectory(prefix="memtrial-upstream-") as name:
        client = _scratch(Path(name))
        _bring(source, client)
        body = _object(client, "commit", source.upstream_commit)
        entries = _entries(source, client, body[5:45].decode("ascii", "replace"))
        return _pack(body, entries)


def _scratch(folder: Path) -> git.Git:
    try:
        import git
    except ImportError as error:
        raise EnvironmentMissing(
            "git-missing", "expected git on the PATH, found none", hint="apt-get install -y git"
        ) from error
    client = git.Git(str(folder))
    client.update_environment(
        GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null",
        GIT_CONFIG_COUNT="0", GIT_CONFIG_PARAMETERS="", GIT_TEMPLATE_DIR="", GIT_DIR=str(folder / "git"),
        GIT_OBJECT_DIRECTORY=str(folder / "git/objects"), GIT_ALTERNATE_OBJECT_DIRECTORIES="",
        GIT_NO_REPLACE_OBJECTS="1", GIT_TERMINAL_PROMPT="0", GIT_ALLOW_PROTOCOL=TRANSPORTS,
        GIT_DEFAULT_HASH="sha1", LC_ALL="C", TZ="UTC",
    )  # fmt: skip
    client.init("--quiet", "--bare", "--template=", str(folder / "git"))
    return client


def _bring(source: GitSource, client: git.Git) -> None:
    from git import GitCommandError

    wanted = (source.upstream_commit, "+refs/heads/*:refs/heads/*")
    words = ""
    for depth, what in zip(("--depth=1", "--tags"), wanted, strict=True):
        try:
            client.fetch("--quiet", "--no-recurse-submodules", depth, "--", source.url, what)
            client.cat_file("-e", f"{source.upstream_commit}^{{commit}}")
        except GitCommandError as error:
            words = str(error.stderr).strip()[-400:]
        else:
            return
    raise EnvironmentMissing(
        "upstream-unreachable",
        f"source {source.id}: expected commit {source.upstream_commit} at {source.url}, found: {words}",
        hint="connect the machine, check url and commit, or bring a cache with `memtrial sources import`",
    )


def _object(client: git.Git, kind: str, name: str) -> bytes:
    return bytes(client.cat_file(kind, name, stdout_as_string=False, strip_newline_in_stdout=False))


def _entries(source: GitSource, client: git.Git, tree: str) -> list[FileEntry]:
    listed = bytes(client.ls_tree("-r", "-z", tree, stdout_as_string=False))
    lines = [line for line in listed.split(b"\0") if line]
    if len(lines) > MAX_MEMBERS:
        raise _refused(source, "the tree", f"{len(lines)} files")
    entries: list[FileEntry] = []
    total_bytes = 0
    for line in lines:
        meta, _, raw = line.partition(b"\t")
        mode, _, name = meta.decode("ascii").split(" ")
        path = raw.decode("utf-8", "backslashreplace")
        if mode == GITLINK:
            raise _refused(source, path, "a gitlink (submodule)")
        data = _object(client, "blob", name)
        total_bytes += len(data)
        if len(data) > MAX_MEMBER_BYTES or total_bytes > MAX_TOTAL_BYTES:
            raise _refused(source, path, "more bytes than the bound")
        if data.startswith(LFS_FIRST_LINE):
            raise _refused(source, path, "a pointer of git-lfs")
        known: Mode = next((m for m in get_args(Mode) if m == mode), "100644")
        entries.append(FileEntry(path, known, data))
    return entries


def _refused(source: GitSource, path: str, found: str) -> DocumentError:
    return DocumentError(
        "upstream-refused",
        f"source {source.id}, {path}: expected files that the tree itself holds, found {found}",
        hint="pin another repository, or another commit",
    )


def _pack(body: bytes, entries: list[FileEntry]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, mode, data in [
            (COMMIT_NAME, "100644", body),
            *((PREFIX + e.path, e.mode, e.data) for e in entries),
        ]:
            member = tarfile.TarInfo(name)
            if mode == "120000":
                member.type, member.linkname = tarfile.SYMTYPE, data.decode()
                archive.addfile(member)
            else:
                member.mode, member.size = (0o755 if mode == "100755" else 0o644), len(data)
                archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
