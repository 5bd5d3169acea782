"""Promise: a memory product's layer is made of pinned bytes, and its arm is pinned to recipe, locks and bridge."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import pytest

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, EnvironmentMissing
from orchestrator.core.gittree import FileEntry
from orchestrator.core.places import fixtures_root, images_root
from orchestrator.model.condition import AddedConditions
from orchestrator.pipeline.memory import pinned_now, program_of
from orchestrator.sandbox.images import read_requirements
from orchestrator.sandbox.products import (
    product_layer,
    product_recipe_sha256,
    read_product_recipe,
)
from orchestrator.sources.loader import load_conditions

PRODUCTS = ("langmem", "mem0", "server-memory")
ARMS = [c for c in load_conditions(fixtures_root()).conditions if c.product]


@pytest.mark.parametrize("product", ["langmem", "mem0"])
def test_every_wheel_of_a_recipe_is_one_that_the_lock_names_and_none_is_left_out(product):
    lock = dict(read_requirements(images_root() / "memory" / product / "requirements.lock"))
    wheels = {wheel.project: wheel.sha256 for wheel in read_product_recipe(images_root(), product).wheels}  # fmt: skip
    assert set(wheels) == {name.split("[")[0].replace("_", "-").replace(".", "-").lower() for name in lock}  # fmt: skip
    allowed = {digest for hashes in lock.values() for digest in hashes}
    assert set(wheels.values()) <= allowed


def test_every_tarball_of_a_recipe_is_one_that_npms_lock_names_with_its_integrity():
    folder = images_root() / "memory" / "server-memory"
    lock = json.loads((folder / "package-lock.json").read_text())["packages"]
    named = {path: entry for path, entry in lock.items() if path and not entry.get("optional")}
    recipe = read_product_recipe(images_root(), "server-memory")
    laid = {p.path.partition("server-memory/")[2]: p.version for p in recipe.packages if p.path}
    assert laid == {path: entry["version"] for path, entry in named.items()}
    for entry in named.values():
        assert len(base64.b64decode(entry["integrity"].removeprefix("sha512-"))) == 64


@pytest.mark.parametrize("product", PRODUCTS)
def test_no_lock_names_the_address_of_an_index(product):
    for path in (images_root() / "memory" / product).glob("*lock*"):
        text = path.read_text()
        assert '"resolved"' not in text, path.name
        assert "index-url" not in text, path.name


def test_products_are_diagnostic_and_both_scopes_of_mem0_are_arms():
    assert {arm.id for arm in ARMS} == {
        "mem0_user_scope",
        "mem0_session_scope",
        "langmem_e2e",
        "server_memory_e2e",
    }
    assert {arm.role for arm in ARMS} == {"diagnostic"}
    programs = {arm.id: program_of(arm) for arm in ARMS}
    assert programs["mem0_user_scope"].variant == "user_scope"
    assert programs["server_memory_e2e"].product == "server-memory"


def test_a_changed_lock_or_recipe_changes_the_pin_of_its_arms_alone(tmp_path, monkeypatch):
    copy = tmp_path / "images"
    shutil.copytree(images_root() / "memory", copy / "memory")
    monkeypatch.setattr("orchestrator.pipeline.memory.images_root", lambda: copy)
    before = {arm.id: pinned_now(arm) for arm in ARMS}
    with (copy / "memory" / "mem0" / "requirements.lock").open("a") as lock:
        lock.write("# newer\n")
    changed = {arm.id for arm in ARMS if pinned_now(arm) != before[arm.id]}
    assert changed == {"mem0_user_scope", "mem0_session_scope"}


def test_a_product_without_a_program_is_refused():
    budget = {"unit": "o200k_base", "max_tokens": 10}
    named = {"id": "mine", "role": "diagnostic", "summary": "s", "adapter": "raw_fts"}
    arm = {**named, "budget": budget, "product": "mem0"}
    data = json.dumps({"schema_version": 1, "conditions": [arm]}).encode()
    with pytest.raises(DocumentError, match="product is given only with the program"):
        AddedConditions.parse(data, where="mine.json")


def test_a_product_without_a_recipe_is_refused_by_name():
    with pytest.raises(EnvironmentMissing, match=r"images/memory/ghost/recipe\.json"):
        product_recipe_sha256(images_root(), "ghost")


def test_a_layer_is_made_once_and_is_what_its_files_are(tmp_path: Path):
    made = 0

    def files(_):
        nonlocal made
        made += 1
        yield FileEntry("opt/memtrial/memory/mem0/site/a.py", "100644", b"A = 1\n")

    layers = {
        product_layer(images_root(), tmp_path, "mem0", files, lambda _: None).diff_id
        for _ in range(2)
    }
    assert made == 1
    assert layers == {f"sha256:{sha256_hex(next((tmp_path / 'images').glob('*.tar')).read_bytes())}"}  # fmt: skip
