"""The inner checks of an opened bundle: ledger, checkpoint, proofs, blobs, statements, report, handouts.

Each takes what is opened, returns how many things it checked and a remark, and raises what it found.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.attest import layout
from orchestrator.attest.dsse import open_envelope
from orchestrator.audit.opening import Opened
from orchestrator.audit.rules import check_order
from orchestrator.audit.trust import Trust, check_remembered
from orchestrator.core.clock import utc_seconds
from orchestrator.core.errors import IntegrityError, MemtrialError, Negative
from orchestrator.core.keys import PublicKey
from orchestrator.core.merkle import consistency_holds, inclusion_holds
from orchestrator.core.notes import parse_checkpoint
from orchestrator.gateway.accounts import Accounts
from orchestrator.ledger.blobs import BlobWithheld, blob_paths
from orchestrator.model.bundle import ConsistencyProof, TrialProofs
from orchestrator.model.materials import Materials
from orchestrator.model.record import AttemptEnded, StageDone
from orchestrator.model.task import Key
from orchestrator.pipeline.dossier import (
    Attached,
    Composition,
    Dossier,
    compose,
    load_key,
    plan_inputs,
    read_dossier,
)


@dataclass(frozen=True, slots=True)
class Found:
    """What a check that did not say no has to tell."""

    count: int
    detail: str = ""
    whole: bool = True


def read_record(opened: Opened) -> tuple[Dossier, Found]:
    """Reads plan and ledger and replays the record against its rules."""
    dossier = read_dossier(opened.files.read(layout.PLAN), opened.files.read(layout.LEDGER))
    order = check_order(dossier.content.entries, dossier.plan)
    last = dossier.content.entries[-1].at
    if dossier.run_id != opened.card.run_id:
        raise IntegrityError(
            "run-differs",
            f"expected the ledger of run {opened.card.run_id}, found {dossier.run_id}",
            hint="get the bundle again from its source",
        )
    if utc_seconds(opened.card.sealed_at) < utc_seconds(last):
        raise Negative(
            "clock-skew",
            f"expected a seal after the last record of {last}, found one of {opened.card.sealed_at}",
            hint="the sealing machine's clock went back: its times cannot be relied on",
        )
    remark = order.told() or "hash chain whole, entries in order"
    return dossier, Found(len(dossier.content.entries), remark, order.whole)


def check_checkpoints(opened: Opened, dossier: Dossier) -> Found:
    """Checks the signed checkpoint, and that the ledger continues every earlier one."""
    signed = parse_checkpoint(opened.files.read(layout.CHECKPOINT), where=layout.CHECKPOINT)
    signed.verify(opened.key, where=layout.CHECKPOINT)
    present = dossier.checkpoint()
    if signed.checkpoint != present:
        raise IntegrityError(
            "checkpoint-differs",
            f"checkpoint: expected {present.size} records with root {present.root.hex()[:16]}, found {signed.checkpoint.size} with {signed.checkpoint.root.hex()[:16]}",
            hint="the ledger is not the one that was signed: get the bundle again from its source",
        )
    earlier = [name for name in opened.files.names() if name.startswith("checkpoints/")]
    for name in earlier:
        _check_earlier(opened, dossier, name)
    return Found(1 + len(earlier), f"{len(earlier)} earlier ones")


def _check_earlier(opened: Opened, dossier: Dossier, name: str) -> None:
    stem = name.removeprefix("checkpoints/")
    key_name, proof_name = f"keys/{stem}.pub.pem", f"proofs/from-{stem}.json"
    old = parse_checkpoint(opened.files.read(name), where=name)
    old.verify(PublicKey.parse_pem(opened.files.read(key_name), where=key_name), where=name)
    proof = ConsistencyProof.parse_canonical(opened.files.read(proof_name), where=proof_name)
    now, was = dossier.checkpoint(), old.checkpoint
    claimed = (proof.old_size, proof.old_root_sha256, proof.size, proof.root_sha256)
    actual = (was.size, was.root.hex(), now.size, now.root.hex())
    if (
        was.origin != now.origin
        or claimed != actual
        or not consistency_holds(
            old_size=was.size,
            size=now.size,
            proof=tuple(bytes.fromhex(step) for step in proof.path),
            old_root=was.root,
            root=now.root,
        )
    ):
        raise IntegrityError(
            "ledger-forked",
            f"{name}: expected a ledger that continues this checkpoint, found another",
            hint="the record was changed after it was signed: do not rely on this bundle",
        )


def check_witness(dossier: Dossier, trust: Trust) -> Found:
    """Compares the ledger with checkpoints that the verifier kept."""
    for name, data in trust.remembered:
        check_remembered(dossier.content, dossier.checkpoint().origin, name, data)
    if trust.remembered:
        return Found(len(trust.remembered))
    return Found(
        0, "no --checkpoint given: a cut and re-signed ledger would not be seen", whole=False
    )


def check_proofs(opened: Opened, dossier: Dossier) -> Found:
    """Follows every inclusion proof from its line to the signed root."""
    count = 0
    root, size = dossier.checkpoint().root, dossier.checkpoint().size
    for trial in dossier.plan.trials:
        name = layout.proof_name(trial.seq)
        seqs = dossier.lines.get(trial.key, ())
        if not seqs:
            continue
        proofs = TrialProofs.parse_canonical(
            opened.files.read(name), where=name, max_bytes=proofs_bytes(len(seqs), size)
        )
        holds = all(
            bytes.fromhex(proof.leaf_sha256) == dossier.content.tree.leaf(proof.seq)
            and inclusion_holds(
                leaf=bytes.fromhex(proof.leaf_sha256),
                index=proof.seq,
                size=size,
                proof=tuple(bytes.fromhex(step) for step in proof.path),
                root=root,
            )
            for proof in proofs.proofs
            if proof.seq < size
        )
        if not holds or tuple(proof.seq for proof in proofs.proofs) != seqs:
            raise IntegrityError(
                "proof-invalid",
                f"{name}: expected proofs that lead from this trial's lines to the signed root, found others",
                hint="get the bundle again from its source",
            )
        count += len(proofs.proofs)
    return Found(count)


def proofs_bytes(lines: int, size: int) -> int:
    """Returns how large the proofs of so many lines of a ledger of a size can be: a step a level, 67 bytes each."""
    return 4096 + lines * (256 + 67 * size.bit_length())


def check_blobs(opened: Opened, dossier: Dossier) -> Found:
    """Checks each blob against its name, and that whatever record and plan name is there."""
    by_digest: dict[str, str] = {}
    for name in opened.files.names():
        if name.startswith(layout.BLOBS):
            sha256 = name.rpartition("/")[2].removesuffix(".gz")
            if name.removeprefix(layout.BLOBS) not in blob_paths(sha256) or sha256 in by_digest:
                raise IntegrityError(
                    "blob-misplaced",
                    f"{name}: expected each blob once, at the place of its digest, found it elsewhere",
                    hint="get the bundle again from its source",
                )
            by_digest[sha256] = name
    for sha256 in by_digest:
        opened.files.get(sha256)
    withheld = _check_referenced(opened, dossier)
    loose = len(set(by_digest) - _referenced(dossier) - _of_the_bill(opened))
    detail = f"{withheld} withheld" if withheld else "all that record and plan name are there"
    return Found(len(by_digest), detail + (f", {loose} unnamed" if loose else ""), not withheld)


def _of_the_bill(opened: Opened) -> set[str | None]:
    """Returns what the bill of materials is made from; its own check judges it."""
    data = opened.files.optional(layout.MATERIALS)
    named: set[str | None] = {opened.card.image_lock_sha256, opened.card.registry_sha256}
    if data is not None:
        materials = Materials.parse_canonical(data, where=layout.MATERIALS)
        named |= {item.sha256 for item in materials.recipes}
    return named


def _referenced(dossier: Dossier) -> set[str]:
    wanted = plan_inputs(dossier.plan)
    for entry in dossier.content.entries:
        if isinstance(entry.body, AttemptEnded) and entry.body.evidence:
            wanted.add(entry.body.evidence.sha256)
        if isinstance(entry.body, StageDone):
            wanted.add(entry.body.document_sha256)
            wanted |= {item.sha256 for item in entry.body.artifacts}
    return wanted


def _check_referenced(opened: Opened, dossier: Dossier) -> int:
    withheld = 0
    sizes = {
        item.sha256: item.bytes
        for entry in dossier.content.entries
        if isinstance(entry.body, StageDone)
        for item in entry.body.artifacts
    }
    for sha256 in sorted(_referenced(dossier)):
        try:
            data = opened.files.get(sha256)
        except BlobWithheld:
            withheld += 1
            continue
        if len(data) != sizes.get(sha256, len(data)):
            raise IntegrityError(
                "blob-size-differs",
                f"blob {sha256}: expected {sizes[sha256]} bytes, found {len(data)}",
                hint="no memtrial writes such a record: get the bundle again from its source",
            )
    return withheld


def compose_again(opened: Opened, dossier: Dossier, accounts: Accounts | None) -> Composition:
    """Composes from the bundle what its seal must have signed."""
    report_data = opened.files.read(layout.REPORT)
    trials = len(dossier.plan.trials)
    attached = Attached.read(opened.files.optional, report_data, trials=trials)
    keys: dict[str, Key | None] = {}
    for task in dossier.plan.tasks:
        try:
            keys[task.digests.id] = load_key(dossier.plan, task.digests.id, opened.files)
        except BlobWithheld:
            keys[task.digests.id] = None
    spending = {} if accounts is None else accounts.spending
    return compose(
        dossier, opened.card, opened.files, keys=keys, attached=attached, spending=spending
    )


def check_statements(opened: Opened, composed: Composition) -> Found:
    """Verifies each envelope and compares its payload with the one that the record gives."""
    count, unknown = 0, 0
    present = [name for name in opened.files.names() if name.startswith("attestations/")]
    if sorted(present) != sorted(composed.payloads):
        raise IntegrityError(
            "statements-unexpected",
            f"expected {len(composed.payloads)} files of statements, found {len(present)} or others",
            hint="get the bundle again from its source",
        )
    for name, expected in composed.payloads.items():
        lines = opened.files.read(name).split(b"\n")
        if len(lines) != len(expected) + 1 or lines[-1]:
            raise _statement_differs(name, f"{len(expected)} whole lines")
        for line, payload in zip(lines, expected, strict=False):
            found = open_envelope(line, opened.key, where=name)
            if payload is not None and found != payload:
                raise _statement_differs(name, "the statement that the record gives")
            count += 1
            unknown += payload is None
    detail = f"{unknown} by signature alone, for want of withheld blobs" if unknown else ""
    return Found(count, detail, whole=not unknown)


def _statement_differs(name: str, expected: str) -> MemtrialError:
    return Negative(
        "statement-differs",
        f"{name}: expected {expected}, found something else under a valid signature",
        hint="the signer states what the record does not show: do not rely on it",
    )


def check_claims(opened: Opened) -> Found:
    """Says whether there are claims; statistics are those of the report."""
    if opened.files.has(layout.CLAIMS):
        return Found(0, "claims are there; this version cannot recompute them", whole=False)
    return Found(0, "the run makes no claim; its statistics are the report's")
