"""Promise: the words of `trust` and `approve` refuse in plain words, and what they refuse changes nothing."""

from __future__ import annotations

import json
import os
import shlex
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import main
from orchestrator.core.keys import SigningKey
from orchestrator.trust.ceremony import current, files_below
from orchestrator.trust.gate.asked import pin_of
from orchestrator.trust.proposals import write_plan, write_proposal
from orchestrator.trust.root.make import load, publish
from tests.gate.world import smoke_plan
from tests.unit.trust.test_proposals import ID, approval

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("o1", "o2", "o3", "a1", "a2", "a3", "a4", "c1", "c2", "c3", "s1", "l1", "n1", "n2", "n3")


class Desk:
    """Key files of everybody, an empty clone, and this machine's folders."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.repo, self.capsys = folder, folder / "repo", capsys
        self.approvals = self.repo / "approvals"
        (folder / "keys").mkdir(mode=0o700)
        for name in NAMES:
            SigningKey.create(Path(self.key(name)))

    def key(self, name: str) -> str:
        return str(self.folder / "keys" / name)

    def loaded(self, name: str) -> SigningKey:
        """The key of a person; the supervisor and the ledger have one each."""
        return SigningKey.load(Path(self.key(name if name[1:] else f"{name}1")))

    def keyid(self, name: str) -> str:
        return self.loaded(name).public.keyid

    def said(self, *words: str) -> tuple[int, str]:
        """Runs a command; returns its exit code and all that it printed, in one line."""
        code = main([*words, "--repository", str(self.repo)])
        printed = self.capsys.readouterr()
        return code, " ".join((printed.out + printed.err).split())

    def given(self, *words: str) -> Any:
        """Runs a command that must succeed; returns its document."""
        assert main([*words, "--repository", str(self.repo), "--json"]) == 0
        return json.loads(self.capsys.readouterr().out)

    def refused(self, *words: str) -> tuple[int, str]:
        """Runs a command that must change nothing; returns its exit code and what it printed."""
        before = files_below(self.folder)
        found = self.said(*words)
        assert files_below(self.folder) == before
        return found

    def init_words(self, **changes: tuple[str, ...]) -> list[str]:
        """The words that make a root; an option is given as often as it has values."""
        options = {
            "name": ("example",),
            "named": ("example/memtrial",),
            "owner": tuple(self.key(f"o{n}") for n in (1, 2, 3)),
            "approver": tuple(self.key(f"a{n}") for n in (1, 2, 3)),
            "curator": tuple(self.key(f"c{n}") for n in (1, 2)),
            "supervisor": (self.key("s1"),),
            "ledger": (self.key("l1"),),
            "supervisor-uid": (str(os.geteuid()),),
            "supervisor-prefix": ("/opt/memtrial",),
            "supervisor-state": (str(self.folder / "state"),),
            "system": (str(self.folder / "system"),),
        }
        given = {**options, **{name.replace("_", "-"): value for name, value in changes.items()}}
        words = [
            word for name, values in given.items() for v in values for word in (f"--{name}", v)
        ]
        return ["trust", "init", *words]

    def propose(self, **changes: Any) -> None:
        """Writes a proposal under the root that is there, with its plan beside it."""
        root = pin_of(current(self.approvals, now_s=int(time.time())))
        write_proposal(self.approvals, approval(root=root.model_dump(), **changes))
        write_plan(self.approvals, smoke_plan())

    def publish(self) -> None:
        """Makes a root, and publishes an approval by two approvers and a curator."""
        self.given(*self.init_words())
        self.propose()
        self.given("approve", "sign", ID, "--key", self.key("a1"))
        self.given("approve", "sign", ID, "--key", self.key("a2"), "--curator", self.key("c1"))


@pytest.fixture
def desk(tmp_path, capsys):
    return Desk(tmp_path, capsys)


def withdraw(desk: Desk, reason: str) -> list[str]:
    return ["approve", "withdraw", ID, "--curator", desk.key("c1"), "--reason", reason]


def printed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, verb: str, page: str = "ceremonies"
) -> Any:
    """The words of a command that a page prints, with the key files that it names in the working folder."""
    text = (ROOT / "docs" / "security" / f"{page}.md").read_text(encoding="utf-8")
    block = text[text.index(f"    memtrial {verb}") :].replace("\\\n", " ").splitlines()[0]
    words = shlex.split(block)[1:]
    monkeypatch.chdir(desk.folder)
    for word in words:
        name = word.partition(".")[0]
        if word.endswith(".pub.pem"):
            Path(word).write_bytes(desk.loaded(name).public.pem())
        elif word.endswith(".pem"):
            Path(word).write_bytes(Path(desk.key(name)).read_bytes())
            Path(word).chmod(0o600)
    return words


@pytest.mark.parametrize("reason", ["", "two\nlines", "a\x1b[2J", "x" * 201])
def test_a_reason_that_is_no_line_is_refused_as_an_argument(desk, reason):
    desk.publish()
    code, told = desk.refused(*withdraw(desk, reason))
    assert (code, "1 to 200 printable characters in one line" in told) == (2, True)


def test_what_was_withdrawn_is_shown_and_another_curator_does_not_publish_it_again(desk):
    desk.publish()
    # As a keyboard may give it: letter and dots apart.
    desk.given(*withdraw(desk, "Mu\u0308ller's key is lost"))
    _, told = desk.said("approve", "status")
    assert f"{ID}: withdrawn 2" in told
    assert "Müller's key is lost" in told
    for key in ("--curator", "c2"), ("--key", "a3"):
        code, told = desk.refused("approve", "sign", ID, key[0], desk.key(key[1]))
        assert (code, "approval-withdrawn" in told) == (5, True)
    assert desk.given("approve", "status")["approvals"][0]["published"] is False


def test_a_curators_key_that_is_none_leaves_no_signature_of_the_approver(desk):
    desk.publish()
    desk.propose(approval_id="other")
    for approver, curator, expected in (("a2", "a2", "key of a curator"), ("a2", "c1", "found 1")):
        code, told = desk.refused(
            *("approve", "sign", "other"),
            *("--key", desk.key(approver), "--curator", desk.key(curator)),
        )
        assert (code, expected in told) == (5, True)


def test_a_root_that_expired_is_revived_by_the_command_that_its_refusal_names(desk):
    desk.given(*desk.init_words())
    made = load(desk.approvals / "tuf")
    made.timestamp.expires = datetime.fromtimestamp(time.time() - 1, UTC)
    curator = SigningKey.load(Path(desk.key("c1")))
    publish(desk.approvals / "tuf", made, owners=(), curator=curator, changed=frozenset())
    code, told = desk.refused("trust", "status")
    assert (code, "trust-root-expired" in told) == (5, True)
    assert "memtrial trust refresh --curator FILE" in told
    revived = desk.given("trust", "refresh", "--curator", desk.key("c2"))
    assert (revived["root_version"], revived["expires_s"] > time.time() + 2 * 86_400) == (1, True)
    assert desk.given("trust", "status")["expires_s"] == revived["expires_s"]


def test_owners_renew_what_curators_cannot(desk):
    desk.given(*desk.init_words())
    code, told = desk.refused(
        *("trust", "refresh", "--curator", desk.key("c1"), "--owner", desk.key("o1"))
    )
    assert (code, "2 different owners, found 1" in told) == (5, True)
    owners = ("--owner", desk.key("o1"), "--owner", desk.key("o3"))
    assert desk.said("trust", "refresh", "--curator", desk.key("c1"), *owners)[0] == 0


@pytest.mark.parametrize(
    ("option", "value", "form"),
    [
        ("name", "ORG", "lower-case"),
        ("name", "x" * 65, "lower-case"),
        ("named", "OWNER/REPO", "OWNER/NAME"),
        ("named", "memtrial", "OWNER/NAME"),
        ("named", "a/b/c", "OWNER/NAME"),
        ("branch", "Main", "such as main"),
        ("supervisor-uid", "-3", "from 0 to"),
        ("supervisor-uid", "4294967295", "from 0 to"),
        ("supervisor-uid", "x", "whole number"),
        ("supervisor-prefix", "opt/memtrial", "absolute path"),
        ("supervisor-state", "state", "absolute path"),
    ],
)
def test_what_fits_in_no_document_is_refused_as_an_argument(desk, option, value, form):
    code, told = desk.refused(*desk.init_words(**{option: (value,)}))
    assert (code, f"--{option}" in told, form in told) == (2, True, True)


def test_the_longest_names_make_a_root(desk):
    long = {"name": ("x" * 64,), "named": ("x" * 90 + "/" + "y" * 90,)}
    assert desk.said(*desk.init_words(**long))[0] == 0


def test_a_root_is_not_begun_where_this_machine_has_one(desk):
    (desk.folder / "system").mkdir()
    (desk.folder / "system" / "gate.json").write_bytes(b"{}")
    code, told = desk.refused(*desk.init_words())
    assert (code, "system-folder-not-new" in told) == (2, True)
    (desk.folder / "system" / "gate.json").unlink()
    assert desk.said(*desk.init_words())[0] == 0


def test_the_ceremonys_own_words_make_a_root(desk, monkeypatch):
    """As the page prints them, but for the uid and where this machine's part lies."""
    words = printed(desk, monkeypatch, "trust init")
    ours = {
        "UID": str(os.geteuid()),
        "/var/lib/memtrial": str(desk.folder / "state"),
        "/etc/memtrial": str(desk.folder / "system"),
    }
    assert ours.keys() <= set(words)
    desk.given(*(ours.get(word, word) for word in words))
    assert desk.given("trust", "status")["name"] == "example"


def test_the_ceremonys_own_words_rotate_the_owners_and_status_lists_them(desk, monkeypatch):
    desk.given(*desk.init_words())
    owners = desk.given("trust", "status")["roles"]["owner"]
    assert owners == {"threshold": 2, "keyids": sorted(map(desk.keyid, ("o1", "o2", "o3")))}
    assert desk.given(*printed(desk, monkeypatch, "trust rotate"))["root_version"] == 2
    owners = desk.given("trust", "status")["roles"]["owner"]
    assert owners["keyids"] == sorted(map(desk.keyid, ("n1", "n2", "o3")))
    assert f"owner: 2 of 3: {owners['keyids'][0][:16]}" in desk.said("trust", "status")[1]


def test_who_is_missing_from_a_rotation_is_said(desk):
    desk.given(*desk.init_words())
    words = ["trust", "rotate", "--curator", desk.key("c1")]
    code, told = desk.refused(*words)
    assert (code, "2 different new owners, found 0" in told) == (5, True)
    words += ["--owner", desk.key("n1"), "--owner", desk.key("n2")]
    for old, expected in (("o1", "2 different old owners, found 1"), ("n3", "keys of old owners")):
        code, told = desk.refused(*words, "--old-owner", desk.key(old))
        assert (code, expected in told) == (5, True)
    code, _ = desk.refused(*words, "--old-owner", "nowhere.pem")
    assert code == 2


def test_one_owner_named_twice_makes_no_root(desk):
    owners = (desk.key("o1"), desk.key("o1"), desk.key("o2"))
    code, told = desk.refused(*desk.init_words(owner=owners))
    assert (code, "owner-twice" in told) == (2, True)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--id", "Smoke 1"), ("--max-input-tokens", "0"), ("--max-output-tokens", str(10**13 + 1))],
)
def test_what_no_approval_can_say_is_no_argument_of_a_proposal(desk, option, value):
    words = {"--id": "one", "--max-input-tokens": "1", "--max-output-tokens": str(10**13)}
    given = [word for pair in {**words, option: value}.items() for word in pair]
    code, told = desk.refused("approve", "propose", "none.json", "--commit", "a" * 40, *given)
    assert (code, f"{option}: expected" in told) == (2, True)
    # Without it, what is missing is the plan.
    given = [word for pair in words.items() for word in pair]
    _, told = desk.refused("approve", "propose", "none.json", "--commit", "a" * 40, *given)
    assert "none.json" in told


def test_a_lost_approver_is_replaced_as_the_page_says(desk, monkeypatch):
    desk.publish()
    made = desk.given(*printed(desk, monkeypatch, "trust roles --approver", "lost-key"))
    assert made["root_version"] == 1
    roles = desk.given("trust", "status")["roles"]
    assert roles["approver"]["keyids"] == sorted(map(desk.keyid, ("a2", "a3", "a4")))
    # The one that is gone had signed this.
    assert "NOT TO BE SIGNED OR RELIED ON, signer-not-in-role" in desk.said("approve", "status")[1]


def test_a_lost_curator_is_replaced_as_the_page_says_and_may_do_nothing_more(desk, monkeypatch):
    desk.publish()
    words = printed(desk, monkeypatch, "trust roles --new-curator", "lost-key")
    code, told = desk.said(*words)
    assert (code, "root version 2" in told) == (0, True)
    assert "must be proposed and signed again" in told
    code, told = desk.refused(*withdraw(desk, "mine"))
    assert (code, "key of a curator" in told) == (5, True)
    desk.given("approve", "withdraw", ID, "--curator", desk.key("c3"), "--reason", "ours")


@pytest.mark.parametrize("role", ["supervisor", "ledger"])
def test_a_lost_key_of_a_service_is_replaced_as_the_page_says(desk, monkeypatch, role):
    desk.given(*desk.init_words())
    code, told = desk.said(*printed(desk, monkeypatch, f"trust roles --{role}", "lost-key"))
    assert (code, f"{role}: {desk.keyid('n1')}" in told) == (0, True)
    assert ("gate.json" in told) is (role == "supervisor")
    assert desk.given("trust", "status")["roles"][role]["keyids"] == [desk.keyid("n1")]


def test_roles_without_a_key_are_asked_for(desk):
    desk.given(*desk.init_words())
    words = ("trust", "roles", "--curator", desk.key("c1"))
    code, told = desk.refused(*words)
    assert (code, "--approver, --new-curator, --supervisor, --ledger" in told) == (2, True)
