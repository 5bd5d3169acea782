"""Assembles the images: base, toolchain, our programs, and a pair per task. Nothing is built by an engine.

Each image is layers that we wrote and a config that we wrote, so its id is known before the engine sees
it and equal on every engine (docs/adr/0005-images.md). Reads recipes, wheels and checkouts; writes the
cache and loads archives. A missing image is made from its recipe or is an error: nothing is pulled.
"""

from __future__ import annotations

import io
import platform
import shutil
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import docker
from docker.errors import DockerException, ImageNotFound
from requests import RequestException

from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.errors import DocumentError, EnvironmentMissing, IntegrityError
from orchestrator.core.gittree import FileEntry
from orchestrator.model.images import ImageLock, LockedImage
from orchestrator.model.plan import ImagePin
from orchestrator.sandbox.base import Base
from orchestrator.sandbox.config import PREFIX, container_config
from orchestrator.sandbox.engine import Say
from orchestrator.sandbox.layers import ImageSpec, Layer, archive_pieces, make_image, make_layer

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
SPARE_BYTES = 256 * 1024 * 1024
SMALL_BYTES = 32 * 1024 * 1024
RECIPE_SUFFIXES = {".py", ".ini", ".json", ".lock", ".mjs", ".toml"}
PROGRAM_SUFFIXES = {".py", ".ini", ".mjs", ".toml"}
# Mount points. A runtime gives a memory file system the mode of the folder that it is mounted on, whatever
# the mount's own options say, so these modes are what keeps one uid out of another's folder.
FOLDERS = {
    "candidate": 0o755,
    "hidden": 0o750,
    "home/agent": 0o700,
    "report": 0o755,
    "run/harvest": 0o700,
    "tmp": 0o700,
    "work": 0o755,
}

FetchWheel = Callable[[str, tuple[str, ...]], Path]


@dataclass(frozen=True, slots=True)
class ImageSet:
    """The shared images, ready to be loaded or extended."""

    base: ImageSpec
    python: ImageSpec
    agent: ImageSpec
    verifier: ImageSpec

    def named(self) -> dict[str, ImageSpec]:
        """Returns the images by name."""
        return {
            "base": self.base,
            "python": self.python,
            "agent": self.agent,
            "verifier": self.verifier,
        }


class RolePair(Protocol):
    """The two images of a language that a task's images stand on."""

    @property
    def agent(self) -> ImageSpec:
        """What the agent's container is made from."""

    @property
    def verifier(self) -> ImageSpec:
        """What harvester and verifier are made from."""


def architecture() -> str:
    """Returns the image architecture of this machine.

    Raises:
        EnvironmentMissing: no images are made for it.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise EnvironmentMissing(
            "architecture-unknown",
            f"expected one of {', '.join(ARCHITECTURES)}, found {machine}",
            hint="use an x86-64 or arm64 machine",
        )
    return ARCHITECTURES[machine]


def assemble(base: Base, images: Path, fetch_wheel: FetchWheel) -> ImageSet:
    """Puts the shared images together, without an engine."""
    arch = architecture()
    config = container_config()
    base_image = make_image((base.layer,), architecture=arch, container=config)
    python = (base.layer, toolchain_layer(images, fetch_wheel))
    agent = (*python, program_layer(images, "agent"))
    verifier = (*python, program_layer(images, "verifier"))
    return ImageSet(
        base=base_image,
        python=make_image(python, architecture=arch, container=config),
        agent=make_image(agent, architecture=arch, container=config),
        verifier=make_image(verifier, architecture=arch, container=config),
    )


def toolchain_layer(images: Path, fetch_wheel: FetchWheel) -> Layer:
    """Returns the layer with the test runner: pinned pure-Python wheels, unpacked, nothing compiled."""
    files: dict[str, FileEntry] = {}
    for project, hashes in read_requirements(images / "python" / "requirements.lock"):
        wheel = fetch_wheel(project, hashes)
        with zipfile.ZipFile(io.BytesIO(wheel.read_bytes())) as archive:
            for name in archive.namelist():
                if name.endswith("/"):
                    continue
                if ".data/" in name or name.startswith("/") or ".." in name.split("/"):
                    raise DocumentError(
                        "wheel-not-pure",
                        f"{wheel.name}: expected plain modules, found {name}",
                        hint="choose a pure-Python wheel",
                    )
                path = f"{PREFIX}/python/{name}"
                files[path] = FileEntry(path, "100644", archive.read(name))
    return make_layer(files.values(), folders=FOLDERS)


def read_requirements(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """Returns (project, hashes) of a hash-pinned requirements file (pip's format)."""
    pins: list[tuple[str, tuple[str, ...]]] = []
    joined = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in joined.splitlines():
        words = line.split()
        if not words or words[0].startswith(("#", "-")):
            continue
        hashes = tuple(
            dict.fromkeys(
                w.removeprefix("--hash=sha256:") for w in words if w.startswith("--hash=sha256:")
            )
        )
        if "==" not in words[0] or not hashes:
            raise DocumentError(
                "requirements-not-pinned",
                f"{path.name}: expected NAME==VERSION with hashes, found {line.strip()[:80]!r}",
                hint="make the lock with hashes",
            )
        pins.append((words[0].split("==")[0], hashes))
    return pins


def program_layer(images: Path, role: str) -> Layer:
    """Returns the layer with our own programs of a role."""
    files = sorted(path for path in (images / role).iterdir() if path.suffix in PROGRAM_SUFFIXES)
    return make_layer(
        FileEntry(f"{PREFIX}/{role}/{path.name}", "100644", path.read_bytes()) for path in files
    )


def task_images(shared: RolePair, checkout: Iterable[FileEntry]) -> tuple[ImageSpec, ImageSpec]:
    """Returns (agent image, verifier image) of a checkout: the shared images and one more layer."""
    layer = make_layer(
        FileEntry(f"{PREFIX}/checkout/{entry.path}", entry.mode, entry.data) for entry in checkout
    )
    arch = architecture()
    config = container_config()
    return (
        make_image((*shared.agent.layers, layer), architecture=arch, container=config),
        make_image((*shared.verifier.layers, layer), architecture=arch, container=config),
    )


def pin(spec: ImageSpec) -> ImagePin:
    """Returns the pin of an image."""
    return ImagePin(id=spec.image_id, diff_ids=spec.diff_ids)


def ensure_loaded(client: docker.DockerClient, name: str, spec: ImageSpec, say: Say) -> bool:
    """Loads an image unless the engine has it; returns whether it had to be loaded.

    Raises:
        IntegrityError: the engine came to another id or other layers, or a cached layer was changed.
        EnvironmentMissing: the engine refused the archive, or has no room for it.
    """
    if _present(client, spec):
        return False
    say(
        f"images: loading {name} ({size_of(spec.layers) // 1_000_000} MB in {len(spec.layers)} layers)"
    )
    tag = f"memtrial/{name}:{spec.image_id.removeprefix('sha256:')[:12]}"
    failure: str | None = None
    # Where the engine holds the lower layers, declaring them is enough. A refusal costs milliseconds, so
    # the number of declared layers goes down until the engine is content, at last to none.
    for held in range(len(spec.layers) - 1, -1, -1):
        _check_room(client, size_of(spec.layers[held:]))
        without = frozenset(layer.diff_id for layer in spec.layers[:held])
        failure = load_archive(client, spec, tag=tag, without=without)
        if failure is None:
            return True
    raise EnvironmentMissing(
        "image-not-loaded",
        f"{name}: expected the engine to load it, found: {failure}",
        hint="free disk space if it is full, then run `memtrial images`",
    )


def size_of(layers: tuple[Layer, ...]) -> int:
    """Returns the size of layers in bytes, unpacked."""
    return sum(layer.size_bytes for layer in layers)


def load_archive(
    client: docker.DockerClient, spec: ImageSpec, *, tag: str, without: frozenset[str] = frozenset()
) -> str | None:
    """Gives the engine an archive; returns its refusal, or None when it holds exactly this image.

    Raises:
        IntegrityError: the engine took the archive but came to another id or other layers.
    """
    try:
        client.images.load(archive_pieces(spec, tag=tag, without=without))  # type: ignore[arg-type]
        if _present(client, spec):
            return None
        found = client.images.get(tag).attrs
    except (DockerException, RequestException) as error:
        return str(error) or type(error).__name__
    raise IntegrityError(
        "image-mismatch",
        f"{tag}: expected image {spec.image_id} with layers {', '.join(spec.diff_ids)}, found {found['Id']} with {', '.join(found['RootFS']['Layers'])}",
        hint='an engine with the containerd image store names images otherwise: set "features": {"containerd-snapshotter": false} in its daemon.json',
    )


def _check_room(client: docker.DockerClient, size_bytes: int) -> None:
    """Refuses early if the engine's disk, where it can be seen from here, has no room."""
    if size_bytes < SMALL_BYTES:
        return
    root = Path(str(client.info().get("DockerRootDir", "")))
    local = client.api.base_url.startswith(("http+docker", "http+unix"))
    if not local or not root.is_dir():
        return
    # The engine unpacks the archive beside the layers that it makes of it.
    needed = 2 * size_bytes + SPARE_BYTES
    free = shutil.disk_usage(root).free
    if free < needed:
        raise EnvironmentMissing(
            "disk-full",
            f"{root}: expected {needed // 1_000_000} MB free to load an image, found {free // 1_000_000} MB",
            hint="free disk space, then run `memtrial images`",
        )


def _present(client: docker.DockerClient, spec: ImageSpec) -> bool:
    try:
        found = client.images.get(spec.image_id).attrs
    except ImageNotFound:
        return False
    return found["Id"] == spec.image_id and tuple(found["RootFS"]["Layers"]) == spec.diff_ids


def lock_of(
    base: Base,
    named: Mapping[str, ImageSpec],
    images: Path,
    *,
    kept: tuple[LockedImage, ...] = (),
) -> ImageLock:
    """Returns the lock that describes the shared images.

    Args:
        base: the base with its packages.
        named: the assembled images by name.
        images: the recipes.
        kept: entries of an earlier lock, taken over for languages that were not assembled now.
    """
    made = tuple(
        LockedImage(
            name=name,
            recipe_sha256=recipe_sha256(images, name),
            diff_ids=spec.diff_ids,
            image_id=spec.image_id,
            bytes=size_of(spec.layers),
        )
        for name, spec in named.items()
    )
    present = {
        image.name: image for image in kept if image.diff_ids[:1] == (base.layer.diff_id,)
    } | {image.name: image for image in made}
    first = ("base", "python", "agent", "verifier")
    order = sorted(present, key=lambda name: (name not in first, first.index(name) if name in first else 0, name))  # fmt: skip
    return ImageLock(
        architecture="amd64" if architecture() == "amd64" else "arm64",
        base_origin=base.origin,
        packages=base.packages,
        images=tuple(present[name] for name in order),
    )


def recipe_sha256(images: Path, name: str) -> str:
    """Digest over everything that an image's own layers are made of, and the config that all share.

    `go-agent` is the recipe of `go` with the programs of `agent`.
    """
    if name.endswith(("-agent", "-verifier")):
        language, _, role = name.rpartition("-")
        parts = (recipe_sha256(images, language), recipe_sha256(images, role))
        return digest_sha256({"language": parts[0], "role": parts[1]})
    folder = images / name
    files = {
        p.name: sha256_hex(p.read_bytes())
        for p in sorted(folder.iterdir())
        if p.is_file() and p.suffix in RECIPE_SUFFIXES
    }
    return digest_sha256({"files": files, "config": container_config(), "folders": FOLDERS})
