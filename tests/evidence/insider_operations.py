"""What an insider does to a record so that another result comes out; everything derived is then made again."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.places import fixtures_root
from orchestrator.ledger.blobs import BlobStore
from orchestrator.model.memory import Injection
from orchestrator.model.plan import Trial
from orchestrator.model.verdict import Harvest, Violation
from orchestrator.pipeline.condemned import condemned
from orchestrator.sources.loader import load_task

Entries = list[dict[str, Any]]
Change = Callable[[Entries, BlobStore], None]

SEALED = {
    "prepared_sha256": "prepare",
    "remembered_sha256": "remember",
    "injection_sha256": "inject",
    "isolation_sha256": "isolate",
    "acted_sha256": "act",
    "harvest_sha256": "harvest",
    "screening_sha256": "screen",
    "verdict_sha256": "grade",
}


def trials_of(entries: Entries, part: str = "") -> list[str]:
    """Returns the trials that were begun, in order, whose key holds a text."""
    keys = dict.fromkeys(e["body"]["trial"] for e in entries if "trial" in e["body"])
    return [key for key in keys if part in key]


def of_trial(entries: Entries, trial: str) -> Entries:
    return [e for e in entries if e["body"].get("trial") == trial]


def stage_of(entries: Entries, trial: str, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        e["body"] for e in of_trial(entries, trial) if e["body"].get("stage") == stage
    )
    return found


def end_of(entries: Entries, trial: str) -> dict[str, Any]:
    found: dict[str, Any] = of_trial(entries, trial)[-1]["body"]
    return found


def document(blobs: BlobStore, body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(blobs.get(body["document_sha256"]))
    return found


def put(blobs: BlobStore, body: dict[str, Any], value: dict[str, Any]) -> None:
    body["document_sha256"] = blobs.put(canonical_bytes(value))


def keep(blobs: BlobStore, body: dict[str, Any], name: str, data: bytes) -> None:
    """Puts other bytes under the name of an artifact."""
    artifact = next(a for a in body["artifacts"] if a["name"] == name)
    artifact |= {"sha256": blobs.put(data), "bytes": len(data)}


def rebind(entries: Entries, blobs: BlobStore, trial: str) -> None:
    """Makes seal and end of a trial fit its present documents."""
    sealed = stage_of(entries, trial, "seal")
    value = document(blobs, sealed)
    for field, stage in SEALED.items():
        value[field] = stage_of(entries, trial, stage)["document_sha256"]
    put(blobs, sealed, value)
    end_of(entries, trial)["verdict_sha256"] = value["verdict_sha256"]


def remove(entries: Entries, gone: Entries) -> None:
    marked = {id(entry) for entry in gone}
    entries[:] = [entry for entry in entries if id(entry) not in marked]


def fail(end: dict[str, Any], outcome: str = "infra_error", reference: str = "engine-lost") -> None:
    end.update(outcome=outcome, verdict_sha256=None, error="lost", error_reference=reference)


def throw_away(entries: Entries, _: BlobStore) -> None:
    """A graded attempt is said to have broken, and the trial to have been run again."""
    trial = trials_of(entries)[0]
    first = of_trial(entries, trial)
    again = deepcopy(first)
    for entry in again:
        entry["body"]["attempt"] = 2
    fail(first[-1]["body"])
    place = entries.index(first[-1]) + 1
    entries[place:place] = again


def try_on(entries: Entries, _: BlobStore) -> None:
    """More attempts in one process than the plan's policy gives."""
    trial = trials_of(entries)[0]
    first = of_trial(entries, trial)
    place, made = entries.index(first[0]), []
    for number in range(1, 4):
        begun, ended = deepcopy(first[0]), deepcopy(first[-1])
        for entry in (begun, ended):
            entry["body"]["attempt"] = number
        fail(ended["body"])
        made += [begun, ended]
    for entry in first:
        entry["body"]["attempt"] = 4
    entries[place:place] = made


def try_after_cap(entries: Entries, _: BlobStore) -> None:
    """A second attempt in one process after an end that the policy does not try again."""
    trial = trials_of(entries)[0]
    first = of_trial(entries, trial)
    begun, ended = deepcopy(first[0]), deepcopy(first[-1])
    fail(ended["body"], "cancelled", "trial-interrupted")
    for entry in first:
        entry["body"]["attempt"] = 2
    place = entries.index(first[0])
    entries[place:place] = [begun, ended]


def drop_graded(entries: Entries, _: BlobStore) -> None:
    """A task is dropped as inadmissible although its trials were graded."""
    for trial in trials_of(entries, "humanize"):
        fail(end_of(entries, trial), "inadmissible", "leak-before-act")


def drop_clean(entries: Entries, blobs: BlobStore) -> None:
    """A trial is said to have been inadmissible after its isolation, which found nothing."""
    trial = trials_of(entries, "humanize")[0]
    late = {"act", "harvest", "screen", "grade", "seal"}
    remove(entries, [e for e in of_trial(entries, trial) if e["body"].get("stage") in late])
    end = end_of(entries, trial)
    fail(end, "inadmissible", "leak-before-act")
    end["evidence"] = {"name": "evidence", "sha256": blobs.put(b"seen\n"), "bytes": 5}


def go_on_after_leak(entries: Entries, blobs: BlobStore) -> None:
    """An attempt without a verdict acted although its isolation had found something."""
    trial = trials_of(entries)[0]
    body = stage_of(entries, trial, "isolate")
    finding = {
        "literal_kind": "hidden",
        "literal_sha256": "0" * 64,
        "place": "image",
        "encoding": "plain",
        "offset": 0,
        "caused_by": "harness",
    }
    put(blobs, body, document(blobs, body) | {"findings": [finding]})
    body["artifacts"] = [a for a in body["artifacts"] if a["name"] == "declared"]
    late = {"grade", "seal"}
    remove(entries, [e for e in of_trial(entries, trial) if e["body"].get("stage") in late])
    fail(end_of(entries, trial))
    entries[-1]["body"]["completed"] -= 1


def condemn(entries: Entries, blobs: BlobStore) -> None:
    """A resolved trial is condemned for misconduct that its screening does not show."""
    trial = trials_of(entries, "/no_memory/oracle")[0]
    task_id, condition_id, agent, epoch = trial.split("/")
    grade = stage_of(entries, trial, "grade")
    task = load_task(fixtures_root(), task_id)
    harvested = blobs.get(stage_of(entries, trial, "harvest")["document_sha256"])
    harvest = Harvest.parse_canonical(harvested, where="harvest")
    injected = blobs.get(stage_of(entries, trial, "inject")["document_sha256"])
    verdict = condemned(
        trial=Trial(
            seq=0, task_id=task_id, condition_id=condition_id, agent=agent, epoch=int(epoch[1:])
        ),
        key=task.key,
        tree=harvest.tree,
        diff_sha256=harvest.diff_sha256,
        injection=Injection.parse_canonical(injected, where="injection"),
        violation=Violation(rule="misconduct", subject="agent-showed-a-secret", detail="seen"),
        diagnostic=True,
    )
    grade["document_sha256"] = blobs.put(verdict.canonical())
    grade["artifacts"] = [{"name": "misconduct", "sha256": blobs.put(b"seen\n"), "bytes": 5}]
    remove(entries, [e for e in of_trial(entries, trial) if e["body"].get("stage") == "seal"])
    end_of(entries, trial).update(outcome="misconduct", verdict_sha256=grade["document_sha256"])


def lend(entries: Entries, blobs: BlobStore) -> None:
    """A trial that failed gets change, test reports and drawn seals of one that was resolved."""
    giver = trials_of(entries, "depotfeed-returns/no_memory/oracle")[0]
    taker = trials_of(entries, "depotfeed-returns/no_memory/follower")[0]
    for name in ("harvest", "grade"):
        given, taken = stage_of(entries, giver, name), stage_of(entries, taker, name)
        taken["artifacts"] = deepcopy(given["artifacts"])
        value = document(blobs, given)
        put(blobs, taken, value | {"agent": "follower"} if name == "grade" else value)
    rebind(entries, blobs, taker)


def end_early(entries: Entries, _: BlobStore) -> None:
    """The run ended once in its middle, and went on without a resumption."""
    ended = deepcopy(entries[-1])
    ended["body"].update(completed=0)
    entries.insert(1, ended)


def approve_late(entries: Entries, _: BlobStore) -> None:
    """A run of scripted agents says of itself that it was approved as official."""
    entry = deepcopy(entries[-1])
    entry["body"] = {
        "kind": "run_approved",
        "approval_sha256": "0" * 64,
        "approval_id": "x",
        "signers": ["0" * 64],
        "standing": "official",
        "max_usd_micros": 1,
        "expires_s": 1,
    }
    entries.append(entry)


def resume_unclosed(entries: Entries, _: BlobStore) -> None:
    """A process died while an agent was at work, and another went on with that very attempt."""
    trial = trials_of(entries)[0]
    acted = next(e for e in of_trial(entries, trial) if e["body"].get("stage") == "act")
    entry = deepcopy(acted)
    entry["body"] = {"kind": "run_resumed", "torn_tail_bytes": 0}
    entries.insert(entries.index(acted), entry)


def budget_without_model(entries: Entries, _: BlobStore) -> None:
    """A trial of an agent that asks no model is said to have met a cap."""
    trial = trials_of(entries)[0]
    remove(entries, [e for e in of_trial(entries, trial) if "stage" in e["body"]])
    remove(entries, [e for e in of_trial(entries, trial) if e["body"]["kind"] == "memory_step"])
    fail(end_of(entries, trial), "budget", "budget-exhausted")
    entries[-1]["body"]["completed"] -= 1


ENDS: tuple[Change, ...] = (
    throw_away,
    try_on,
    try_after_cap,
    drop_graded,
    drop_clean,
    go_on_after_leak,
    condemn,
    lend,
    end_early,
    approve_late,
    resume_unclosed,
    budget_without_model,
)


WITH_MEMORY = "depotfeed-returns/curated_file_budgeted/follower"
WITHOUT = "depotfeed-returns/no_memory/oracle"


def edited(part: str, stage: str, **fields: Any) -> Change:
    """Returns a change of some fields of one stage's document, with all that is bound to it."""

    def change(entries: Entries, blobs: BlobStore) -> None:
        trial = trials_of(entries, part)[0]
        body = stage_of(entries, trial, stage)
        put(blobs, body, document(blobs, body) | fields)
        rebind(entries, blobs, trial)

    return change


def inject(part: str) -> Change:
    """Returns a change after which another text was put before the agent than memory compiled."""

    def change(entries: Entries, blobs: BlobStore) -> None:
        trial = trials_of(entries, part)[0]
        body, grade = stage_of(entries, trial, "inject"), stage_of(entries, trial, "grade")
        value = document(blobs, body)
        text = value["text"] + "- [mem:more] a hint\n"
        put(blobs, body, value | {"text": text, "text_sha256": sha256_hex(text.encode())})
        bound = {"injection_sha256": body["document_sha256"]}
        put(blobs, grade, document(blobs, grade) | bound)
        for artifact in grade["artifacts"]:
            if artifact["name"] == "memory-trace":
                trace = json.loads(blobs.get(artifact["sha256"])) | bound
                keep(blobs, grade, "memory-trace", canonical_bytes(trace))
        rebind(entries, blobs, trial)

    return change


def drop_artifacts(*names: str) -> Change:
    """Returns a change after which no stage kept artifacts of these names."""

    def change(entries: Entries, _: BlobStore) -> None:
        for entry in entries:
            if "artifacts" in entry["body"]:
                kept = [a for a in entry["body"]["artifacts"] if a["name"] not in names]
                entry["body"]["artifacts"] = kept

    return change


def drop_steps(entries: Entries, _: BlobStore) -> None:
    """No step of any memory system was noted."""
    entries[:] = [e for e in entries if e["body"]["kind"] != "memory_step"]


def fake_context(entries: Entries, blobs: BlobStore) -> None:
    """Memory is said to have compiled another text than its ranked items give, and that was injected."""
    trial = trials_of(entries, WITH_MEMORY)[0]
    body = stage_of(entries, trial, "remember")
    value = document(blobs, body)
    text = value["context"]["text"] + "  and a hint\n"
    value["context"] |= {"text": text, "text_sha256": sha256_hex(text.encode())}
    put(blobs, body, value)
    inject(WITH_MEMORY)(entries, blobs)
    injected = stage_of(entries, trial, "inject")
    put(
        blobs,
        injected,
        document(blobs, injected) | {"text": text, "text_sha256": sha256_hex(text.encode())},
    )
    rebind(entries, blobs, trial)


def change_diff(entries: Entries, blobs: BlobStore) -> None:
    """The change also rewrites the suite's own set-up, and its list of paths does not say so."""
    trial = trials_of(entries, WITHOUT)[0]
    body, grade = stage_of(entries, trial, "harvest"), stage_of(entries, trial, "grade")
    blob = "1" * 40
    more = (
        f"diff --git a/tests/conftest.py b/tests/conftest.py\nnew file mode 100644\nindex {'0' * 40}..{blob}\n"
        "--- /dev/null\n+++ b/tests/conftest.py\n@@ -0,0 +1 @@\n+import evil\n"
    )
    old = next(a["sha256"] for a in body["artifacts"] if a["name"] == "diff")
    diff = blobs.get(old) + more.encode()
    keep(blobs, body, "diff", diff)
    told = {"diff_sha256": sha256_hex(diff)}
    put(blobs, body, document(blobs, body) | told | {"diff_bytes": len(diff)})
    put(blobs, grade, document(blobs, grade) | told)
    rebind(entries, blobs, trial)


def rename_change(entries: Entries, blobs: BlobStore) -> None:
    """The list of changed paths names another path than the diff."""
    trial = trials_of(entries, WITHOUT)[0]
    body = stage_of(entries, trial, "harvest")
    value = document(blobs, body)
    value["changes"][0]["path"] = "src/depotfeed/other.py"
    put(blobs, body, value)
    rebind(entries, blobs, trial)


def crowd(entries: Entries, blobs: BlobStore) -> None:
    """The container held a process that nobody declared, and the proof says nothing of it."""
    trial = trials_of(entries)[0]
    body = stage_of(entries, trial, "isolate")
    kept = next(a["sha256"] for a in body["artifacts"] if a["name"] == "inventory")
    inventory = json.loads(blobs.get(kept))
    inventory["processes"].append({"command": ["sleep", "9"], "descriptors": []})
    data = canonical_bytes(inventory)
    keep(blobs, body, "inventory", data)
    put(blobs, body, document(blobs, body) | {"inventory_sha256": sha256_hex(data)})
    rebind(entries, blobs, trial)


def declare_more(entries: Entries, blobs: BlobStore) -> None:
    """The declaration allows what neither plan nor arm do."""
    trial = trials_of(entries)[0]
    body = stage_of(entries, trial, "isolate")
    kept = next(a["sha256"] for a in body["artifacts"] if a["name"] == "declared")
    declared = json.loads(blobs.get(kept))
    declared["engine_files"].append("file:/etc/answer")
    data = canonical_bytes(declared)
    keep(blobs, body, "declared", data)
    put(blobs, body, document(blobs, body) | {"declared_sha256": sha256_hex(data)})
    rebind(entries, blobs, trial)


def show_hidden(entries: Entries, blobs: BlobStore) -> None:
    """The agent printed the hidden tests, and the screening found nothing."""
    trial = trials_of(entries, WITHOUT)[0]
    task = load_task(fixtures_root(), trial.partition("/")[0])
    output = task.key.hidden_files[0].text.encode()
    body = stage_of(entries, trial, "act")
    keep(blobs, body, "output", output)
    told = {"output_sha256": sha256_hex(output), "output_bytes": len(output)}
    put(blobs, body, document(blobs, body) | told)
    rebind(entries, blobs, trial)


def retell(name: str, **fields: Any) -> Change:
    """Returns a change of the JSON artifact of that name, in the first stage that kept one."""

    def change(entries: Entries, blobs: BlobStore) -> None:
        body = next(
            e["body"]
            for e in entries
            if any(a["name"] == name for a in e["body"].get("artifacts") or [])
        )
        kept = next(a["sha256"] for a in body["artifacts"] if a["name"] == name)
        keep(blobs, body, name, canonical_bytes(json.loads(blobs.get(kept)) | fields))

    return change


SOURCES: dict[str, Change] = {
    "inject_another_text": inject(WITH_MEMORY),
    "inject_without_memory": inject("depotfeed-returns/no_memory/follower"),
    "drop_traces": drop_artifacts("memory-trace"),
    "drop_logs": drop_artifacts("pass-to-pass-log", "fail-to-pass-log"),
    "drop_store": drop_artifacts("dump", "store.tar"),
    "drop_isolation": drop_artifacts("declared", "inventory"),
    "drop_transcripts": drop_artifacts("transcript", "reader-metrics"),
    "drop_steps": drop_steps,
    "fake_context": fake_context,
    "other_store": edited(WITH_MEMORY, "remember", store_sha256="2" * 64),
    "other_condition": edited(WITH_MEMORY, "isolate", condition_id="no_memory"),
    "other_layers": edited(WITHOUT, "isolate", layers=["sha256:" + "0" * 64]),
    "isolate_nothing": edited(WITHOUT, "isolate", literals=0),
    "screen_nothing": edited(WITHOUT, "screen", literals=0),
    "screen_nowhere": edited(WITHOUT, "screen", places=[]),
    "hide_changes": edited(WITHOUT, "harvest", changes=[]),
    "rename_change": rename_change,
    "change_diff": change_diff,
    "other_pinned_tree": edited(WITHOUT, "harvest", pinned_tree="0" * 40),
    "shorten_diff": edited(WITHOUT, "harvest", diff_bytes=1),
    "shorten_output": edited(WITHOUT, "act", output_bytes=3),
    "cut_output": edited(WITHOUT, "act", output_truncated=True),
    "no_exit": edited(WITHOUT, "act", exit_code=None),
    "crowd": crowd,
    "declare_more": declare_more,
    "show_hidden": show_hidden,
    "tell_another_end": retell("transcript", turns=99),
    "read_more": retell("reader-metrics", turns=99),
}
INSIDER_CHANGES: dict[str, Change] = {change.__name__: change for change in ENDS} | SOURCES
