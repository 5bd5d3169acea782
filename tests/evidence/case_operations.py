"""What the case files of `tests/cases/bundles` can ask for, by name."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.attest import layout
from orchestrator.attest.dsse import open_envelope, sign_payload
from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.keys import PublicKey, SigningKey
from orchestrator.core.merkle import MerkleTree, leaf_hash
from orchestrator.core.notes import Checkpoint, parse_checkpoint, sign_checkpoint
from orchestrator.ledger.blobs import BlobStore, blob_paths
from orchestrator.model.plan import AgentPin, Retry, TaskPin, setting_of
from tests.evidence.bill_operations import BILL_OPERATIONS
from tests.evidence.finding_operations import FINDINGS
from tests.evidence.insider_operations import INSIDER_CHANGES
from tests.evidence.spending_operations import (
    SPENDING_OPERATIONS,
    SPENDING_RECORD_CHANGES,
    lower_caps,
)
from tests.evidence.tamper import Files
from tests.evidence.tool_operations import TOOLS_CHANGES

Entries = list[dict[str, Any]]


def operate(files: Files, operation: dict[str, Any], key: SigningKey) -> Files:
    """Applies one operation to the files of a bundle."""
    arguments = {name: value for name, value in operation.items() if name != "op"}
    changed = dict(files)
    OPERATIONS[operation["op"]](changed, key, **arguments)
    return changed


def _replace(files: Files, _: SigningKey, file: str, old: str, new: str) -> None:
    assert old.encode() in files[file], f"{file} does not hold {old}"
    files[file] = files[file].replace(old.encode(), new.encode(), 1)


def _keep_only(files: Files, _: SigningKey, names: list[str]) -> None:
    for name in set(files) - set(names):
        del files[name]


def _delete(files: Files, _: SigningKey, file: str) -> None:
    del files[file]


def _add(files: Files, _: SigningKey, file: str, text: str) -> None:
    files[file] = text.encode()


def _append(files: Files, _: SigningKey, file: str, text: str) -> None:
    files[file] += text.encode()


def _cut(files: Files, _: SigningKey, file: str, **size: int) -> None:
    files[file] = files[file][: -size["bytes"]]


def _lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[..., None]:
    def apply(files: Files, _: SigningKey, file: str, **__: object) -> None:
        files[file] = b"".join(line + b"\n" for line in change(files[file].splitlines()))

    return apply


def _swap_lines(files: Files, _: SigningKey, file: str, a: int, b: int) -> None:
    lines = files[file].splitlines()
    lines[a], lines[b] = lines[b], lines[a]
    files[file] = b"".join(line + b"\n" for line in lines)


def _replace_line(files: Files, _: SigningKey, file: str, line: int, text: str) -> None:
    lines = files[file].split(b"\n")
    lines[line] = text.encode()
    files[file] = b"\n".join(lines)


def _thirteenth_month(files: Files, _: SigningKey, file: str, field: str) -> None:
    document = json.loads(files[file])
    document[field] = document[field][:5] + "13" + document[field][7:]
    files[file] = canonical_bytes(document)


def _swap_files(files: Files, _: SigningKey, a: str, b: str) -> None:
    files[a], files[b] = files[b], files[a]


def _copy(files: Files, _: SigningKey, to: str, **names: str) -> None:
    files[to] = files[names["from"]]


def _other_key(files: Files, _: SigningKey, file: str) -> None:
    files[file] = SigningKey.generate().public.pem()


def _weak_key(files: Files, _: SigningKey, file: str) -> None:
    files[file] = PublicKey((1).to_bytes(32, "little")).pem()


def _envelope(files: Files, file: str, change: Callable[[dict[str, Any]], None]) -> None:
    envelope = json.loads(files[file])
    change(envelope)
    files[file] = canonical_bytes(envelope) + b"\n"


def _zero_signature(files: Files, _: SigningKey, file: str) -> None:
    zeros = base64.b64encode(bytes(64)).decode()
    _envelope(files, file, lambda e: e["signatures"][0].update(sig=zeros))


def _double_signature(files: Files, _: SigningKey, file: str) -> None:
    _envelope(files, file, lambda e: e["signatures"].append(e["signatures"][0]))


def _withheld(files: Files, path: str, sha256: str) -> None:
    files[layout.WITHHELD] = canonical_bytes(
        {"schema_version": 1, "files": [{"path": path, "sha256": sha256}]}
    )


def _withhold(files: Files, _: SigningKey, file: str) -> None:
    _withheld(files, file, sha256_hex(files.pop(file)))


def _withhold_present(files: Files, _: SigningKey) -> None:
    name = next(name for name in sorted(files) if name.startswith(layout.BLOBS))
    _withheld(files, name, sha256_hex(files[name]))


def _foreign_checkpoint(files: Files, _: SigningKey) -> None:
    checkpoint = parse_checkpoint(files[layout.CHECKPOINT], where="checkpoint").checkpoint
    files[layout.CHECKPOINT] = sign_checkpoint(checkpoint, SigningKey.generate())


def _forked_earlier(files: Files, key: SigningKey) -> None:
    """An earlier checkpoint of four other lines, with the best proof that there can be."""
    present = parse_checkpoint(files[layout.CHECKPOINT], where="checkpoint").checkpoint
    other = MerkleTree(leaf_hash(b"other line %d" % i) for i in range(4))
    tree = MerkleTree(leaf_hash(line) for line in files[layout.LEDGER].splitlines())
    note, pem, proof = layout.earlier_name(4, key.public.keyid)
    files[note] = sign_checkpoint(Checkpoint(present.origin, 4, other.root()), key)
    files[pem] = key.public.pem()
    files[proof] = canonical_bytes(
        {
            "schema_version": 1,
            "old_size": 4,
            "old_root_sha256": other.root().hex(),
            "size": tree.size,
            "root_sha256": tree.root().hex(),
            "path": [step.hex() for step in tree.consistency(4)],
        }
    )


def _proof(files: Files, file: str, change: Callable[[list[str]], None]) -> None:
    proofs = json.loads(files[file])
    change(proofs["proofs"][0]["path"])
    files[file] = canonical_bytes(proofs)


def _spoil_proof(files: Files, _: SigningKey, file: str) -> None:
    _proof(files, file, lambda path: path.__setitem__(0, "0" * 64))


def _long_proof(files: Files, _: SigningKey, file: str) -> None:
    _proof(files, file, lambda path: path.extend(["0" * 64] * 1000))


def _blob_name(files: Files, stage: str) -> str:
    entries = [json.loads(line) for line in files[layout.LEDGER].splitlines()]
    found = next(e["body"] for e in entries if e["body"].get("stage") == stage)
    paths = blob_paths(found["document_sha256"])
    return next(layout.BLOBS + path for path in paths if layout.BLOBS + path in files)


def _delete_blob(files: Files, _: SigningKey, stage: str) -> None:
    del files[_blob_name(files, stage)]


def _change_blob(files: Files, _: SigningKey, stage: str) -> None:
    name = _blob_name(files, stage)
    data = files[name]
    files[name] = (
        gzip.compress(gzip.decompress(data) + b" ") if name.endswith(".gz") else data + b" "
    )


def _bomb_blob(files: Files, _: SigningKey, stage: str) -> None:
    name = _blob_name(files, stage)
    sha256 = name.rpartition("/")[2].removesuffix(".gz")
    del files[name]
    files[layout.BLOBS + blob_paths(sha256)[1]] = gzip.compress(bytes(300 * 1024 * 1024), 9)


def _statement(files: Files, file: str, key: SigningKey, signer: SigningKey, **kind: str) -> None:
    first, *rest = files[file].splitlines()
    payload = json.loads(open_envelope(first, key.public, where=file))
    passed = payload["predicate"]["result"] == "PASSED"
    payload["predicate"]["result"] = "FAILED" if passed else "PASSED"
    envelope = sign_payload(canonical_bytes(payload), signer, **kind)
    files[file] = b"".join(line + b"\n" for line in (envelope, *rest))


def _acquit(files: Files, key: SigningKey) -> None:
    """The account of a failed trial of an arm with memory charges nothing."""
    for name in sorted(n for n in files if n.startswith("attestations/0")):
        *rest, last = files[name].splitlines()
        payload = json.loads(open_envelope(last, key.public, where=name))
        if payload["predicate"]["attribution"] is not None:
            payload["predicate"]["attribution"] = None
            envelope = sign_payload(canonical_bytes(payload), key)
            files[name] = b"".join(line + b"\n" for line in (*rest, envelope))
            return
    raise AssertionError("no failed trial of an arm with memory was recorded")


def _restate(files: Files, key: SigningKey, file: str) -> None:
    _statement(files, file, key, key)


def _foreign_statement(files: Files, key: SigningKey, file: str) -> None:
    _statement(files, file, key, SigningKey.generate())


def _retype(files: Files, key: SigningKey, file: str) -> None:
    _statement(files, file, key, key, payload_type="application/json")


OPERATIONS: dict[str, Callable[..., None]] = {
    name.removeprefix("_"): value
    for name, value in dict(globals()).items()
    if callable(value) and name.startswith("_") and not name.startswith("__")
} | {
    "sort_lines": _lines(lambda lines: sorted(lines, key=lambda line: line[66:])),
    "drop_last_line": _lines(lambda lines: lines[:-1]),
    "drop_first_line": _lines(lambda lines: lines[1:]),
    **BILL_OPERATIONS,
    **SPENDING_OPERATIONS,
}


def _of(entries: Entries, stage: str, number: int = 0) -> dict[str, Any]:
    """Returns the body of the n-th entry of a stage."""
    found: dict[str, Any] = [e["body"] for e in entries if e["body"].get("stage") == stage][number]
    return found


def _unresolved(entries: Entries, blobs: BlobStore) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Returns key, stage entry and verdict of a trial that was not resolved."""
    for entry in entries:
        body = entry["body"]
        if body.get("stage") == "grade":
            verdict = json.loads(blobs.get(body["document_sha256"]))
            if not verdict["resolved"]:
                return body["trial"], body, verdict
    raise AssertionError("no unresolved trial was recorded")


def _set_verdict(entries: Entries, blobs: BlobStore, trial: str, verdict: dict[str, Any]) -> None:
    for name in ("fail_to_pass_capability", "fail_to_pass_memory", "pass_to_pass"):
        tally = verdict[name]
        tally |= {"passed": tally["expected"], "failed": [], "missing": []}
    verdict |= {"resolved": True, "failure_reason": None, "violations": []}
    verdict |= dict.fromkeys(
        ("compiled", "reports_ok", "paths_ok", "patterns_ok", "within_limits"), True
    )
    sha256 = blobs.put(canonical_bytes(verdict))
    _bind(entries, blobs, trial, "grade", "verdict_sha256", sha256)
    for entry in entries:
        if entry["body"]["kind"] == "attempt_ended" and entry["body"]["trial"] == trial:
            entry["body"]["verdict_sha256"] = sha256


def _bind(
    entries: Entries, blobs: BlobStore, trial: str, stage: str, field: str, sha256: str
) -> None:
    """Puts another document into a stage and makes the trial's seal fit."""
    for entry in entries:
        body = entry["body"]
        if body.get("trial") == trial and body.get("stage") == stage:
            body["document_sha256"] = sha256
        if body.get("trial") == trial and body.get("stage") == "seal":
            sealed = json.loads(blobs.get(body["document_sha256"])) | {field: sha256}
            body["document_sha256"] = blobs.put(canonical_bytes(sealed))


def forge_verdict(entries: Entries, blobs: BlobStore) -> None:
    trial, _, verdict = _unresolved(entries, blobs)
    _set_verdict(entries, blobs, trial, verdict)


def forge_tests(entries: Entries, blobs: BlobStore) -> None:
    trial, body, verdict = _unresolved(entries, blobs)
    for artifact in body["artifacts"]:
        if artifact["name"].endswith("-tests"):
            report = json.loads(blobs.get(artifact["sha256"]))
            for test in report["tests"]:
                test["status"] = "pass"
            data = canonical_bytes(report)
            artifact |= {"sha256": blobs.put(data), "bytes": len(data)}
    _set_verdict(entries, blobs, trial, verdict)


def forge_trace(entries: Entries, blobs: BlobStore) -> None:
    """Says of every fact that memory lost it in the store and not on the way to the agent."""
    for entry in entries:
        for artifact in entry["body"].get("artifacts") or []:
            if artifact["name"] == "memory-trace":
                trace = json.loads(blobs.get(artifact["sha256"]))
                for fact in trace["facts"]:
                    fact |= {"memories": [], "ranked": [], "included": [], "delivered": False}
                data = canonical_bytes(trace)
                artifact |= {"sha256": blobs.put(data), "bytes": len(data)}


def borrow_seal(entries: Entries, _: BlobStore) -> None:
    _of(entries, "seal", 0)["document_sha256"] = _of(entries, "seal", 1)["document_sha256"]


def other_image(entries: Entries, blobs: BlobStore) -> None:
    body = _of(entries, "prepare")
    document = json.loads(blobs.get(body["document_sha256"])) | {
        "agent_image": "sha256:" + "0" * 64
    }
    sha256 = blobs.put(canonical_bytes(document))
    _bind(entries, blobs, body["trial"], "prepare", "prepared_sha256", sha256)


def second_attempt_first(entries: Entries, _: BlobStore) -> None:
    trial = _of(entries, "act")["trial"]
    for entry in entries:
        if entry["body"].get("trial") == trial:
            entry["body"]["attempt"] = 2


def complete_twice(entries: Entries, _: BlobStore) -> None:
    trial = _of(entries, "act")["trial"]
    first = [e for e in entries if e["body"].get("trial") == trial]
    again = json.loads(json.dumps(first))
    for entry in again:
        entry["body"]["attempt"] = 2
    place = entries.index(first[-1]) + 1
    entries[place:place] = again


def skip_act(entries: Entries, _: BlobStore) -> None:
    entries.remove(next(e for e in entries if e["body"].get("stage") == "act"))


def late_record(entries: Entries, _: BlobStore) -> None:
    entries[-1]["at"] = "2098-12-31T00:00:00.000Z"


RECORD_CHANGES: dict[str, Callable[[Entries, BlobStore], None]] = {
    f.__name__: f
    for f in (
        forge_verdict,
        forge_tests,
        forge_trace,
        borrow_seal,
        other_image,
        second_attempt_first,
        complete_twice,
        skip_act,
        late_record,
    )
} | {**SPENDING_RECORD_CHANGES, **INSIDER_CHANGES, **FINDINGS, **TOOLS_CHANGES}


def _limits(plan: dict[str, Any]) -> None:
    """Other limits, in every arm alike, as a plan that was made with them would have."""
    limits = plan["tasks"][0]["limits"]
    limits["wall_s"] += 1
    _set_arms(plan)


def _set_arms(plan: dict[str, Any]) -> None:
    """Makes the settings of the arms fit the plan's present pins."""
    tasks = {
        task["digests"]["id"]: TaskPin.model_validate_json(json.dumps(task))
        for task in plan["tasks"]
    }
    agents = tuple(AgentPin.model_validate_json(json.dumps(agent)) for agent in plan["agents"])
    retry = Retry.model_validate(plan["retry"])
    plan["arms"] = [
        setting_of(
            tasks[arm["task_id"]], arm["condition_id"], agents, retry, plan["profile_sha256"]
        ).model_dump(mode="json")
        for arm in plan["arms"]
    ]


def _order(plan: dict[str, Any]) -> None:
    trials = plan["trials"]
    trials[0], trials[1] = trials[1], trials[0]
    trials[0]["seq"], trials[1]["seq"] = 0, 1


def _phase(plan: dict[str, Any]) -> None:
    plan["phase"] = "official"


def _tell_less(plan: dict[str, Any]) -> None:
    """Every arm was told and asked something else than history and prompt give."""
    for task in plan["parity"]["tasks"]:
        task.update(sessions_sha256="0" * 64, query_sha256="1" * 64)


def _template(plan: dict[str, Any]) -> None:
    plan["parity"]["template_sha256"] = "0" * 64


def _budget(plan: dict[str, Any]) -> None:
    """A budget that no registry has, and that what was injected does not keep."""
    for condition in plan["conditions"]:
        if condition["budget"]:
            condition["budget"]["max_tokens"] = 10


def _adapters(plan: dict[str, Any]) -> None:
    for condition in plan["conditions"]:
        condition["adapter_sha256"] = "0" * 64


def _retry(plan: dict[str, Any]) -> None:
    """A policy that gives every trial more attempts than this program's plans do."""
    plan["retry"]["max_attempts"] = 10
    _set_arms(plan)


def _profile(plan: dict[str, Any]) -> None:
    plan["profile_sha256"] = "0" * 64
    _set_arms(plan)


def _validation(plan: dict[str, Any]) -> None:
    """A task is said to have passed the validation of another one."""
    one, other = plan["tasks"]
    one["validation_sha256"] = other["validation_sha256"]


PLAN_CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "limits": _limits,
    "order": _order,
    "told": _tell_less,
    "template": _template,
    "budget": _budget,
    "adapters": _adapters,
    "retry": _retry,
    "profile": _profile,
    "validation": _validation,
    "phase": _phase,
    "caps": lower_caps,
}


def replan(folder: Path, change: str) -> Callable[[Entries, BlobStore], None]:
    """Changes the plan; the returned record change makes the run one of the new plan."""
    path = folder / layout.PLAN
    plan = json.loads(path.read_bytes())
    PLAN_CHANGES[change](plan)
    path.write_bytes(canonical_bytes(plan))
    sha256 = sha256_hex(canonical_bytes(plan))

    def adopt(entries: Entries, blobs: BlobStore) -> None:
        entries[0]["body"]["plan_sha256"] = sha256
        for entry in entries:
            if entry["body"].get("stage") == "seal":
                sealed = json.loads(blobs.get(entry["body"]["document_sha256"]))
                sealed["plan_sha256"] = sha256
                entry["body"]["document_sha256"] = blobs.put(canonical_bytes(sealed))

    return adopt
