"""Attacks on the machine, the process, the repository and files: steps 0 to 4."""

from __future__ import annotations

import os
import re
import shutil
import struct
from dataclasses import replace
from pathlib import Path

from orchestrator.trust.gate.before import BOOTSTRAP, CONFIG, SEEN, TUF_FOLDER
from tests.gate.catalogue import Attack, after, in_turn
from tests.gate.world import HOST, World
from tests.unit.trust.hostile_git import commit, foreign_commit, git, overwrite_blob

TIMESTAMP = f"{TUF_FOLDER}/metadata/timestamp.json"


def host(**changes: object):
    def change(world: World) -> None:
        world.host = replace(HOST, **changes)  # type: ignore[arg-type]

    return change


def with_variable(name: str):
    return host(environment=HOST.environment | {name})


def write_git(name: str, text: str):
    def change(world: World) -> None:
        path = world.repo / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return change


def setting(name: str, value: str):
    return lambda world: git(world.repo, "config", name, value)


def access_list(path: Path) -> None:
    entries = [
        (1, 6, 2**32 - 1),
        (2, 6, 12345),
        (4, 4, 2**32 - 1),
        (16, 4, 2**32 - 1),
        (32, 4, 2**32 - 1),
    ]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(path, "system.posix_acl_access", value)


def linked(path: Path) -> None:
    real = path.with_name(path.name + ".real")
    path.rename(real)
    path.symlink_to(real.name)


def replaced_by(path: Path, make) -> None:
    path.unlink()
    make(path)


def moved_git(world: World, *, link: bool) -> None:
    git_folder, other = world.repo / ".git", world.folder / "elsewhere"
    git_folder.rename(other)
    if link:
        git_folder.symlink_to(other)
    else:
        git_folder.write_text(f"gitdir: {other}\n")


def packed_replace(world: World) -> None:
    git(world.repo, "replace", world.head, foreign_commit(world.repo))
    git(world.repo, "pack-refs", "--all")
    shutil.rmtree(world.repo / ".git" / "refs" / "replace", ignore_errors=True)


def ahead(world: World) -> None:
    git(world.repo, "update-ref", "refs/remotes/origin/main", foreign_commit(world.repo))


def origin_linked(world: World) -> None:
    path = world.repo / ".git/refs/remotes/origin/main"
    path.unlink()
    path.symlink_to("../../heads/main")


def tracked_link(world: World) -> None:
    (world.repo / TUF_FOLDER / "note").symlink_to("/etc/hostname")
    commit(world.repo, {})


def tracked_executable(world: World) -> None:
    (world.repo / TIMESTAMP).chmod(0o755)
    commit(world.repo, {})


def hidden_edit(flag: str):
    def change(world: World) -> None:
        git(world.repo, "update-index", flag, TIMESTAMP)
        (world.repo / TIMESTAMP).write_bytes(b"{}")

    return change


def clean_filter(world: World) -> None:
    git(world.repo, "config", "filter.x.clean", "git show HEAD:%f")
    (world.repo / ".gitattributes").write_text("* filter=x\n")
    (world.repo / TIMESTAMP).write_bytes(b"{}")


def file_of(world: World) -> Path:
    return world.repo / TIMESTAMP


def somebody_elses(path: Path, world: World) -> None:
    """Gives a path away; one who is not root says instead that it should have been another's."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        world.changes["owner_uid"] = os.geteuid() + 1


NAMESPACE = "a root of a user namespace sees its own files as root's"
ENVIRONMENT = "a variable of the caller can redirect git, Python or a library"
HISTORY = "it changes what git takes for the history of HEAD"
RUNS = "the setting makes git run or read something else"
WRITABLE = "somebody else could have put the file there"

ATTACKS: tuple[Attack, ...] = (
    after(
        "other-system", 0, "host-not-usable", "the checks are Linux's own", host(platform="darwin")
    ),
    after(
        "old-kernel", 0, "host-not-usable", "before 5.6 there is no openat2", host(kernel=(5, 5))
    ),
    after("user-namespace", 0, "user-namespace", NAMESPACE, host(user_namespace=4026532837)),
    after("mapped-uids", 0, "user-namespace", NAMESPACE, host(uid_map="0 1000 1\n")),
    after(
        "interpreter-not-isolated",
        0,
        "not-isolated",
        "PYTHONPATH and user packages would be followed",
        host(isolated=False),
    ),
    *(
        after(
            f"variable-{name.lower().replace('_', '-')}",
            0,
            "environment-not-clean",
            ENVIRONMENT,
            with_variable(name),
        )
        for name in (
            "GIT_DIR",
            "GIT_OBJECT_DIRECTORY",
            "GIT_CONFIG_COUNT",
            "GIT_PYTHON_GIT_EXECUTABLE",
            "PYTHONPATH",
            "LD_PRELOAD",
            "SIGSTORE_STAGING",
            "HTTPS_PROXY",
        )
    ),
    after(
        "configuration-linked", 0, "link-on-the-way", WRITABLE, lambda w: linked(w.system / CONFIG)
    ),
    after("system-folder-linked", 0, "link-on-the-way", WRITABLE, lambda w: linked(w.system)),
    after(
        "first-root-hard-linked",
        0,
        "file-has-other-names",
        "the other name may lie where others write",
        lambda w: (w.folder / "other").hardlink_to(w.system / BOOTSTRAP),
    ),
    after(
        "first-root-is-a-pipe",
        0,
        "file-not-regular",
        "reading it would wait for ever",
        lambda w: replaced_by(w.system / BOOTSTRAP, os.mkfifo),
    ),
    after(
        "first-root-is-a-folder",
        0,
        "file-not-regular",
        "it holds no bytes",
        lambda w: replaced_by(w.system / BOOTSTRAP, Path.mkdir),
    ),
    after(
        "first-root-group-writable",
        0,
        "file-writable-by-others",
        WRITABLE,
        lambda w: (w.system / BOOTSTRAP).chmod(0o664),
    ),
    after(
        "first-root-set-id",
        0,
        "file-set-id",
        "nothing installs it so",
        lambda w: (w.system / BOOTSTRAP).chmod(0o4644),
    ),
    after(
        "first-root-with-access-list",
        0,
        "file-has-access-list",
        "the mask hides it from the mode",
        in_turn(
            lambda w: access_list(w.system / BOOTSTRAP),
            lambda w: (w.system / BOOTSTRAP).chmod(0o644),
        ),
    ),
    after(
        "first-root-missing",
        0,
        "file-missing",
        "there is nothing to start from",
        lambda w: (w.system / BOOTSTRAP).unlink(),
    ),
    after(
        "first-root-changed",
        0,
        "bootstrap-not-the-pinned-one",
        "whoever picks the first root picks the approvers",
        lambda w: (w.system / BOOTSTRAP).write_bytes(b"{}"),
    ),
    after(
        "system-folder-open",
        0,
        "folder-writable-by-others",
        WRITABLE,
        lambda w: w.system.chmod(0o777),
    ),
    after(
        "system-folder-sticky",
        0,
        "folder-writable-by-others",
        "a sticky folder still lets others add files",
        lambda w: w.system.chmod(0o1777),
    ),
    after(
        "system-folder-given-away",
        0,
        "folder-of-another-owner",
        WRITABLE,
        lambda w: somebody_elses(w.system, w),
    ),
    after(
        "configuration-not-canonical",
        0,
        "system-folder-invalid",
        "one text, one meaning",
        lambda w: (w.system / CONFIG).write_bytes((w.system / CONFIG).read_bytes() + b" "),
    ),
    after(
        "seen-not-a-document",
        0,
        "system-folder-invalid",
        "without it an old root could come again",
        lambda w: (w.state / SEEN).write_bytes(b"{}x"),
    ),
    after(
        "git-folder-is-a-file",
        1,
        "git-folder-not-real",
        HISTORY,
        lambda w: moved_git(w, link=False),
    ),
    after(
        "git-folder-is-a-link", 1, "git-folder-not-real", HISTORY, lambda w: moved_git(w, link=True)
    ),
    after("worktree-open", 1, "folder-writable-by-others", WRITABLE, lambda w: w.repo.chmod(0o777)),
    after(
        "replace-ref",
        1,
        "repository-not-plain",
        HISTORY,
        lambda w: git(w.repo, "replace", w.head, foreign_commit(w.repo)),
    ),
    after("replace-ref-packed", 1, "repository-not-plain", HISTORY, packed_replace),
    after(
        "replace-by-graft",
        1,
        "repository-not-plain",
        HISTORY,
        lambda w: git(w.repo, "replace", "--graft", w.head, foreign_commit(w.repo)),
    ),
    after("grafts", 1, "repository-not-plain", HISTORY, write_git("info/grafts", "x\n")),
    after(
        "shallow",
        1,
        "repository-not-plain",
        "a cut history has other ancestors",
        write_git("shallow", "x\n"),
    ),
    after(
        "alternates",
        1,
        "repository-not-plain",
        "objects would come from elsewhere",
        write_git("objects/info/alternates", "/x\n"),
    ),
    after(
        "http-alternates",
        1,
        "repository-not-plain",
        "objects would come from elsewhere",
        write_git("objects/info/http-alternates", "/x\n"),
    ),
    after(
        "common-folder",
        1,
        "repository-not-plain",
        "refs would come from elsewhere",
        write_git("commondir", "/x\n"),
    ),
    *(
        after(
            f"setting-{re.sub('[^a-z0-9]+', '-', name.lower())}",
            1,
            "repository-config",
            RUNS,
            setting(name, value),
        )
        for name, value in (
            ("core.fsmonitor", "touch x"),
            ("core.hooksPath", "/x"),
            ("core.worktree", "/x"),
            ("core.sshCommand", "x"),
            ("core.attributesFile", "/x"),
            ("core.bare", "true"),
            ("include.path", "/x"),
            ("includeIf.gitdir:/.path", "/x"),
            ("filter.x.clean", "x"),
            ("diff.x.textconv", "x"),
            ("url./x.insteadOf", "https://"),
            ("extensions.partialClone", "origin"),
            ("remote.origin.promisor", "true"),
        )
    ),
    after(
        "setting-unreadable",
        1,
        "repository-config",
        "what git cannot read nobody has checked",
        write_git("config", "[core\n"),
    ),
    after(
        "head-detached",
        2,
        "head-not-on-branch",
        "the approval speaks of the default branch",
        lambda w: git(w.repo, "checkout", "-q", "--detach"),
    ),
    after(
        "other-branch",
        2,
        "head-not-on-branch",
        "the approval speaks of the default branch",
        lambda w: git(w.repo, "checkout", "-q", "-b", "other"),
    ),
    after(
        "head-with-more-text",
        2,
        "head-not-on-branch",
        "one text, one meaning",
        write_git("HEAD", "ref: refs/heads/main\n\n"),
    ),
    after(
        "origin-behind",
        2,
        "head-not-at-remote",
        "local commits that nobody else has",
        lambda w: git(w.repo, "update-ref", "refs/remotes/origin/main", w.first),
    ),
    after("origin-ahead", 2, "head-not-at-remote", "a withdrawal may be in what is missing", ahead),
    after(
        "origin-symbolic",
        2,
        "ref-not-plain",
        "it would follow the local branch",
        lambda w: git(w.repo, "symbolic-ref", "refs/remotes/origin/main", "refs/heads/main"),
    ),
    after("origin-linked", 2, "ref-not-plain", "it would follow the local branch", origin_linked),
    after(
        "origin-missing",
        2,
        "ref-missing",
        "nothing says what others have",
        lambda w: git(w.repo, "update-ref", "-d", "refs/remotes/origin/main"),
    ),
    after(
        "branch-garbled",
        2,
        "ref-not-plain",
        "a commit is named by its full id",
        write_git("refs/heads/main", "HEAD\n"),
    ),
    after(
        "object-overwritten",
        3,
        "object-not-its-id",
        "git returns whatever lies at an object's place",
        lambda w: overwrite_blob(w.repo, TIMESTAMP, b"{}"),
    ),
    after("tracked-link", 3, "tracked-file-not-plain", "a link reads from elsewhere", tracked_link),
    after(
        "tracked-executable",
        3,
        "tracked-file-not-plain",
        "documents are no programs",
        tracked_executable,
    ),
    after(
        "names-differ-in-case",
        3,
        "names-differ-in-case",
        "one of them hides the other on some systems",
        lambda w: commit(w.repo, {f"{TUF_FOLDER}/metadata/Timestamp.json": b"{}"}),
    ),
    after(
        "assume-unchanged",
        4,
        "worktree-differs",
        "git status says nothing of the edit",
        hidden_edit("--assume-unchanged"),
    ),
    after(
        "skip-worktree",
        4,
        "worktree-differs",
        "git status says nothing of the edit",
        hidden_edit("--skip-worktree"),
    ),
    after(
        "clean-filter",
        1,
        "repository-config",
        "the filter makes an edited file look like HEAD's",
        clean_filter,
    ),
    after("worktree-file-linked", 4, "link-on-the-way", WRITABLE, lambda w: linked(file_of(w))),
    after(
        "worktree-folder-linked",
        4,
        "link-on-the-way",
        WRITABLE,
        lambda w: linked(file_of(w).parent),
    ),
    after(
        "worktree-file-hard-linked",
        4,
        "file-has-other-names",
        WRITABLE,
        lambda w: (w.folder / "other").hardlink_to(file_of(w)),
    ),
    after(
        "worktree-file-open",
        4,
        "file-writable-by-others",
        WRITABLE,
        lambda w: file_of(w).chmod(0o666),
    ),
    after(
        "worktree-file-missing",
        4,
        "file-missing",
        "what a person sees is not what HEAD has",
        lambda w: file_of(w).unlink(),
    ),
    after(
        "worktree-file-more",
        4,
        "worktree-has-more",
        "an untracked file could be taken for a published one",
        lambda w: (file_of(w).with_name("9.root.json")).write_bytes(b"{}"),
    ),
)
