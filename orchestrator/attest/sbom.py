"""Software bill of materials of a run: CycloneDX 1.6 JSON over Python environment and images.

Reads the installed distributions' metadata, writes nothing. Format: CycloneDX 1.6, JSON
(`bomFormat`, `components[].purl` after the package-url specification).
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from importlib import metadata

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.model.bundle import BundleCard
from orchestrator.model.images import ImageLock
from orchestrator.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed Python distribution."""

    name: str
    version: str
    licence: str | None
    record_sha256: str | None


def installed_distributions() -> tuple[Distribution, ...]:
    """Returns what is installed in this interpreter, sorted by normalised name (PEP 503)."""
    found: dict[str, Distribution] = {}
    for item in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", item.metadata["Name"]).lower()
        record = item.read_text("RECORD")
        found.setdefault(
            name,
            Distribution(
                name=name,
                version=item.version,
                licence=next(iter(item.metadata.get_all("License-Expression") or ()), None),
                record_sha256=None if record is None else sha256_hex(record.encode()),
            ),
        )
    return tuple(found[name] for name in sorted(found))


def render_sbom(
    plan: Plan, card: BundleCard, lock: ImageLock | None, environment: tuple[Distribution, ...]
) -> bytes:
    """Returns the canonical bytes of the bill of materials."""
    components = [
        *(_python_component(item) for item in environment),
        *(_debian_component(item.name, item.version) for item in (lock.packages if lock else ())),
        *(_image_component(name, image_id) for name, image_id in sorted(plan_images(plan).items())),
    ]
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
                    "bom-ref": "memtrial",
                    "name": "memtrial",
                    "version": card.memtrial_version,
                },
            },
            "components": components,
        }
    )


def plan_images(plan: Plan) -> dict[str, str]:
    """Returns the ids of all images of a plan by task and role."""
    return {
        f"{task.digests.id}-{role}": image.id.removeprefix("sha256:")
        for task in plan.tasks
        for role, image in (
            ("agent", task.agent_image),
            ("verifier", task.verifier_image),
            *((item.agent, item.image) for item in task.agent_images),
        )
    }


def _python_component(item: Distribution) -> dict[str, object]:
    component: dict[str, object] = {
        "type": "library",
        "bom-ref": f"pypi:{item.name}",
        "name": item.name,
        "version": item.version,
        "purl": f"pkg:pypi/{item.name}@{_escaped(item.version)}",
    }
    if item.licence:
        component["licenses"] = [{"expression": item.licence}]
    if item.record_sha256:
        component["properties"] = [{"name": "memtrial:record-sha256", "value": item.record_sha256}]
    return component


def _debian_component(name: str, version: str) -> dict[str, object]:
    return {
        "type": "library",
        "bom-ref": f"deb:{name}",
        "name": name,
        "version": version,
        "purl": f"pkg:deb/debian/{_escaped(name)}@{_escaped(version)}",
    }


def _image_component(name: str, image_id: str) -> dict[str, object]:
    return {
        "type": "container",
        "bom-ref": f"image:{name}",
        "name": name,
        "version": f"sha256:{image_id}",
        "hashes": [{"alg": "SHA-256", "content": image_id}],
    }


def _escaped(text: str) -> str:
    """Percent-encodes what a package URL may not hold bare."""
    return "".join(c if c.isalnum() or c in ".-_~" else f"%{ord(c):02X}" for c in text)
