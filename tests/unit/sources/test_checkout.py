"""A pinned checkout is the same bytes on every machine, and its `.git` is one commit and nothing else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from orchestrator.core.errors import DocumentError, IntegrityError
from orchestrator.core.gittree import FileEntry, tree_id
from orchestrator.core.places import cache_root, fixtures_root
from orchestrator.model.source import PypiSdistSource, VendoredSource
from orchestrator.sources.archive import read_archive
from orchestrator.sources.checkout import (
    Checkout,
    commit_id,
    materialise,
    repository_entries,
)
from orchestrator.sources.fetch import PinnedFile, fetch
from orchestrator.sources.loader import load_source

# Archive and tree of the research notes: computed there with git, here without.
KNOWN = [
    ("cachetools", "5.5.2", "1a661caa9175d26759571b2e19580f9d6393969e5dfca11fdb1f947a23e640d4", "7de9456500808bb0aaa492d58c0a481966092d20"),
    ("click", "8.1.8", "ed53c9d8990d83c2a27deae68e4ee337473f6330c040a31d4225c9574d16096a", "6c14f193e836a076a54f0720684a66f763b8ab59"),
    ("humanize", "4.12.3", "8430be3a615106fdfceb0b2c1b41c4c98c6b0fc5cc59663a5539b111dd325fb0", "3d894ea9209aa8b2bd0cafcc1a9f3a39846f9117"),
    ("inflection", "0.5.1", "1a29730d366e996aaacffb2f1f1cb9593dc38e2ddd30c91250c6dde09ea9b417", "3a0c6e3b6a69043765779ef394e07e80c7ed3cc3"),
    ("itsdangerous", "2.2.0", "e0050c0b7da1eea53ffaf149c0cfbb5c6e2e2b69c4bef22c81fa6eb73e5f6173", "b2dda15d61241b600d3aa2fad24380153ae586d6"),
]  # fmt: skip

HOSTILE_CONFIG = """
[core]
  autocrlf = true
  eol = crlf
  fileMode = false
  symlinks = false
  fsmonitor = true
  attributesFile = {home}/attributes
  hooksPath = {home}/hooks
  compression = 9
  logAllRefUpdates = always
[init]
  templateDir = {home}/template
  defaultBranch = other
[commit]
  gpgSign = true
[index]
  version = 4
"""
PROGRAM = """
import hashlib, sys
from test_checkout import awkward
from orchestrator.sources.checkout import repository_entries
print(hashlib.sha256(repr(repository_entries(awkward())).encode()).hexdigest())
"""


def awkward() -> Checkout:
    """Files that git setups like to change: CRLF, ident, ignored, executable, linked, and a large one."""
    entries = (
        FileEntry(".gitattributes", "100644", b"*.txt text eol=crlf\n*.c ident\n*.bin filter=lfs\n"),
        FileEntry(".gitignore", "100644", b"ignored.py\n"),
        FileEntry("a.bin", "100644", bytes(range(256)) * 1024),
        FileEntry("a.c", "100644", b"/* $Id$ */\n"),
        FileEntry("crlf.txt", "100644", b"one\r\ntwo\n"),
        FileEntry("empty", "100644", b""),
        FileEntry("ignored.py", "100644", b"x = 1\n"),
        FileEntry("link", "120000", b"sub/run"),
        FileEntry("sub/run", "100755", b"#!/bin/sh\n"),
    )  # fmt: skip
    tree = tree_id(entries)
    return Checkout("awkward", entries, tree, commit_id(tree), ())


def unfold(checkout: Checkout, folder: Path) -> Path:
    for entry in (*checkout.entries, *repository_entries(checkout)):
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode == "120000":
            path.symlink_to(entry.data.decode())
        else:
            path.write_bytes(entry.data)
            path.chmod(0o755 if entry.mode == "100755" else 0o644)
    return folder


def git(folder: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, check=True, env=environment
    )
    return done.stdout.decode().strip()


def test_git_finds_a_clean_sound_repository_of_one_commit(tmp_path: Path) -> None:
    checkout = awkward()
    folder = unfold(checkout, tmp_path)
    assert git(folder, "status", "--porcelain", "--ignored") == ""
    assert git(folder, "fsck", "--strict", "--full", "--unreachable") == ""
    assert git(folder, "rev-parse", "HEAD", "HEAD^{tree}").split() == [
        checkout.commit,
        checkout.tree,
    ]
    assert git(folder, "log", "--all", "--format=%an <%ae> %at %s") == "memtrial <fixtures@memtrial.invalid> 946684800 Pinned checkout"  # fmt: skip
    assert git(folder, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(folder, "stash", "list") + git(folder, "tag") + git(folder, "remote") == ""


def test_the_git_folder_holds_objects_index_head_one_ref_and_settings_only() -> None:
    paths = {entry.path for entry in repository_entries(awkward())}
    others = {path for path in paths if not path.startswith(".git/objects/")}
    assert others == {
        ".git/HEAD",
        ".git/config",
        ".git/index",
        ".git/info/attributes",
        ".git/refs/heads/main",
    }


def test_objects_are_stored_so_that_no_zlib_has_a_say_in_their_bytes() -> None:
    objects = [e for e in repository_entries(awkward()) if e.path.startswith(".git/objects/")]
    for entry in objects:
        plain = zlib.decompress(entry.data)
        blocks = max(1, -(-len(plain) // 65_535))
        assert len(entry.data) == len(plain) + 2 + 5 * blocks + 4
        assert hashlib.sha1(plain).hexdigest() == entry.path.removeprefix(".git/objects/").replace("/", "")  # fmt: skip


def test_no_setting_of_user_or_machine_changes_a_byte(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "template" / "hooks").mkdir(parents=True)
    (home / "template" / "hooks" / "post-commit").write_text("#!/bin/sh\ntouch /tmp/never\n")
    (home / "template" / "info").mkdir()
    (home / "template" / "info" / "exclude").write_text("*\n")
    (home / "attributes").write_text("* text eol=crlf filter=never\n")
    (home / ".gitconfig").write_text(HOSTILE_CONFIG.format(home=home))
    program = f"import os; os.umask(0o077)\n{PROGRAM}"
    hostile = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.autocrlf",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_CONFIG_PARAMETERS": "'core.autocrlf=input'",
        "GIT_TEMPLATE_DIR": str(home / "template"),
        "GIT_DIR": str(home / "elsewhere.git"),
        "GIT_WORK_TREE": str(home),
        "GIT_INDEX_FILE": str(home / "index"),
        "GIT_OBJECT_DIRECTORY": str(home / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(home / "objects"),
        "GIT_NAMESPACE": "other",
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_INDEX_VERSION": "4",
        "GIT_AUTHOR_DATE": "1 +0100",
        "LC_ALL": "de_DE.UTF-8",
        "TZ": "Asia/Tokyo",
    }
    here = str(Path(__file__).parent)
    environment = {**os.environ, **hostile, "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    done = subprocess.run(
        [sys.executable, "-B", "-c", program], capture_output=True, env=environment, check=False
    )
    expected = hashlib.sha256(repr(repository_entries(awkward())).encode()).hexdigest()
    assert done.stdout.decode().strip() == expected, done.stderr.decode()
    assert not (home / "elsewhere.git").exists()
    assert not (home / "index").exists()


def test_the_vendored_source_is_its_pin() -> None:
    source = load_source(fixtures_root(), "depotfeed")
    checkout = materialise(source, fixtures=fixtures_root(), cache=cache_root())
    assert checkout.tree == source.expect.tree
    assert checkout.commit == commit_id(checkout.tree)
    assert {entry.mode for entry in checkout.entries} == {"100644"}


def vendored(tmp_path: Path, **changes: object) -> VendoredSource:
    folder = tmp_path / "vendored" / "mini"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "LICENSE").write_bytes(b"free\n")
    (folder / "a.py").write_bytes(b"A = 1\n")
    entries = [FileEntry("LICENSE", "100644", b"free\n"), FileEntry("a.py", "100644", b"A = 1\n")]
    tree = tree_id(entries)
    fields: dict[str, object] = {
        "id": "mini",
        "kind": "vendored",
        "path": "vendored/mini",
        "licence": "Apache-2.0",
        "licence_files": ("LICENSE",),
        "expect": {"tree": tree, "commit": commit_id(tree), "files": 2, "bytes": 11},
    }
    return VendoredSource.model_validate(fields | changes)


def test_a_changed_file_is_an_integrity_error_that_names_both_trees(tmp_path: Path) -> None:
    source = vendored(tmp_path)
    (tmp_path / "vendored" / "mini" / "a.py").write_bytes(b"A = 2\n")
    with pytest.raises(IntegrityError, match=source.expect.tree):
        materialise(source, fixtures=tmp_path, cache=tmp_path)


def test_a_missing_licence_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="COPYING"):
        materialise(
            vendored(tmp_path, licence_files=("COPYING",)), fixtures=tmp_path, cache=tmp_path
        )


def test_an_overlay_that_leaves_the_tree_is_refused(tmp_path: Path) -> None:
    overlay = ({"path": "../x", "text": ""},)
    with pytest.raises(DocumentError, match="plain relative path"):
        materialise(vendored(tmp_path, overlay=overlay), fixtures=tmp_path, cache=tmp_path)


def test_a_link_in_a_vendored_folder_is_refused(tmp_path: Path) -> None:
    source = vendored(tmp_path)
    (tmp_path / "vendored" / "mini" / "more").symlink_to("/etc", target_is_directory=True)
    with pytest.raises(DocumentError, match="more"):
        materialise(source, fixtures=tmp_path, cache=tmp_path)


@pytest.mark.network
@pytest.mark.parametrize(("name", "version", "archive", "tree"), KNOWN, ids=[k[0] for k in KNOWN])
def test_real_archives_have_the_trees_that_git_gave_them(
    name: str, version: str, archive: str, tree: str
) -> None:
    path = fetch(PinnedFile(name, (archive,), f"{name}-{version}.tar.gz"), cache_root())
    files, notes = read_archive(path.read_bytes(), strip=1, where=path.name)
    kept = [e for p, e in files.items() if p != "PKG-INFO" and ".egg-info/" not in p]
    assert tree_id(kept) == tree
    assert notes == ()


@pytest.mark.network
@pytest.mark.parametrize("source_id", ["cachetools-5.5.2", "humanize-4.12.3"])
def test_a_pinned_distribution_materialises_to_its_pin(source_id: str, tmp_path: Path) -> None:
    source = load_source(fixtures_root(), source_id)
    assert isinstance(source, PypiSdistSource)
    checkout = materialise(source, fixtures=fixtures_root(), cache=cache_root())
    assert checkout.tree == source.expect.tree
    assert git(unfold(checkout, tmp_path), "status", "--porcelain", "--ignored") == ""
