"""Says of each file of a bundle what it is, in words, so that a reader finds what to open or to withhold. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from orchestrator.attest import layout
from orchestrator.audit.opening import Opened
from orchestrator.gateway.accounts import BODIES_FILE, SPEND_FILE, TRAFFIC_FILE
from orchestrator.model.materials import Materials
from orchestrator.model.plan import Plan
from orchestrator.model.record import AttemptEnded, StageDone
from orchestrator.pipeline.dossier import Dossier

_SHOWN = 3
_FILES = {
    layout.CARD: "what kind of bundle this is",
    layout.PLAN: "what was fixed before the run",
    layout.LEDGER: "the record",
    layout.CHECKPOINT: "size and root of the record, signed",
    layout.REPORT: "report",
    layout.REPORT_TEXT: "report in words",
    layout.APPROVAL: "approval, signed by its approvers",
    layout.ROLES: "roles of the approvers",
    layout.CLAIMS: "claims",
    layout.KEY: "public key of the seal",
    layout.SUMMARY: "signed summary of the run",
    layout.GUIDE: "how to verify",
    layout.SCRIPT: "verification without memtrial",
    layout.SBOM: "bill of materials",
    layout.MATERIALS: "what the bill of materials is made from",
    layout.TRUST_CONFIG: "trust configuration of the own sigstore instance",
    layout.CANARY: "canary of the host, from which those of the trials are derived",
    SPEND_FILE: "spend book",
    TRAFFIC_FILE: "record of model calls",
    BODIES_FILE: "bodies of model calls",
}


def described_files(opened: Opened, dossier: Dossier | None) -> Iterator[tuple[str, str, str]]:
    """Yields each file: its name, its digest in the list, and what it is."""
    blobs = named_blobs(opened, dossier) if dossier is not None else {}
    trials = {t.seq: t.key for t in dossier.plan.trials} if dossier is not None else {}
    for name in opened.files.names():
        yield name, opened.files.digest(name), _described(name, blobs, trials)


def named_blobs(opened: Opened, dossier: Dossier) -> dict[str, list[str]]:
    """Returns what the record, the plan and the bill of materials call each blob, by its digest."""
    found: dict[str, list[str]] = defaultdict(list)
    for sha256, said in (
        *_of_plan(dossier.plan),
        *_of_ledger(dossier),
        *_of_bill(opened),
    ):
        if said not in found[sha256]:
            found[sha256].append(said)
    return found


def _described(name: str, blobs: dict[str, list[str]], trials: dict[int, str]) -> str:
    if name in _FILES:
        return _FILES[name]
    folder, _, rest = name.partition("/")
    if folder == "blobs":
        said = blobs.get(name.rpartition("/")[2].removesuffix(".gz"), ["named nowhere"])
        more = f" and {len(said) - _SHOWN} more places" if len(said) > _SHOWN else ""
        return "; ".join(said[:_SHOWN]) + more
    number = rest[:4]
    of_trial = trials.get(int(number), "") if number.isascii() and number.isdigit() else ""
    kinds = {
        "records": "lines of",
        "proofs": "proofs of the lines of",
        "attestations": "statements about",
        "audits": "memory audit of",
        "sigstore": "sigstore bundle about",
    }
    if folder in kinds and of_trial and not rest.startswith("from-"):
        return f"{kinds[folder]} {of_trial}"
    if folder in {"checkpoints", "keys", "proofs"}:
        return "an earlier checkpoint, its key, or the proof that leads on from it"
    return "sigstore bundle about the run" if folder == "sigstore" else "not of memtrial"


def _of_plan(plan: Plan) -> Iterator[tuple[str, str]]:
    for pin in plan.tasks:
        for field, value in pin.digests.model_dump().items():
            if field.endswith("_sha256"):
                kind = field.removesuffix("_sha256")
                yield value, f"{'answer key' if kind == 'key' else kind} of task {pin.digests.id}"
        if pin.validation_sha256 is not None:
            yield pin.validation_sha256, f"recorded validation of task {pin.digests.id}"
    for curated in plan.curated:
        yield curated.file_sha256, f"curated file of task {curated.task_id}"
        yield curated.log_sha256, f"curator's log of task {curated.task_id}"
    for agent in plan.agents:
        yield agent.program_sha256, f"program of agent {agent.name}"


def _of_ledger(dossier: Dossier) -> Iterator[tuple[str, str]]:
    for entry in dossier.content.entries:
        body = entry.body
        if isinstance(body, StageDone):
            where = f"{body.trial}, attempt {body.attempt}, {body.stage.value}"
            yield body.document_sha256, f"{where}: document"
            for item in body.artifacts:
                yield item.sha256, f"{where}: {item.name}"
        elif isinstance(body, AttemptEnded) and body.evidence is not None:
            yield body.evidence.sha256, f"{body.trial}, attempt {body.attempt}: evidence of its end"


def _of_bill(opened: Opened) -> Iterator[tuple[str, str]]:
    yield opened.card.registry_sha256, "registry of conditions"
    if opened.card.image_lock_sha256:
        yield opened.card.image_lock_sha256, "image lock"
    data = opened.files.optional(layout.MATERIALS)
    if data is not None:
        for item in Materials.parse_canonical(data, where=layout.MATERIALS).recipes:
            yield item.sha256, f"images/{item.path}"
