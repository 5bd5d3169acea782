"""What an insider has a record say against a trial that was resolved, so that it does not count."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.places import fixtures_root
from orchestrator.ledger.blobs import BlobStore
from orchestrator.pipeline.isolation import is_lasting
from orchestrator.sandbox.leaks.literals import canary_literal, oracle_literals
from orchestrator.sources.loader import load_task
from tests.evidence.insider_operations import (
    WITHOUT,
    Change,
    Entries,
    condemn,
    document,
    edited,
    end_of,
    fail,
    keep,
    of_trial,
    put,
    rebind,
    remove,
    show_hidden,
    stage_of,
    trials_of,
)

TRIAL = "/no_memory/oracle"


def finding(trial: str, caused_by: str = "agent", kind: str = "hidden") -> dict[str, Any]:
    """A finding of what is really searched for, in a place where it does not stand."""
    task = load_task(fixtures_root(), trial.partition("/")[0])
    hidden = next(lit for lit in oracle_literals(task.key, task.rehearsal) if is_lasting(lit))
    literal = hidden if kind == "hidden" else canary_literal()
    return {
        "literal_kind": kind,
        "literal_sha256": literal.sha256,
        "place": "transcript",
        "encoding": "plain",
        "offset": 0,
        "caused_by": caused_by,
    }


def invented(kind: str) -> Change:
    """Returns a change after which a resolved trial is condemned for what nobody showed."""

    def change(entries: Entries, blobs: BlobStore) -> None:
        trial = trials_of(entries, TRIAL)[0]
        body = stage_of(entries, trial, "screen")
        found = {"findings": [finding(trial, kind=kind)]}
        put(blobs, body, document(blobs, body) | found)
        condemn(entries, blobs)

    return change


def blame_the_harness(entries: Entries, blobs: BlobStore) -> None:
    """What the agent had printed is said to have been given to it, so that the block is dropped."""
    trial = trials_of(entries, TRIAL)[0]
    body = stage_of(entries, trial, "screen")
    put(blobs, body, document(blobs, body) | {"findings": [finding(trial, "harness")]})
    late = {"grade", "seal"}
    remove(entries, [e for e in of_trial(entries, trial) if e["body"].get("stage") in late])
    end = end_of(entries, trial)
    fail(end, "inadmissible", "leak-by-harness")
    end["evidence"] = {"name": "evidence", "sha256": blobs.put(b"seen\n"), "bytes": 5}


def find_what_nobody_searched(entries: Entries, blobs: BlobStore) -> None:
    """A block is dropped for a literal before the agent that no search of this task has."""
    trial = trials_of(entries, TRIAL)[0]
    body = stage_of(entries, trial, "isolate")
    found = finding(trial, "harness") | {"literal_sha256": "0" * 64, "place": "layer 0: /a"}
    put(blobs, body, document(blobs, body) | {"findings": [found]})
    body["artifacts"] = [a for a in body["artifacts"] if a["name"] == "declared"]
    late = {"act", "harvest", "screen", "grade", "seal"}
    remove(entries, [e for e in of_trial(entries, trial) if e["body"].get("stage") in late])
    end = end_of(entries, trial)
    fail(end, "inadmissible", "leak-before-act")
    end["evidence"] = {"name": "evidence", "sha256": blobs.put(b"seen\n"), "bytes": 5}


def stop_searching(entries: Entries, blobs: BlobStore) -> None:
    """The agent printed the hidden tests, and the search is said to have ended before it came to them."""
    show_hidden(entries, blobs)
    trial = trials_of(entries, WITHOUT)[0]
    body = stage_of(entries, trial, "screen")
    put(blobs, body, document(blobs, body) | {"partial": True})
    rebind(entries, blobs, trial)


def time_out(entries: Entries, blobs: BlobStore) -> None:
    """Tests of a resolved trial are said to have met their limit, beside the whole report that they left."""
    trial = trials_of(entries, TRIAL)[0]
    task = load_task(fixtures_root(), trial.partition("/")[0])
    body = stage_of(entries, trial, "grade")
    name = "pass-to-pass-tests"
    kept = next(a["sha256"] for a in body["artifacts"] if a["name"] == name)
    late = json.loads(blobs.get(kept)) | {"timed_out": True, "exit_code": None, "tests": []}
    keep(blobs, body, name, canonical_bytes(late))
    missing = sorted(test.id for test in task.key.pass_to_pass)
    tally = {"expected": len(missing), "passed": 0, "failed": [], "missing": missing}
    told = {"pass_to_pass": tally, "resolved": False, "failure_reason": "timeout"}
    put(blobs, body, document(blobs, body) | told)
    rebind(entries, blobs, trial)


def cut_after(entries: Entries, trial: str, last: str) -> dict[str, Any]:
    """Takes out all stages of a trial after one; returns its end."""
    stages = [e for e in of_trial(entries, trial) if "stage" in e["body"]]
    names = [e["body"]["stage"] for e in stages]
    remove(entries, stages[names.index(last) + 1 :])
    entries[-1]["body"]["completed"] -= 1
    return end_of(entries, trial)


def lose_the_model(entries: Entries, _: BlobStore) -> None:
    """A trial of an agent whose model answered every call is thrown away, as if the model had been gone."""
    fail(cut_after(entries, trials_of(entries)[0], "act"), "infra_error", "model-unavailable")


def lose_the_model_after_a_leak(entries: Entries, blobs: BlobStore) -> None:
    """What stood before the agent ends nothing, as its model is said to have been gone."""
    trial = trials_of(entries, TRIAL)[0]
    body = stage_of(entries, trial, "isolate")
    found = finding(trial, "harness") | {"place": "layer 0: /a"}
    put(blobs, body, document(blobs, body) | {"findings": [found]})
    body["artifacts"] = [a for a in body["artifacts"] if a["name"] == "declared"]
    fail(cut_after(entries, trial, "isolate"), "infra_error", "model-unavailable")


FINDINGS: dict[str, Callable[[Entries, BlobStore], None]] = {
    "invent_hidden": invented("hidden"),
    "invent_canary": invented("canary"),
    "invent_host_path": invented("host_path"),
    "blame_the_harness": blame_the_harness,
    "find_what_nobody_searched": find_what_nobody_searched,
    "stop_searching": stop_searching,
    "time_out": time_out,
    "lose_the_model": lose_the_model,
    "lose_the_model_after_a_leak": lose_the_model_after_a_leak,
    "stop_agent": edited(TRIAL, "act", ended="time_limit", exit_code=None),
    "leave_out": edited(
        TRIAL,
        "harvest",
        left_out=[{"name": "src/depotfeed/returns.py", "reason": "too-large"}],
    ),
}
