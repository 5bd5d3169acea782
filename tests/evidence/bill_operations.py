"""What cases about the bill of materials do to a bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from orchestrator.attest import layout
from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.keys import SigningKey
from orchestrator.ledger.blobs import blob_paths
from tests.evidence.tamper import Files


def _change(files: Files, file: str, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(files[file])
    change(document)
    files[file] = canonical_bytes(document)


def keep_components(files: Files, _: SigningKey, kind: str) -> None:
    """Leaves all components of another kind out, and the graph with them."""

    def change(bill: dict[str, Any]) -> None:
        bill["components"] = [item for item in bill["components"] if item["type"] == kind]
        bill["dependencies"] = []

    _change(files, layout.SBOM, change)


def add_component(files: Files, _: SigningKey, component: dict[str, Any]) -> None:
    _change(files, layout.SBOM, lambda bill: bill["components"].append(component))


def drop_field(files: Files, _: SigningKey, file: str, field: str) -> None:
    _change(files, file, lambda document: document.pop(field))


def drop_installed(files: Files, _: SigningKey, name: str) -> None:
    def change(materials: dict[str, Any]) -> None:
        kept = [item for item in materials["environment"] if item["name"] != name]
        assert len(kept) == len(materials["environment"]) - 1
        materials["environment"] = kept

    _change(files, layout.MATERIALS, change)


def delete_lock(files: Files, _: SigningKey) -> None:
    _delete_blob(files, json.loads(files[layout.CARD])["image_lock_sha256"])


def delete_recipe(files: Files, _: SigningKey, path: str) -> None:
    recipes = {r["path"]: r["sha256"] for r in json.loads(files[layout.MATERIALS])["recipes"]}
    _delete_blob(files, recipes[path])


def _delete_blob(files: Files, sha256: str) -> None:
    names = [layout.BLOBS + path for path in blob_paths(sha256)]
    del files[next(name for name in names if name in files)]


BILL_OPERATIONS: dict[str, Callable[..., None]] = {
    f.__name__: f
    for f in (
        keep_components,
        add_component,
        drop_field,
        drop_installed,
        delete_lock,
        delete_recipe,
    )
}
