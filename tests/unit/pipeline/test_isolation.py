"""Promise: a breach of isolation ends an attempt by who caused it, with evidence and without the literal."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from orchestrator.core.errors import DocumentError
from orchestrator.core.gittree import FileEntry
from orchestrator.ledger.blobs import BlobStore
from orchestrator.ledger.chain import read_entries
from orchestrator.ledger.history import replay
from orchestrator.model.isolation import (
    Additions,
    FileSeen,
    Finding,
    Isolation,
    MountSeen,
    ProcessSeen,
    Screening,
    Variable,
)
from orchestrator.model.outcome import Outcome
from orchestrator.model.record import Stage
from orchestrator.pipeline.guards import HOST_CANARY, host_canary
from orchestrator.pipeline.isolation import judge_image, marked, screen
from orchestrator.protocols import Launch
from orchestrator.sandbox.declared import compare, declare
from orchestrator.sandbox.leaks.layers import LayersKnown, listing_sha256
from orchestrator.sandbox.leaks.literals import (
    canary,
    canary_literal,
    check_task,
    host_path_literals,
    oracle_literals,
)
from orchestrator.sandbox.leaks.scanner import Literal, Scanner
from orchestrator.sources.loader import load_task
from tests.fakes.sandbox import ARM, FakeSandbox, clean_inventory, guard_over

ONE = {"tasks": ("depotfeed-returns",)}
FILE = FileSeen(path="/home/agent/.notes", kind="file", bytes=3, sha256="a" * 64)


@pytest.fixture
def pin(make_plan):
    return make_plan(**ONE).tasks[0]


def the_end(run):
    record = replay(read_entries(run.folder / "ledger.jsonl")[0])
    ((trial,),) = [t.attempts for t in record.trials.values()]
    return trial


def document(run, kind, stage):
    blobs = BlobStore(run.folder / "blobs")
    return kind.parse(blobs.get(the_end(run).stages[stage].document_sha256), where=stage.value)


def test_a_container_as_declared_has_no_difference(pin):
    assert compare(declare(pin, ARM, listing_sha256([])), clean_inventory(pin)) == ()


BREACHES: dict[str, dict[str, Any]] = {
    "a file in HOME": {"files": (FILE,)},
    "a device": {"files": (FILE.model_copy(update={"path": "/dev/sda", "kind": "device"}),)},
    "more files than are listed": {"files_cut": True},
    "another image file": {"listing_sha256": "b" * 64},
    "another tree": {"work_tree": "c" * 40},
    "an interface": {"interfaces": ("eth0", "lo")},
    "root": {"uid": 0},
    "a capability": {"capabilities_effective": "0000000000000400"},
    "a telling hostname": {"hostname": "depotfeed-returns"},
}


@pytest.mark.parametrize("breach", BREACHES)
def test_each_breach_is_a_difference(pin, breach):
    found = clean_inventory(pin).model_copy(update=BREACHES[breach])
    assert len(compare(declare(pin, ARM, listing_sha256([])), found)) == 1


def test_variables_mounts_processes_and_descriptors_must_equal_the_declaration(pin):
    clean = clean_inventory(pin)
    declared = declare(pin, ARM, listing_sha256([]))
    agent = clean.processes[1]

    def kinds(**update):
        return [(d.what, d.how) for d in compare(declared, clean.model_copy(update=update))]

    more = Variable(name="CONDITION", value="raw_fts")
    assert kinds(environment=(*clean.environment, more)) == [("environment", "undeclared")]
    assert kinds(environment=clean.environment[1:]) == [("environment", "missing")]
    bind = MountSeen(point="/mnt/results", fs_type="ext4", writable=False)
    assert kinds(mounts=(*clean.mounts, bind)) == [("mount", "undeclared")]
    over = MountSeen(point="/home/agent", fs_type="tmpfs", writable=True)
    assert kinds(mounts=(*clean.mounts, over)) == [("mount", "undeclared")]
    rw = clean.mounts[0].model_copy(update={"writable": True})
    assert kinds(mounts=(rw, *clean.mounts[1:])) == [("mount", "different")]
    other = ProcessSeen(command=("sh", "-c", "sleep 9"), descriptors=())
    assert kinds(processes=(*clean.processes, other)) == [("process", "undeclared")]
    opened = agent.model_copy(update={"descriptors": (*agent.descriptors, "3:/etc/shadow")})
    assert kinds(processes=(clean.processes[0], opened)) == [("descriptor", "different")]


def test_what_an_arm_declares_must_be_there_and_may_be(pin):
    arm = ARM.model_copy(update={"adds": Additions(files=(FILE,))})
    declared = declare(pin, arm, listing_sha256([]))
    clean = clean_inventory(pin)
    assert [d.how for d in compare(declared, clean)] == ["missing"]
    assert compare(declared, clean.model_copy(update={"files": (FILE,)})) == ()


def test_an_undeclared_file_makes_the_trial_inadmissible_with_its_name(make_plan, run_with):
    plan = make_plan(**ONE)
    found = clean_inventory(plan.tasks[0]).model_copy(update={"files": (FILE,)})
    run = run_with(plan, FakeSandbox(inventory=found))
    assert the_end(run).ended.outcome is Outcome.INADMISSIBLE
    assert Stage.ACT not in the_end(run).stages
    proof = document(run, Isolation, Stage.ISOLATE)
    assert [d.subject for d in proof.differences] == ["/home/agent/.notes"]
    evidence = BlobStore(run.folder / "blobs").get(the_end(run).ended.evidence.sha256)
    assert b"/home/agent/.notes" in evidence


def test_a_foreign_canary_in_the_transcript_is_misconduct_and_its_own_is_not(make_plan, run_with):
    plan = make_plan(**ONE)
    own, foreign = canary("test", plan.trials[0].key), canary("test", "another/trial")
    run = run_with(plan, FakeSandbox(output=b"env: " + own + b" " + base64.b64encode(own)))
    assert the_end(run).ended.outcome is Outcome.COMPLETED
    run = run_with(plan, FakeSandbox(output=own + b" and " + base64.b64encode(b"x" + foreign)))
    assert the_end(run).ended.outcome is Outcome.MISCONDUCT
    screening = document(run, Screening, Stage.SCREEN)
    (finding,) = screening.findings
    assert (finding.literal_kind, finding.place, finding.encoding, finding.caused_by) == (
        "canary",
        "transcript",
        "base64+1",
        "agent",
    )
    assert foreign not in screening.canonical()
    assert foreign[-32:] not in screening.canonical()


def test_what_the_harness_gave_is_not_the_agents_fault():
    secret = Literal(
        "hidden", b"    assert quota('blue', 17) == {'left': 12345}  # as agreed", True
    )
    given = Launch(argv=("agent",), environment=(), stdin=b"prompt " + secret.data)
    found = screen(
        guard=guard_over((secret,)),
        trial="t",
        launch=given,
        output=secret.data,
        diff=b"",
        harvest=b"{}",
    )
    assert [finding.caused_by for finding in found.findings] == ["harness"]


def test_facts_and_reference_may_stand_in_transcript_and_diff():
    fact = Literal("fact", b"A shared key begins with the account's name and a colon.", True)
    line = Literal(
        "reference", b"return Return(code, count, reason.strip(), who, when, what)", True
    )
    found = screen(
        guard=guard_over((fact, line)),
        trial="t",
        launch=Launch(("a",), (), b""),
        output=fact.data + line.data,
        diff=b"",
        harvest=b"{}",
    )
    assert found.findings == ()


def test_a_canary_travels_in_the_payload_environment_and_nowhere_else():
    launch = marked(Launch(("agent",), (("A", "b"),), b"in"), b"memtrial-mark-00")
    assert launch.environment == (("A", "b"), ("MEMTRIAL_MARK", "memtrial-mark-00"))
    assert (launch.argv, launch.stdin) == (("agent",), b"in")


def test_the_hosts_canary_lies_in_the_runs_folder_and_stays_the_same(tmp_path):
    first = host_canary(tmp_path)
    assert host_canary(tmp_path) == first == (tmp_path / HOST_CANARY).read_text().strip()
    assert [hit.literal.kind for hit in Scanner([canary_literal()]).scan(first.encode(), "x").hits] == ["canary"]  # fmt: skip


def test_a_weak_literal_of_the_distribution_is_common_and_a_strong_one_a_leak():
    weak, strong = Literal("reference", b"@dataclass(frozen=True)", False), Literal("hidden", b"x" * 70, True)  # fmt: skip
    in_tree = Literal("reference", b"y" * 70, True)

    def finding(literal, place):
        return Finding(
            literal_kind=literal.kind,
            literal_sha256=literal.sha256,
            place=place,
            encoding="plain",
            offset=0,
            caused_by="harness",
        )

    known = LayersKnown(
        (
            finding(weak, "layer a: /usr/lib/x.py"),
            finding(strong, "layer a: /usr/lib/y.py"),
            finding(in_tree, "layer b: /opt/memtrial/checkout/.git/objects/00/11"),
            finding(in_tree, "layer b: /opt/memtrial/checkout/src/a.py"),
        ),
        {},
    )
    image = judge_image((weak, strong, in_tree), known)
    assert [f.literal_sha256 for f in image.leaks] == [strong.sha256]
    assert image.common == {weak.sha256, in_tree.sha256}


def test_short_and_containers_own_paths_are_no_literals():
    from pathlib import Path

    paths = ["/root", "/work/main/results", "/home/someone/memtrial/results", "/home/agent/x/y/z"]
    assert [p.data for p in host_path_literals(map(Path, paths))] == [
        b"/home/someone/memtrial/results"
    ]


@pytest.mark.parametrize("task_id", ["cachetools-account-key", "depotfeed-returns", "humanize-transfer-eta"])  # fmt: skip
def test_each_shipped_task_has_strong_literals_of_its_hidden_tests(fixtures, task_id):
    task = load_task(fixtures, task_id)
    literals = oracle_literals(task.key, task.rehearsal)
    assert sum(literal.strong and literal.kind == "hidden" for literal in literals) >= 3
    assert {literal.kind for literal in literals} == {"hidden", "fact", "reference"}


def test_a_task_whose_own_files_would_trip_the_scan_is_refused_by_file(fixtures):
    task = load_task(fixtures, "depotfeed-returns")
    parts: dict[str, Any] = {"key": task.key, "rehearsal": task.rehearsal, "brief": task.brief, "history": task.history}  # fmt: skip
    hidden = base64.b64encode(task.key.hidden_files[0].text.encode())
    check_task([FileEntry("docs/a.md", "100644", b"plain words")], **parts)
    with pytest.raises(DocumentError, match=r"checkout file docs/b\.bin") as caught:
        check_task([FileEntry("docs/b.bin", "100644", hidden)], **parts)
    assert caught.value.reference == "task-trips-scan"
    fact = task.key.card.gold_facts[0].statement
    told = task.brief.model_copy(update={"prompt": f"{task.brief.prompt}\n{fact}"})
    with pytest.raises(DocumentError, match=r"brief\.json"):
        check_task([], **{**parts, "brief": told})


@pytest.mark.parametrize("kind", ["fact", "hidden"])
def test_a_history_may_tell_the_facts_and_no_hidden_test(fixtures, kind):
    task = load_task(fixtures, "depotfeed-returns")
    told = next(
        literal.data.decode()
        for literal in oracle_literals(task.key, task.rehearsal)
        if literal.strong and literal.kind == kind
    )
    episode = task.history.episodes[0]
    event = episode.events[0].model_copy(update={"text": told})
    first = episode.model_copy(update={"events": (event, *episode.events[1:])})
    history = task.history.model_copy(update={"episodes": (first, *task.history.episodes[1:])})
    parts: dict[str, Any] = {"key": task.key, "rehearsal": task.rehearsal, "brief": task.brief, "history": history}  # fmt: skip
    if kind == "fact":
        check_task([], **parts)
    else:
        with pytest.raises(DocumentError, match=r"history\.json"):
            check_task([], **parts)


def test_a_hidden_test_without_telling_text_is_refused(fixtures):
    task = load_task(fixtures, "depotfeed-returns")
    bare = task.key.hidden_files[0].model_copy(
        update={"text": "import x\ndef test():\n    x.y()\n"}
    )
    key = task.key.model_copy(update={"hidden_files": (bare,)})
    with pytest.raises(DocumentError, match="cannot occur by chance"):
        check_task([], key=key, rehearsal=task.rehearsal, brief=task.brief, history=task.history)
