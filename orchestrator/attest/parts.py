"""Parts of a bill of materials: each with its package URL, its hash, and what it stands on. Pure.

Package URLs follow the purl specification (types deb, npm, pypi). A part is named by the layer that it
lies in, so the same package in two layers is two parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from orchestrator.attest.piplock import normalised, parse_lock
from orchestrator.attest.software import Software, Toolchain, layer_of
from orchestrator.model.agents import AgentRecipe
from orchestrator.model.images import ImageLock, PinnedPackage, WheelPart
from orchestrator.model.materials import Installed
from orchestrator.model.plan import ImagePin, Plan

BASE = "layer:base"


@dataclass(frozen=True, slots=True)
class Part:
    """One component, and the names of those that it depends on."""

    ref: str
    kind: str
    name: str
    version: str | None = None
    purl: str | None = None
    sha256: str | None = None
    licence: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()


def parts_of(plan: Plan, software: Software) -> list[Part]:
    """Returns all parts: environment, layers with their packages, images."""
    found = [_installed(item) for item in software.environment]
    if software.lock:
        found += _base(software.lock)
    if software.python_lock is not None:
        found += _python(software.python_lock)
    for name, toolchain in software.toolchains.items():
        found += _toolchain(name, toolchain)
    for name, recipe in software.agents.items():
        found += _agent(name, recipe)
    return [*found, *_images(plan, software)]


def _installed(item: Installed) -> Part:
    record = item.record_sha256
    return Part(
        ref=f"pypi:{item.name}",
        kind="library",
        name=item.name,
        version=item.version,
        purl=_purl("pypi", item.name, item.version),
        licence=item.licence,
        properties=(("memtrial:record-sha256", record),) if record else (),
        needs=tuple(f"pypi:{name}" for name in item.requires),
    )


def _layer(ref: str, kind: str, name: str, packages: list[Part]) -> list[Part]:
    needs = tuple(part.ref for part in packages)
    return [Part(ref=ref, kind=kind, name=name, needs=needs), *packages]


def _base(lock: ImageLock) -> list[Part]:
    packages = [
        Part(
            ref=f"base:deb:{item.name}",
            kind="library",
            name=item.name,
            version=item.version,
            purl=_purl("deb/debian", item.name, item.version, arch=lock.architecture),
        )
        for item in lock.packages
    ]
    return _layer(BASE, "operating-system", lock.base_origin, packages)


def _python(text: str) -> list[Part]:
    packages = [
        Part(
            ref=f"python:pypi:{pin.name}",
            kind="library",
            name=pin.name,
            version=pin.version,
            purl=_purl("pypi", pin.name, pin.version),
            # One of several files of this version; the lock takes any of them.
            properties=tuple(("memtrial:locked-sha256", sha256) for sha256 in sorted(pin.sha256s)),
        )
        for pin in parse_lock(text)
    ]
    return _layer("layer:python", "platform", "python-runner", packages)


def _toolchain(name: str, toolchain: Toolchain) -> list[Part]:
    packages = [_wheel(name, wheel) for wheel in toolchain.recipe.wheels]
    if toolchain.packages:
        packages += [_package(name, item) for item in toolchain.packages.packages]
    return _layer(f"layer:{name}", "platform", f"{name}-toolchain", packages)


def _wheel(layer: str, wheel: WheelPart) -> Part:
    name = normalised(wheel.project)
    return Part(
        ref=f"{layer}:pypi:{name}:{wheel.root}",
        kind="application",
        name=name,
        purl=_purl("pypi", name, None),
        sha256=wheel.sha256,
        properties=(("memtrial:file-suffix", wheel.suffix), ("memtrial:place", wheel.to)),
    )


def _package(layer: str, item: PinnedPackage) -> Part:
    npm = item.path is not None
    return Part(
        ref=f"{layer}:npm:{item.path}" if npm else f"{layer}:deb:{item.name}",
        kind="library",
        name=item.name,
        version=item.version,
        purl=_purl("npm", item.name, item.version)
        if npm
        else _purl("deb/debian", item.name, item.version, arch=item.architecture),
        sha256=item.sha256,
    )


def _agent(name: str, recipe: AgentRecipe) -> list[Part]:
    wheels = [
        Part(
            ref=f"agent-{name}:pypi:{normalised(wheel.project)}",
            kind="library",
            name=normalised(wheel.project),
            version=wheel.version,
            purl=_purl("pypi", normalised(wheel.project), wheel.version),
            sha256=wheel.sha256,
        )
        for wheel in recipe.wheels
    ]
    package = recipe.package
    program = Part(
        ref=f"layer:agent-{name}",
        kind="application",
        name=package.name,
        version=package.version,
        purl=_purl(package.registry, package.name, package.version),
        sha256=package.sha256,
        properties=(
            ("memtrial:licence", recipe.licence),
            ("memtrial:program-sha256", recipe.program_sha256),
        ),
        needs=tuple(part.ref for part in wheels),
    )
    return [program, *wheels]


def _images(plan: Plan, software: Software) -> Iterator[Part]:
    layers = {agent.name: layer_of(agent) for agent in plan.agents}
    for pin in plan.tasks:
        task = pin.digests.id
        checkout = f"checkout:{task}"
        language = software.languages[task]
        below = ((BASE,) if software.lock else ()) + (f"layer:{language}", checkout)
        yield Part(
            ref=checkout,
            kind="file",
            name=f"{task}-checkout",
            version=pin.commit,
            properties=(
                ("memtrial:git-tree", pin.tree),
                ("memtrial:source-sha256", pin.digests.source_sha256),
            ),
        )
        images = [
            ("agent", "agent", pin.agent_image),
            ("verifier", "verifier", pin.verifier_image),
            *((item.agent, "agent", item.image) for item in pin.agent_images),
        ]
        for name, role, image in images:
            own = layers.get(name)
            yield _image(
                f"{task}-{name}",
                image,
                needs=(*below, f"layer:agent-{own}") if own else below,
                stands=stands_on_lock(image, software.lock, language, role),
            )


def _image(name: str, image: ImagePin, *, needs: tuple[str, ...], stands: bool) -> Part:
    return Part(
        ref=f"image:{name}",
        kind="container",
        name=name,
        version=image.id,
        sha256=image.id.removeprefix("sha256:"),
        properties=(("memtrial:stands-on-lock", "yes" if stands else "no"),),
        needs=needs,
    )


def stands_on_lock(image: ImagePin, lock: ImageLock | None, language: str, role: str) -> bool:
    """Whether an image's first layers are those that the lock has for its language and role."""
    name = role if language == "python" else f"{language}-{role}"
    locked = next((item for item in lock.images if item.name == name), None) if lock else None
    return locked is not None and image.diff_ids[: len(locked.diff_ids)] == locked.diff_ids


def _purl(kind: str, name: str, version: str | None, *, arch: str | None = None) -> str:
    text = f"pkg:{kind}/" + "/".join(quote(part, safe="") for part in name.split("/"))
    text += f"@{quote(version, safe='')}" if version else ""
    return text + (f"?arch={arch}" if arch else "")
