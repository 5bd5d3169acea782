"""The sixty kinds of hostile input that the gate was designed against, each with the cases that show it.

A case is named without its number; `*` at the end stands for every case that begins so. A kind that no directory
can hold, because it is a race or needs a mount, names a test instead, as a path and a function. A kind that
neither shows says what meets it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: what is done, the cases that do it, tests of what no case can do, and what meets what none shows."""

    what: str
    cases: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    met_by: str = ""


TRUSTED = "tests/unit/trust/test_trusted.py"
REPOSITORY = "tests/unit/trust/test_repository.py"
NONCES = "tests/unit/trust/test_nonces.py"

KINDS: dict[int, Kind] = {
    1: Kind("a link in place of the trust root", ("first-root-linked", "configuration-linked")),
    2: Kind("a linked folder on the way", ("system-folder-linked", "worktree-folder-linked")),
    3: Kind(
        "an approval with a second name",
        ("approval-hard-linked", "worktree-file-hard-linked", "first-root-hard-linked"),
    ),
    4: Kind(
        "a pipe, a socket, a device or a folder in place of a file",
        ("first-root-is-a-*", "supervisor-is-a-pipe", "head-is-a-pipe", "packed-refs-is-a-pipe"),
        (f"{TRUSTED}::test_a_device_is_no_file",),
    ),
    5: Kind("a folder that all can write", ("system-folder-open", "system-folder-sticky")),
    6: Kind("a folder of another user", ("system-folder-given-away",)),
    7: Kind("a supervisor that its group can write", ("supervisor-writable",)),
    8: Kind(
        "an access list behind the mask",
        ("supervisor-with-access-list", "first-root-with-access-list"),
    ),
    9: Kind("a set-id supervisor", ("supervisor-set-id", "first-root-set-id")),
    10: Kind("a file capability", ("supervisor-with-capability", "first-root-with-capability")),
    11: Kind(
        "a mount over the supervisor", (), (f"{TRUSTED}::test_a_mount_over_the_file_is_refused",)
    ),
    12: Kind(
        "another program between its hash and its start",
        met_by="the prefix is root's alone to write (prefix-open), and what was changed before the hash is not in "
        "the manifest (supervisor-edited); nothing shows a change in between, which only root can make",
    ),
    13: Kind(
        "a file that changes while it is read",
        (),
        (f"{TRUSTED}::test_a_file_that_changes_while_it_is_read_is_refused",),
    ),
    14: Kind("inside a user namespace", ("user-namespace", "mapped-uids")),
    15: Kind("a detached HEAD", ("head-detached",)),
    16: Kind("a tag named main, or another branch", ("head-at-a-tag-named-main", "other-branch")),
    17: Kind("origin behind or ahead", ("origin-behind", "origin-ahead")),
    18: Kind("origin as a symbolic ref", ("origin-symbolic", "origin-linked")),
    19: Kind("a replace ref, loose and packed", ("replace-ref", "replace-ref-packed")),
    20: Kind("replace --graft", ("replace-by-graft",)),
    21: Kind("grafts", ("grafts",)),
    22: Kind(
        "a forged commit graph",
        ("commit-in-a-forged-graph",),
        (f"{REPOSITORY}::test_a_forged_commit_graph_fools_git_and_not_the_gate",),
    ),
    23: Kind(
        "a shallow or partial clone",
        ("shallow", "setting-extensions-partialclone", "setting-remote-origin-promisor"),
    ),
    24: Kind("alternates", ("alternates", "http-alternates")),
    25: Kind("foreign content at an object's place", ("object-overwritten",)),
    26: Kind("assume-unchanged and an edit", ("assume-unchanged",)),
    27: Kind("skip-worktree and an edit", ("skip-worktree",)),
    28: Kind("a clean filter", ("clean-filter", "setting-filter-x-clean")),
    29: Kind(
        "git's variables",
        ("variable-git-dir", "variable-git-object-directory", "variable-git-config-count"),
    ),
    30: Kind(
        "another git on the way",
        ("variable-git-python-git-executable",),
        (
            f"{REPOSITORY}::test_neither_a_tag_named_main_nor_the_callers_environment_changes_anything",
        ),
    ),
    31: Kind(
        "settings that run something",
        ("setting-core-fsmonitor", "setting-core-hookspath", "setting-include*"),
    ),
    32: Kind(
        "an approval that is a link, a submodule, or one of two names that differ in case",
        ("tracked-link", "tracked-gitlink", "names-differ-in-case"),
    ),
    33: Kind(
        "the approved commit as a name, short, in capitals, or in no history",
        ("commit-as-a-name", "commit-short", "commit-in-capitals", "commit-in-no-history"),
    ),
    34: Kind("one signature of two", ("one-signature-of-two",)),
    35: Kind("one signature twice", ("same-signer-twice",)),
    36: Kind("one key under two names", ("approver-under-two-names", "owner-under-two-names")),
    37: Kind("another key of the same signer", ("approver-and-alias", "owner-and-alias")),
    38: Kind(
        "keys of small order, 14 encodings", ("approver-small-order-*", "owner-small-order-*")
    ),
    39: Kind(
        "signatures that are malleated, short, long or empty",
        ("signature-malleated", "signature-short", "signature-long", "signature-empty"),
    ),
    40: Kind(
        "a key in two roles, or the supervisor's on an approval",
        ("supervisor-is-approver", "approver-and-supervisor"),
    ),
    41: Kind(
        "the payload under another type",
        ("withdrawal-type", "local-type", "answer-type", "type-changed-after-signing"),
    ),
    42: Kind(
        "base64 that is url-safe, unpadded or spaced",
        ("base64-url-safe", "base64-unpadded", "base64-white-space"),
    ),
    43: Kind("a key twice, plain and escaped", ("duplicate-key", "duplicate-key-by-escape")),
    44: Kind(
        "numbers that readers disagree about",
        (
            *("not-a-number", "fraction", "exponent", "minus-zero", "past-2-to-the-53"),
            *("5000-digits", "bool-as-number"),
        ),
    ),
    45: Kind(
        "texts that readers disagree about",
        (
            *("byte-order-mark", "utf-16", "overlong-utf-8", "lone-surrogate", "decomposed"),
            *("right-to-left", "nul"),
        ),
    ),
    46: Kind("other order or spacing", ("order-of-keys", "white-space", "line-end")),
    47: Kind("depth 100,000 and megabytes of text", ("depth-100000", "large")),
    48: Kind("an unknown field", ("unknown-field", "roles-with-unknown-field")),
    49: Kind(
        "a window that is not now, too long or before 1970",
        ("not-yet-valid", "expired", "window-of-15-days", "window-before-1970"),
    ),
    50: Kind(
        "a clock behind the book, HEAD or the trust root",
        ("clock-before-the-last-use", "clock-before-head", "clock-before-the-root-was-seen"),
    ),
    51: Kind(
        "the approval of another plan, phase, namespace or repository",
        ("other-plan", "plan-of-another-phase", "plan-of-another-namespace", "other-repository"),
    ),
    52: Kind("a nonce that was used", ("nonce-used", "run-of-another-approval")),
    53: Kind(
        "two processes at once",
        (),
        (f"{NONCES}::test_of_four_hundred_racing_reservations_of_ten_nonces_exactly_ten_win",),
    ),
    54: Kind(
        "a book that was cut, reordered, torn or deleted",
        ("book-cut", "book-reordered", "book-torn", "book-deleted"),
    ),
    55: Kind(
        "a trust root rolled back, frozen, mixed, or without its delegation",
        ("rolled-back", "frozen", "mix-and-match", "delegation-missing"),
    ),
    56: Kind(
        "a root rotated by new keys or old keys alone",
        ("root-by-new-owners-only", "root-by-old-owners-only"),
    ),
    57: Kind("a key twice in the first root", ("first-root-with-duplicate-key",)),
    58: Kind(
        "an approval that was withdrawn",
        (
            *("approval-withdrawn", "withdrawn-approval-listed-again", "withdrawal-dropped"),
            *("withdrawal-and-its-metadata-dropped", "withdrawal-dropped-whole", "root-forked"),
        ),
    ),
    59: Kind(
        "another image, wheel or curator's manifest",
        (
            *("present-images", "present-installed-manifest-sha256"),
            "present-curator-manifest-sha256",
        ),
    ),
    60: Kind(
        "the answer to another approval, or of another time",
        ("answer-with-other-approval-sha256", "answer-stale", "answer-from-the-future"),
    ),
}
