"""The check of a bundle's bill of materials: rendered again from recorded blobs, compared byte for byte."""

from __future__ import annotations

from orchestrator.attest import layout
from orchestrator.attest.parts import parts_of
from orchestrator.attest.sbom import render_sbom
from orchestrator.attest.software import read_software
from orchestrator.audit.opening import Opened
from orchestrator.audit.recheck import Found
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError
from orchestrator.ledger.blobs import BlobWithheld
from orchestrator.model.materials import Materials
from orchestrator.pipeline.dossier import Dossier


def check_materials(opened: Opened, dossier: Dossier) -> Found:
    """Renders the bill of materials again.

    Raises:
        IntegrityError: it is another, or what it is made from is missing or not the plan's.
        DocumentError: what it is made from is malformed.
    """
    data = opened.files.optional(layout.MATERIALS)
    if data is None:
        raise IntegrityError(
            "materials-missing",
            f"expected {layout.MATERIALS}, from which the bill of materials is made again, found none",
            hint="if the run is yours and an earlier memtrial sealed it, run `memtrial seal`; else get the bundle again",
        )
    materials = Materials.parse_canonical(data, where=layout.MATERIALS)
    lock_sha256 = opened.card.image_lock_sha256
    try:
        software = read_software(dossier.plan, materials, lock_sha256, opened.files.get)
    except BlobWithheld:
        return Found(0, "not rebuilt: cards, recipes or the lock are withheld", whole=False)
    parts = parts_of(dossier.plan, software)
    again = render_sbom(opened.card, parts)
    if opened.files.read(layout.SBOM) != again:
        raise IntegrityError(
            "sbom-differs",
            f"{layout.SBOM}: expected the bill that recipes, locks and environment give, SHA-256 {sha256_hex(again)[:16]}, found another",
            hint="get the bundle again from its source",
        )
    images = [part for part in parts if part.kind == "container"]
    strange = sum(("memtrial:stands-on-lock", "no") in part.properties for part in images)
    told = "rebuilt to the byte; the environment is the signer's word"
    if strange:
        told += f"; {strange} of {len(images)} images do not stand on the recorded image lock"
    return Found(len(parts), told, whole=not strange)
