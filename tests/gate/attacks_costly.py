"""Attacks that would hold the gate up, fill it, mislead its reader or crash it: steps 1 to 5 and 15."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from orchestrator.trust.gate.before import TUF_FOLDER
from orchestrator.trust.gate.machine import NONCES
from orchestrator.trust.nonces import BOOK, HEAD
from orchestrator.trust.plumbing import MAX_OBJECT_BYTES
from tests.gate.attacks_fields import put
from tests.gate.attacks_host import linked, replaced_by
from tests.gate.attacks_machine import use
from tests.gate.catalogue import Attack, after, before
from tests.gate.world import World
from tests.unit.trust.hostile_git import commit, git

OPEN = "whoever can write there says what HEAD is"
FIRST = f"{TUF_FOLDER}/metadata/1.root.json"


def opened(name: str) -> Callable[[World], None]:
    return lambda world: (world.repo / ".git" / name).chmod(0o777)


def pipe(name: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        path = world.repo / ".git" / name
        path.touch()
        replaced_by(path, os.mkfifo)

    return change


def packed_linked(world: World) -> None:
    git(world.repo, "pack-refs", "--all")
    linked(world.repo / ".git/packed-refs")


def mktree(folder: Path, text: str) -> str:
    made = subprocess.run(
        ["git", "mktree"], cwd=folder, input=text.encode(), check=True, capture_output=True
    )
    return made.stdout.decode().strip()


def tree_bomb(world: World) -> None:
    """Eight trees of ten names each that stand for a hundred million files."""
    blob = git(world.repo, "hash-object", "-w", str(world.repo / "README"))
    tree = mktree(world.repo, "".join(f"100644 blob {blob}\tf{i}\n" for i in range(10)))
    for _ in range(7):
        tree = mktree(world.repo, "".join(f"040000 tree {tree}\td{i}\n" for i in range(10)))
    put_tree(world.repo, tree)


def put_tree(folder: Path, tree: str) -> None:
    """Commits a tree as the folder `z` of the trust root, past the index and the work tree."""

    def graft(base: str, parts: list[str]) -> str:
        lines = git(folder, "ls-tree", base).splitlines()
        kept = [line for line in lines if line.split("\t")[1] != parts[0]]
        old = [line.split()[2] for line in lines if line.split("\t")[1] == parts[0]]
        new = graft(old[0], parts[1:]) if parts[1:] else tree
        return mktree(folder, "\n".join([*kept, f"040000 tree {new}\t{parts[0]}"]) + "\n")

    whole = graft(git(folder, "rev-parse", "HEAD^{tree}"), [*TUF_FOLDER.split("/"), "z"])
    made = git(folder, "commit-tree", whole, "-p", "HEAD", "-m", "bomb")
    for ref in ("refs/heads/main", "refs/remotes/origin/main"):
        git(folder, "update-ref", ref, made)


def deep(world: World) -> None:
    commit(world.repo, {f"{TUF_FOLDER}/{'/'.join('abcdefghij')}/x.json": b"{}"})


def untracked(world: World) -> None:
    place = world.repo / TUF_FOLDER / "extra" / "deep"
    place.mkdir(parents=True)
    (place / "x.json").write_bytes(b"{}")


def named(name: str) -> Callable[[World], object]:
    return lambda world: commit(world.repo, {f"{TUF_FOLDER}/{name}": b"{}"})


def copied(name: str) -> Callable[[World], object]:
    """The first root once more, under another name."""
    return lambda world: commit(
        world.repo, {f"{TUF_FOLDER}/metadata/{name}": (world.repo / FIRST).read_bytes()}
    )


def one_line_without_head(world: World) -> None:
    folder = world.state / NONCES
    (folder / HEAD).unlink()
    (folder / BOOK).write_bytes((folder / BOOK).read_bytes().splitlines(keepends=True)[0])


ATTACKS: tuple[Attack, ...] = (
    after("git-folder-open", 1, "folder-writable-by-others", OPEN, opened("")),
    after("refs-folder-open", 1, "folder-writable-by-others", OPEN, opened("refs/heads")),
    after(
        "remote-refs-folder-open",
        1,
        "folder-writable-by-others",
        OPEN,
        opened("refs/remotes/origin"),
    ),
    after(
        "git-configuration-open",
        1,
        "file-writable-by-others",
        "git would run what somebody else wrote there",
        opened("config"),
    ),
    after("head-is-a-pipe", 1, "file-not-regular", "reading it would wait for ever", pipe("HEAD")),
    after(
        "packed-refs-is-a-pipe",
        1,
        "file-not-regular",
        "reading it would wait for ever",
        pipe("packed-refs"),
    ),
    after("packed-refs-linked", 1, "link-on-the-way", OPEN, packed_linked),
    after(
        "tree-bomb",
        3,
        "tracked-files-too-many",
        "eight small objects stand for a hundred million files",
        tree_bomb,
    ),
    after("deep-folders", 3, "tracked-files-too-many", "a trust root is flat", deep),
    after(
        "large-object",
        3,
        "object-of-another-kind",
        "documents of a trust root are small",
        lambda w: commit(w.repo, {f"{TUF_FOLDER}/large.json": b" " * (MAX_OBJECT_BYTES + 1)}),
    ),
    after(
        "name-with-control-characters",
        3,
        "tracked-name-not-plain",
        "a terminal would show another name",
        named("\x1b[2Jx.json"),
    ),
    after(
        "name-right-to-left",
        3,
        "tracked-name-not-plain",
        "a reader would see another name",
        named("\u202enosj.x"),
    ),
    after(
        "name-in-other-digits",
        3,
        "tracked-name-not-plain",
        "programs disagree about what number it is",
        copied("\u00b2.root.json"),
    ),
    after(
        "untracked-link-to-a-folder",
        4,
        "worktree-has-more",
        "a person would see files that HEAD has not",
        lambda w: (w.repo / TUF_FOLDER / "extra").symlink_to("/etc"),
    ),
    after(
        "untracked-file-in-a-folder",
        4,
        "worktree-has-more",
        "a person would see a file that HEAD has not",
        untracked,
    ),
    after(
        "metadata-of-no-role",
        5,
        "metadata-of-no-role",
        "a root without a number has no place in the chain",
        copied("foo.root.json"),
    ),
    after(
        "metadata-with-a-zero-before",
        5,
        "metadata-of-no-role",
        "two files of one number",
        copied("01.root.json"),
    ),
    after(
        "book-of-one-line-without-head",
        15,
        "nonce-book-broken",
        "cut to its first line it would forget the others",
        one_line_without_head,
    ),
    before(
        "other-roles",
        10,
        "plan-differs",
        "a judge would call the model, and nobody planned one",
        put("roles", ["agent", "memory", "judge"]),
    ),
    before(
        "fewer-roles",
        10,
        "plan-differs",
        "arms whose memory calls the model would go without",
        put("roles", ["agent"]),
    ),
    after(
        "supervisor-linked-inside",
        12,
        "supervisor-changed",
        "its own files are named in its manifest, and so are its links",
        lambda w: linked(w.prefix / "lib" / "supervisor.py"),
    ),
    after(
        "run-of-another-approval",
        15,
        "run-has-another-approval",
        "two approvals would share one record",
        use("e" * 64, run_id="run-1"),
    ),
)
