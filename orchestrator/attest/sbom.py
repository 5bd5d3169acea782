"""Software bill of materials of a run: CycloneDX 1.6 JSON over Python environment, image layers and images.

Reads the installed distributions' metadata, writes nothing. Format: CycloneDX 1.6, JSON
(`bomFormat`, `components[].purl` after the package-url specification, `dependencies[].dependsOn`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from importlib import metadata

from orchestrator.attest.parts import Part
from orchestrator.attest.piplock import normalised
from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.model.bundle import BundleCard
from orchestrator.model.materials import Installed

MAIN = "memtrial"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def installed_distributions() -> tuple[Installed, ...]:
    """Returns what is installed in this interpreter, sorted by normalised name (PEP 503)."""
    found: dict[str, metadata.Distribution] = {}
    for item in metadata.distributions():
        found.setdefault(normalised(item.metadata["Name"]), item)
    return tuple(_installed(name, found) for name in sorted(found))


def _installed(name: str, found: dict[str, metadata.Distribution]) -> Installed:
    item = found[name]
    record = item.read_text("RECORD")
    wanted = (line for line in item.requires or () if "extra ==" not in line)
    named = (_NAME.match(line) for line in wanted)
    requires = {normalised(match[0]) for match in named if match} & set(found) - {name}
    return Installed(
        name=name,
        version=item.version,
        licence=next(iter(item.metadata.get_all("License-Expression") or ()), None),
        record_sha256=None if record is None else sha256_hex(record.encode()),
        requires=tuple(sorted(requires)),
    )


def render_sbom(card: BundleCard, parts: Sequence[Part]) -> bytes:
    """Returns the canonical bytes of the bill of materials."""
    # All that is installed, and all images; what these stand on follows from the graph.
    direct = [part.ref for part in parts if part.ref.startswith(("pypi:", "image:"))]
    graph = {MAIN: direct} | {part.ref: list(part.needs) for part in parts}
    return canonical_bytes(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'urn:memtrial:run:{card.run_id}')}",
            "version": 1,
            "metadata": {
                "timestamp": card.sealed_at,
                "component": {
                    "type": "application",
                    "bom-ref": MAIN,
                    "name": MAIN,
                    "version": card.memtrial_version,
                },
            },
            "components": [_component(part) for part in parts],
            "dependencies": [
                {"ref": ref, "dependsOn": sorted(needs)} for ref, needs in sorted(graph.items())
            ],
        }
    )


def _component(part: Part) -> dict[str, object]:
    component: dict[str, object] = {"type": part.kind, "bom-ref": part.ref, "name": part.name}
    for field, value in (("version", part.version), ("purl", part.purl)):
        if value is not None:
            component[field] = value
    if part.sha256:
        component["hashes"] = [{"alg": "SHA-256", "content": part.sha256}]
    if part.licence:
        component["licenses"] = [{"expression": part.licence}]
    if part.properties:
        component["properties"] = [{"name": n, "value": value} for n, value in part.properties]
    return component
