"""Attacks of kinds that the cases before did not show in this form: files, refs, history, what was withdrawn."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.core.canonical import sha256_hex
from orchestrator.model.gate import GateConfig, RootSeen
from orchestrator.trust.changes import withdraw_approval
from orchestrator.trust.gate.before import BOOTSTRAP, CONFIG, SEEN, TUF_FOLDER
from orchestrator.trust.root.make import NOTE, drop_target, load, next_version, publish
from tests.gate.attacks_fields import OTHER, put
from tests.gate.attacks_host import WRITABLE, linked, replaced_by
from tests.gate.catalogue import Attack, after, before
from tests.gate.world import ID, World
from tests.unit.trust.hostile_git import commit, foreign_commit, forge_commit_graph, git
from tests.unit.trust.support import CURATORS

FIRST = f"{TUF_FOLDER}/metadata/1.root.json"
PROGRAM = "another program would hold the provider's keys"


def listening(path: Path) -> None:
    """Leaves a socket at a path, bound by its folder for the kernel bounds such paths."""
    folder = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def capable(path: Path) -> None:
    """Gives a file a capability; one who is not root does it in a user namespace of their own."""
    value = struct.pack("<IIIII", 0x02000000, 1 << 21, 0, 0, 0).hex()
    program = (
        f"import os; os.setxattr({str(path)!r}, 'security.capability', bytes.fromhex({value!r}))"
    )
    outside = [] if os.geteuid() == 0 else ["unshare", "-Ur"]
    subprocess.run([*outside, sys.executable, "-c", program], check=True)


def approval_hard_linked(world: World) -> None:
    (path,) = (world.repo / TUF_FOLDER / "targets" / "approvals").iterdir()
    os.link(path, world.folder / "the-other-name")


def tag_named_main(world: World) -> None:
    git(world.repo, "tag", "main")
    (world.repo / ".git/HEAD").write_text("ref: refs/tags/main\n")


def gitlink(world: World) -> None:
    place = f"160000,{world.head},{TUF_FOLDER}/sub"
    git(world.repo, "update-index", "--add", "--cacheinfo", place)
    git(world.repo, "commit", "-q", "-m", "a submodule")
    git(world.repo, "update-ref", "refs/remotes/origin/main", "HEAD")


def approved_by_graph(world: World) -> None:
    """HEAD does not come from the approved commit, and a forged graph tells git that it does."""
    tree, made = git(world.repo, "rev-parse", "HEAD^{tree}"), [foreign_commit(world.repo)]
    for number in range(2):
        made.append(git(world.repo, "commit-tree", tree, "-p", made[-1], "-m", f"other {number}"))
    for name in ("refs/heads/main", "refs/remotes/origin/main"):
        git(world.repo, "update-ref", name, made[-1])
    forge_commit_graph(world.repo, made[1], world.first)
    # Fails unless git is fooled.
    git(world.repo, "merge-base", "--is-ancestor", world.first, "HEAD")


def twice_in_first_root(world: World) -> None:
    """The pinned first root has a key twice, and its pin is that of these very bytes."""
    data = (world.system / BOOTSTRAP).read_bytes()
    data = data.replace(b'"version":', b'"version": 1, "version":', 1)
    (world.system / BOOTSTRAP).write_bytes(data)
    (world.repo / FIRST).write_bytes(data)
    config = GateConfig.parse_canonical((world.system / CONFIG).read_bytes(), where=CONFIG)
    pinned = config.model_copy(update={"root_sha256": sha256_hex(data)})
    (world.system / CONFIG).write_bytes(pinned.canonical())
    commit(world.repo, {})


def withdrawn(world: World) -> None:
    withdraw_approval(
        world.repo / "approvals",
        ID,
        CURATORS[0],
        reason="a mistake",
        now_s=world.ingredients.now_s,
    )
    commit(world.repo, {})


def listed_again(world: World, *, drop_note: bool = False) -> None:
    """The other curator lists what was withdrawn once more, beside the note or in its place."""
    folder = world.repo / TUF_FOLDER
    listed = load(folder).approvals.targets
    withdrawn(world)
    made = load(folder)
    made.approvals.targets.update(listed)
    if drop_note:
        drop_target(made, f"approvals/{ID}{NOTE}")
    changed = next_version(made, "approvals", now_s=world.ingredients.now_s)
    publish(folder, made, owners=(), curator=CURATORS[1], changed=changed)
    commit(world.repo, {})


def note_dropped(world: World) -> None:
    listed_again(world, drop_note=True)


def note_unlisted(world: World, *, keep_file: bool = True) -> None:
    """The other curator takes the metadata that lists the note away too, and, if asked, the note's own file."""
    folder = world.repo / TUF_FOLDER
    note_dropped(world)
    (folder / "metadata" / f"{load(folder).approvals.version - 1}.approvals.json").unlink()
    if not keep_file:
        (note,) = (folder / "targets" / "approvals").glob(f"*{NOTE}")
        note.unlink()
    commit(world.repo, {})


def note_nowhere(world: World) -> None:
    """Nothing in the tree speaks of the withdrawal any more; the supervisor had seen it."""
    seen(world, withdrawn=(ID,))
    note_unlisted(world, keep_file=False)


def seen(world: World, **changes: Any) -> None:
    """The supervisor had seen more of the root."""
    path = world.state / SEEN
    before = RootSeen.parse_canonical(path.read_bytes(), where=SEEN)
    path.write_bytes(before.model_copy(update=changes).canonical())


def forked(world: World) -> None:
    """Two curators published from one commit; the supervisor has seen what the other one made."""
    made = load(world.repo / TUF_FOLDER)
    seen(world, timestamp_version=made.timestamp.version, timestamp_sha256="a" * 64)


def first_root_among_targets(world: World) -> None:
    """The chain begins with other bytes than were provisioned, which lie among the targets under a root's name."""
    first = (world.repo / FIRST).read_bytes()
    (world.repo / FIRST).write_bytes(first + b"\n")
    (world.repo / TUF_FOLDER / "targets" / "1.root.json").write_bytes(first)
    commit(world.repo, {})


def open_ref(name: str) -> Callable[[World], None]:
    return lambda world: (world.repo / ".git" / name).chmod(0o666)


SAYS_HEAD = "whoever can write there says what HEAD is"

ATTACKS: tuple[Attack, ...] = (
    after(
        "first-root-linked",
        0,
        "link-on-the-way",
        WRITABLE,
        lambda w: linked(w.system / BOOTSTRAP),
    ),
    after(
        "first-root-is-a-socket",
        0,
        "file-not-opened",
        "no such thing is a document",
        lambda w: replaced_by(w.system / BOOTSTRAP, listening),
    ),
    after(
        "first-root-with-capability",
        0,
        "file-has-capability",
        "nothing installs it so",
        lambda w: capable(w.system / BOOTSTRAP),
    ),
    after("approval-hard-linked", 4, "file-has-other-names", WRITABLE, approval_hard_linked),
    after(
        "supervisor-with-capability",
        12,
        "file-has-capability",
        PROGRAM,
        lambda w: capable(w.prefix / "interpreter"),
    ),
    after(
        "head-at-a-tag-named-main",
        2,
        "head-not-on-branch",
        "the approval speaks of the default branch",
        tag_named_main,
    ),
    after("tracked-gitlink", 3, "tracked-file-not-plain", "it reads from elsewhere", gitlink),
    after(
        "commit-in-a-forged-graph",
        9,
        "commit-not-in-history",
        "git believes its graph, and nobody else does",
        approved_by_graph,
    ),
    after(
        "first-root-with-duplicate-key",
        5,
        "json-duplicate-key",
        "the client keeps the last of two",
        twice_in_first_root,
    ),
    after(
        "approval-withdrawn",
        7,
        "approval-withdrawn",
        "whoever withdrew it means it",
        withdrawn,
    ),
    after(
        "withdrawn-approval-listed-again",
        7,
        "approval-withdrawn",
        "one curator would undo what another did",
        listed_again,
    ),
    after(
        "withdrawal-dropped",
        5,
        "withdrawal-undone",
        "one curator would undo what another did",
        note_dropped,
    ),
    after("head-ref-open", 1, "file-writable-by-others", SAYS_HEAD, open_ref("refs/heads/main")),
    after(
        "origin-ref-open",
        1,
        "file-writable-by-others",
        SAYS_HEAD,
        open_ref("refs/remotes/origin/main"),
    ),
    after(
        "first-root-among-targets",
        5,
        "bootstrap-not-published",
        "anybody who can push can put a file there",
        first_root_among_targets,
    ),
    before(
        "other-roles-approved",
        9,
        "root-not-the-approved-one",
        "the signers saw other roles: whose signatures and whose seal count",
        put("root", "roles_sha256", OTHER),
    ),
    after(
        "withdrawal-and-its-metadata-dropped",
        5,
        "withdrawal-undone",
        "the note's file says so, whatever is listed",
        note_unlisted,
    ),
    after(
        "withdrawal-dropped-whole",
        5,
        "withdrawal-undone",
        "the supervisor had seen the note",
        note_nowhere,
    ),
    after(
        "root-forked",
        5,
        "trust-root-forked",
        "one of two that began from one commit would undo the other",
        forked,
    ),
)
