"""Seals a run's folder into an evidence bundle: inputs as blobs, statements, checkpoint, list of files, seal.

Everything is composed and checked before the first byte is changed, so that a seal that fails leaves an
earlier one as it was. Then the seal's own envelope is removed first and written last: a folder is either
sealed as a whole or says that it is not. The record (plan, ledger, present blobs) is only read.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orchestrator import __version__
from orchestrator.attest import layout
from orchestrator.attest.dsse import sign_payload
from orchestrator.attest.parts import parts_of
from orchestrator.attest.program import program_sha256
from orchestrator.attest.sbom import render_sbom
from orchestrator.attest.software import read_software
from orchestrator.attest.statements import seal_statement
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import utc_now_text
from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import PublicKey, SigningKey
from orchestrator.core.notes import parse_checkpoint, sign_checkpoint
from orchestrator.gateway.accounts import read_accounts
from orchestrator.ledger.blobs import BlobReader, StagedBlobs
from orchestrator.ledger.chain import exclusive
from orchestrator.model.bundle import BundleCard, ConsistencyProof, SigstorePin
from orchestrator.model.plan import Plan
from orchestrator.model.statement import KeyLabel, KeyPin
from orchestrator.model.task import Key
from orchestrator.pipeline.dossier import (
    Attached,
    Composition,
    Dossier,
    compose,
    plan_inputs,
    read_dossier,
)
from orchestrator.pipeline.ledgerkey import check_ledgers_key
from orchestrator.pipeline.materials import collect_materials
from orchestrator.pipeline.memory_audits import audits_of
from orchestrator.pipeline.reviews import pinned_reviews
from orchestrator.pipeline.validate.run import read_report
from orchestrator.sandbox.agents import recipe_bytes
from orchestrator.sources.loader import load_conditions, load_curated, load_task


class SigstoreSigner(Protocol):
    """What makes sigstore bundles of statements."""

    @property
    def pin(self) -> SigstorePin:
        """Whose certificates they bear."""

    def sign(self, payload: bytes) -> bytes:
        """Returns the bundle of a statement."""

    def trust_config(self) -> bytes | None:
        """Returns the trust configuration that verifies them, if it is this project's own."""


@dataclass(frozen=True, slots=True)
class Signer:
    """Who seals."""

    key: SigningKey
    label: KeyLabel
    sigstore: SigstoreSigner | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where what the plan pins lies on this machine."""

    fixtures: Path
    images: Path
    image_lock: bytes | None


@dataclass(frozen=True, slots=True)
class SealOutcome:
    """What a seal tells the user."""

    keyid: str
    label: KeyLabel
    files: int
    statements: int
    records: int


def ephemeral_signer() -> Signer:
    """Makes a key that lives as long as this process and is written nowhere."""
    return Signer(SigningKey.generate(), "ephemeral-local")


def seal_run(
    folder: Path, signer: Signer, inputs: Inputs, *, reports: Mapping[str, bytes] | None = None
) -> SealOutcome:
    """Seals a run.

    Args:
        folder: the run, with its report.json written, or to be written.
        signer, inputs: whose key signs, and where what the plan pins lies.
        reports: report.json and what is written beside it, by name, where they are not written yet.

    Raises:
        UsageError: another process has the run open, or an operator's seal would be replaced by one of no name.
        ApprovalRefused: its approval has the ledger's key seal it, and this is another.
        IntegrityError: the record is broken, or the fixtures are not the ones of the plan.
    """
    with exclusive(folder / layout.LEDGER):
        _check_signer(folder, signer)
        dossier = read_dossier(
            (folder / layout.PLAN).read_bytes(), (folder / layout.LEDGER).read_bytes()
        )
        proofs, kept = _proofs_on(folder, dossier), _earlier(folder, dossier)
        pinned = read_inputs(dossier.plan, inputs)
        blobs = StagedBlobs(folder / "blobs", pinned.documents)
        told = dict(reports or {})
        card = BundleCard(
            run_id=dossier.run_id,
            memtrial_version=__version__,
            program_sha256=program_sha256(),
            sealed_at=utc_now_text(),
            key=KeyPin(keyid=signer.key.public.keyid, label=signer.label),
            image_lock_sha256=blobs.put(inputs.image_lock) if inputs.image_lock else None,
            registry_sha256=blobs.put(load_conditions(inputs.fixtures).canonical()),
            sigstore=signer.sigstore.pin if signer.sigstore else None,
        )
        composed = _compose(
            folder, dossier, card, blobs, pinned.keys, report=told.get(layout.REPORT)
        )
        bill = _bill(dossier.plan, card, blobs, inputs)
        files = _files(composed, dossier, card, signer)
        whole = {**told, **files, **bill, **proofs, **kept, **_audits(dossier, blobs)}
        (folder / layout.SEAL).unlink(missing_ok=True)
        blobs.store()
        _clear(folder)
        for name, data in whole.items():
            write_atomic(folder / name, data)
        count = _close(folder, card, signer.key)
        statements = sum(len(payloads) for payloads in composed.payloads.values())
        return SealOutcome(
            card.key.keyid, signer.label, count, statements, dossier.content.tree.size
        )


def _check_signer(folder: Path, signer: Signer) -> None:
    keep_operators_seal(folder, signer.label)
    check_ledgers_key(folder, signer.key.public.keyid)


def keep_operators_seal(folder: Path, label: KeyLabel) -> None:
    """Refuses to put a seal of no name in the place of an operator's.

    Raises:
        UsageError: an operator sealed the run, and the next seal would be ephemeral.
    """
    data = _optional(folder / layout.CARD) if (folder / layout.SEAL).is_file() else None
    if data is None or label != "ephemeral-local":
        return
    card = BundleCard.parse_canonical(data, where=layout.CARD)
    if card.key.label == "operator":
        raise UsageError(
            "seal-of-an-operator",
            f"expected a key file, because key {card.key.keyid} of an operator sealed this run, found none",
            hint=f"name a key: memtrial seal {folder.name} --key FILE, or MEMTRIAL_SIGNING_KEY=FILE memtrial resume {folder.name}",
        )


def _compose(
    folder: Path,
    dossier: Dossier,
    card: BundleCard,
    blobs: StagedBlobs,
    keys: Mapping[str, Key],
    *,
    report: bytes | None,
) -> Composition:
    data = report or (folder / layout.REPORT).read_bytes()
    accounts = read_accounts(lambda name: _optional(folder / name))
    return compose(
        dossier,
        card,
        blobs,
        keys=dict(keys),
        attached=Attached.read(
            lambda name: _optional(folder / name), data, trials=len(dossier.plan.trials)
        ),
        spending=accounts.spending if accounts else {},
    )


@dataclass(frozen=True, slots=True)
class Pinned:
    """What a plan pins by digest: the documents, and the answer keys by task."""

    documents: tuple[bytes, ...]
    keys: Mapping[str, Key]


def read_inputs(plan: Plan, inputs: Inputs) -> Pinned:
    """Reads what the plan pins by digest, to become blobs of the run.

    Raises:
        IntegrityError: a fixture is no longer the one that the plan pins.
    """
    keys: dict[str, Key] = {}
    found: list[bytes] = []
    for pin in plan.tasks:
        task = load_task(inputs.fixtures, pin.digests.id)
        keys[pin.digests.id] = task.key
        views = (task.card, task.source, task.brief, task.history, task.key, task.rehearsal)
        found += [document.canonical() for document in views]
    for file in plan.curated:
        curated = load_curated(inputs.fixtures, file.task_id)
        found += [curated.text.encode(), curated.log.canonical()]
    found += [log.canonical() for log in pinned_reviews(plan).values()]
    programs = {agent.program_sha256 for agent in plan.agents}
    ours = [(inputs.images / "agent" / name).read_bytes() for name in ("chat.py", "scripted.py")]
    found += [data for data in ours if sha256_hex(data) in programs]
    found += _agents(plan, inputs.images)
    found += _validations(plan, inputs.fixtures)
    absent = plan_inputs(plan) - {sha256_hex(data) for data in found}
    if absent:
        raise IntegrityError(
            "inputs-changed",
            f"expected the inputs that the plan pins, found none with digest {', '.join(sorted(absent)[:3])}",
            hint="restore the fixtures that the plan was made from, then run `memtrial seal`",
        )
    return Pinned(tuple(found), keys)


def _validations(plan: Plan, fixtures: Path) -> Iterator[bytes]:
    """Yields the recorded validations that the plan pins."""
    wanted = {pin.validation_sha256 for pin in plan.tasks}
    report = read_report(fixtures)
    for entry in report.tasks if report else ():
        if entry.digest_sha256() in wanted:
            yield entry.canonical()


def _agents(plan: Plan, images: Path) -> Iterator[bytes]:
    """Yields what pins agents that are no program of ours: a description, or the recipe of a layer."""
    for agent in plan.agents:
        if agent.command is not None:
            yield agent.command.canonical()
        elif agent.identity is not None:
            yield recipe_bytes(images, agent.name)


def _optional(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _earlier(folder: Path, dossier: Dossier) -> dict[str, bytes]:
    """Returns the checkpoint of an earlier seal under its kept name, with its key and the proof that leads on."""
    old_note, old_key = _optional(folder / layout.CHECKPOINT), _optional(folder / layout.KEY)
    if old_note is None or old_key is None:
        return {}
    old = parse_checkpoint(old_note, where=layout.CHECKPOINT)
    key = PublicKey.parse_pem(old_key, where=layout.KEY)
    old.verify(key, where=layout.CHECKPOINT)
    note_name, key_name, proof_name = layout.earlier_name(old.checkpoint.size, key.keyid)
    proof = _proof_on(note_name, old_note, dossier)
    return {note_name: old_note, key_name: old_key, proof_name: proof}


def _proofs_on(folder: Path, dossier: Dossier) -> dict[str, bytes]:
    """Returns the consistency proofs from every kept checkpoint to the present tree."""
    kept = folder / "checkpoints"
    return {
        f"proofs/from-{path.name}.json": _proof_on(path.name, path.read_bytes(), dossier)
        for path in (sorted(kept.iterdir()) if kept.is_dir() else ())
    }


def _proof_on(name: str, note: bytes, dossier: Dossier) -> bytes:
    tree = dossier.content.tree
    old = parse_checkpoint(note, where=name).checkpoint
    if old.size > tree.size or tree.root(old.size) != old.root:
        raise IntegrityError(
            "ledger-not-the-signed-one",
            f"{name}: expected a ledger that continues the one signed earlier, found another",
            hint="the record was changed after it was signed: restore it from a copy",
        )
    return ConsistencyProof(
        old_size=old.size,
        old_root_sha256=old.root.hex(),
        size=tree.size,
        root_sha256=tree.root().hex(),
        path=tuple(step.hex() for step in tree.consistency(old.size)),
    ).canonical()


def _clear(folder: Path) -> None:
    """Removes what an earlier seal made, and temporary files of a process that died."""
    for name in layout.MADE_BY_SEAL:
        shutil.rmtree(folder / name, ignore_errors=True)
    for path in folder.rglob(".*.tmp"):
        path.unlink()


def _bill(plan: Plan, card: BundleCard, blobs: StagedBlobs, inputs: Inputs) -> dict[str, bytes]:
    """Returns the bill of materials and what it is made from."""
    materials = collect_materials(plan, blobs, inputs.images)
    software = read_software(plan, materials, card.image_lock_sha256, blobs.get)
    return {
        layout.MATERIALS: materials.canonical(),
        layout.SBOM: render_sbom(card, parts_of(plan, software)),
    }


def _files(
    composed: Composition, dossier: Dossier, card: BundleCard, signer: Signer
) -> dict[str, bytes]:
    files = {
        **composed.plain,
        layout.CARD: card.canonical(),
        layout.KEY: signer.key.public.pem(),
        layout.CHECKPOINT: sign_checkpoint(dossier.checkpoint(), signer.key),
    }
    for name, payloads in composed.payloads.items():
        whole = [payload for payload in payloads if payload is not None]
        files[name] = b"".join(sign_payload(payload, signer.key) + b"\n" for payload in whole)
        if signer.sigstore is not None:
            for number, payload in enumerate(whole):
                files[layout.sigstore_name(name, number)] = signer.sigstore.sign(payload)
    config = signer.sigstore.trust_config() if signer.sigstore else None
    if config is not None:
        files[layout.TRUST_CONFIG] = config
    return files


def _audits(dossier: Dossier, blobs: BlobReader) -> dict[str, bytes]:
    """Returns the memory audit of every graded trial of an arm with memory."""
    made = audits_of(dossier, blobs)
    return {layout.audit_name(seq): audit.canonical() for seq, audit in made.items() if audit}


def _close(folder: Path, card: BundleCard, key: SigningKey) -> int:
    """Writes SHA256SUMS over every file and then the seal; returns how many files it covers."""
    digests = {
        path.relative_to(folder).as_posix(): sha256_hex(path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {layout.SUMS, layout.SEAL}
    }
    sums = layout.render_sums(digests)
    payload = seal_statement(layout.SUMS, sha256_hex(sums), len(digests), card)
    write_atomic(folder / layout.SUMS, sums)
    write_atomic(folder / layout.SEAL, sign_payload(payload, key) + b"\n")
    return len(digests)
