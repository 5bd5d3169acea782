"""Attacks on the supervisor, its answer and the nonce book: steps 12, 13 and 15."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from orchestrator.model.approval import APPROVAL_TYPE
from orchestrator.trust.gate.machine import MANIFEST, NONCES
from orchestrator.trust.nonces import BOOK, HEAD, NonceBook, Use
from tests.gate.attacks_fields import OTHER, put
from tests.gate.attacks_host import access_list, linked
from tests.gate.catalogue import Attack, after, before, in_turn
from tests.gate.world import World
from tests.unit.trust.support import APPROVERS, key


def program(world: World):
    return world.prefix / "lib" / "supervisor.py"


def linked_outside(world: World) -> None:
    program(world).rename(world.folder / "elsewhere.py")
    program(world).symlink_to(world.folder / "elsewhere.py")


def answer(**changes: Any) -> Callable[[World], None]:
    return lambda world: world.answer.update(changes)


def answered_by(*keys: Any) -> Callable[[World], None]:
    return lambda world: setattr(world, "answer_keys", keys)


def book(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[World], None]:
    def attack(world: World) -> None:
        path = world.state / NONCES / BOOK
        path.write_bytes(b"".join(x + b"\n" for x in change(path.read_bytes().splitlines())))

    return attack


def use(nonce: str, *, seconds: int = -500, run_id: str = "another-run") -> Callable[[World], None]:
    def attack(world: World) -> None:
        made = Use(nonce, "a" * 64, "b" * 64, run_id)
        NonceBook(world.state / NONCES).reserve(made, now_s=world.ingredients.now_s + seconds)

    return attack


def deleted(world: World) -> None:
    (world.state / NONCES / BOOK).unlink()


def reset(world: World) -> None:
    """Book and head are both gone: only the approval remembers that there was one."""
    for name in (BOOK, HEAD):
        (world.state / NONCES / name).unlink()


def rewritten(world: World) -> None:
    """A book of the same length with other uses, whole in itself."""
    reset(world)
    for number in range(3):
        use(f"{number + 50:064x}", seconds=-900, run_id=f"other-{number}")(world)


def torn(world: World) -> None:
    with (world.state / NONCES / BOOK).open("ab") as stream:
        stream.write(b'{"at_s"')


def editable(world: World) -> None:
    (world.prefix / "lib" / "__editable__.memtrial.pth").write_text("/home\n")


CHANGED = "another program would hold the provider's keys"
ANSWER = "an answer to one question is no answer to another"
USED = "an approval is used once"

ATTACKS: tuple[Attack, ...] = (
    before(
        "other-manifest-approved",
        12,
        "manifest-not-the-approved-one",
        CHANGED,
        put("supervisor", "manifest_sha256", OTHER),
    ),
    after(
        "manifest-edited",
        12,
        "manifest-not-the-approved-one",
        CHANGED,
        lambda w: (w.system / MANIFEST).write_bytes(b"{}"),
    ),
    after("manifest-linked", 12, "link-on-the-way", CHANGED, lambda w: linked(w.system / MANIFEST)),
    after(
        "supervisor-edited",
        12,
        "supervisor-changed",
        CHANGED,
        lambda w: program(w).write_bytes(b"print('evil')\n"),
    ),
    after(
        "supervisor-bit-flipped",
        12,
        "supervisor-changed",
        CHANGED,
        lambda w: program(w).write_bytes(
            bytes([program(w).read_bytes()[0] ^ 1]) + program(w).read_bytes()[1:]
        ),
    ),
    after(
        "supervisor-file-more",
        12,
        "supervisor-changed",
        "Python would import it",
        lambda w: (w.prefix / "lib" / "sitecustomize.py").write_bytes(b""),
    ),
    after(
        "supervisor-file-missing",
        12,
        "supervisor-changed",
        CHANGED,
        lambda w: (w.prefix / "interpreter").unlink(),
    ),
    after("supervisor-linked", 12, "link-in-prefix", CHANGED, linked_outside),
    after(
        "supervisor-hard-linked",
        12,
        "file-has-other-names",
        CHANGED,
        lambda w: (w.folder / "other").hardlink_to(program(w)),
    ),
    after(
        "supervisor-writable",
        12,
        "file-writable-by-others",
        CHANGED,
        lambda w: program(w).chmod(0o664),
    ),
    after(
        "supervisor-set-id",
        12,
        "file-set-id",
        CHANGED,
        lambda w: (w.prefix / "interpreter").chmod(0o4755),
    ),
    after(
        "supervisor-with-access-list",
        12,
        "file-has-access-list",
        CHANGED,
        in_turn(lambda w: access_list(program(w)), lambda w: program(w).chmod(0o644)),
    ),
    after(
        "supervisor-is-a-pipe",
        12,
        "file-not-regular",
        "reading it would wait for ever",
        in_turn(lambda w: program(w).unlink(), lambda w: os.mkfifo(program(w))),
    ),
    after(
        "prefix-open",
        12,
        "folder-writable-by-others",
        CHANGED,
        lambda w: (w.prefix / "lib").chmod(0o777),
    ),
    after(
        "editable-install",
        12,
        "editable-install",
        "code would come from where others write",
        editable,
    ),
    before(
        "supervisor-of-another-name",
        13,
        "another-supervisor",
        "it was approved for another machine",
        put("supervisor", "identity", "supervisor-two"),
    ),
    before(
        "supervisor-of-another-uid",
        13,
        "another-supervisor",
        "another user would hold the keys",
        put("supervisor", "uid", os.geteuid() + 1),
    ),
    before(
        "supervisor-key-unknown",
        13,
        "supervisor-key-unknown",
        "nobody vouches for it",
        put("supervisor", "keyid", OTHER),
    ),
    after(
        "answer-by-an-approver",
        13,
        "signer-not-in-role",
        "an approver is no supervisor",
        answered_by(APPROVERS[0]),
    ),
    after(
        "answer-by-a-stranger",
        13,
        "signer-not-in-role",
        "nobody vouches for it",
        answered_by(key("stranger")),
    ),
    after(
        "answer-of-another-type",
        13,
        "payload-type-not-expected",
        "a signature made for something else",
        lambda w: setattr(w, "answer_type", APPROVAL_TYPE),
    ),
    *(
        after(
            f"answer-with-other-{name.replace('_', '-')}",
            13,
            "answer-to-another-question",
            ANSWER,
            answer(**{name: OTHER}),
        )
        for name in ("challenge", "approval_sha256", "plan_sha256", "manifest_sha256")
    ),
    after(
        "answer-with-other-identity",
        13,
        "answer-to-another-question",
        ANSWER,
        answer(identity="supervisor-two"),
    ),
    after(
        "answer-with-other-uid",
        13,
        "answer-to-another-question",
        ANSWER,
        answer(uid=os.geteuid() + 1),
    ),
    after(
        "answer-stale",
        13,
        "answer-stale",
        "it may have been kept from earlier",
        lambda w: w.answer.update(answered_s=w.ingredients.now_s - 2),
    ),
    after(
        "answer-from-the-future",
        13,
        "answer-stale",
        "the clocks differ",
        lambda w: w.answer.update(answered_s=w.ingredients.now_s + 2),
    ),
    after(
        "answer-with-unknown-field",
        13,
        "answer-invalid",
        "a field that nobody checks",
        answer(note="x"),
    ),
    after(
        "answer-with-bool-uid", 13, "answer-invalid", "readers disagree about it", answer(uid=True)
    ),
    after("nonce-used", 15, "nonce-used", USED, use("f" * 64)),
    after(
        "clock-before-the-last-use",
        15,
        "clock-set-back",
        "an expired approval would hold again",
        use("e" * 64, seconds=600),
    ),
    before(
        "ledger-of-another-origin",
        15,
        "ledger-of-another-origin",
        "the uses were counted elsewhere",
        put("ledger", "origin", "other/approvals"),
    ),
    before(
        "ledger-with-another-root",
        15,
        "ledger-not-the-approved-one",
        "the signers saw other uses",
        put("ledger", "root_sha256", OTHER),
    ),
    before(
        "ledger-longer-than-it-is",
        15,
        "ledger-shorter",
        "uses were taken out",
        put("ledger", "size", 4),
    ),
    after(
        "book-cut",
        15,
        "nonce-book-broken",
        "the last use would be forgotten",
        book(lambda lines: lines[:-1]),
    ),
    after(
        "book-reordered",
        15,
        "nonce-book-broken",
        "it was written by somebody else",
        book(lambda lines: [lines[1], lines[0], lines[2]]),
    ),
    after(
        "book-line-changed",
        15,
        "nonce-book-broken",
        "a use would be another's",
        book(lambda lines: [lines[0], lines[1].replace(b"old-1", b"old-9"), lines[2]]),
    ),
    after(
        "book-emptied",
        15,
        "nonce-book-broken",
        "every approval could be used again",
        book(lambda lines: []),
    ),
    after("book-torn", 15, "nonce-book-broken", "somebody must look", torn),
    after("book-deleted", 15, "nonce-book-broken", "every approval could be used again", deleted),
    after(
        "book-and-head-deleted", 15, "ledger-shorter", "every approval could be used again", reset
    ),
    after(
        "book-rewritten",
        15,
        "ledger-not-the-approved-one",
        "every approval could be used again",
        rewritten,
    ),
    after(
        "book-open-to-others",
        15,
        "nonce-book-broken",
        "others could write uses",
        lambda w: (w.state / NONCES / BOOK).chmod(0o644),
    ),
    after(
        "book-linked",
        15,
        "nonce-book-broken",
        "it would be kept elsewhere",
        lambda w: linked(w.state / NONCES / BOOK),
    ),
)
