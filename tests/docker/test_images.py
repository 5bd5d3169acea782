"""Images are assembled, not built: the engine comes to the ids that we computed, and holds no answer."""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from orchestrator.core.errors import IntegrityError
from orchestrator.core.gittree import FileEntry
from orchestrator.core.places import cache_root, fixtures_root, images_root, local_lock_path
from orchestrator.sandbox.base import Base, ensure_base, flatten
from orchestrator.sandbox.config import container_config
from orchestrator.sandbox.engine import connect
from orchestrator.sandbox.images import (
    ImageSet,
    assemble,
    ensure_loaded,
    load_archive,
    task_images,
)
from orchestrator.sandbox.layers import ImageSpec, layer_of_file, make_image, make_layer
from orchestrator.sources.checkout import materialise, repository_entries
from orchestrator.sources.fetch import PinnedFile, fetch
from orchestrator.sources.loader import load_task

pytestmark = pytest.mark.docker

TASK = "depotfeed-returns"


def wheel(project: str, hashes: tuple[str, ...]) -> Path:
    return fetch(PinnedFile(project, hashes, "-none-any.whl"), cache_root())


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    with contextlib.closing(connect()) as found:
        yield found


def give_back(client: docker.DockerClient, base: Base) -> None:
    """Writes the base layer into the cache from the engine: a cache may be emptied, an engine may not be."""
    image = make_image((base.layer,), architecture="amd64", container=container_config())
    with tempfile.TemporaryFile() as raw:
        for piece in client.images.get(image.image_id).save():
            raw.write(piece)
        raw.seek(0)
        with tarfile.open(fileobj=raw) as archive:
            manifest = archive.extractfile("manifest.json")
            assert manifest is not None
            layer = archive.extractfile(json.load(manifest)[0]["Layers"][0])
            assert layer is not None
            assert isinstance(base.layer.data, Path)
            base.layer.data.parent.mkdir(exist_ok=True)
            base.layer.data.write_bytes(layer.read())
    assert layer_of_file(base.layer.data) == base.layer


@pytest.fixture(scope="module")
def shared(client: docker.DockerClient) -> ImageSet:
    base = ensure_base(client, images_root(), cache_root(), local_lock_path(), lambda _: None)
    if isinstance(base.layer.data, Path) and not base.layer.data.exists():
        give_back(client, base)
    found = assemble(base, images_root(), wheel)
    for name, spec in found.named().items():
        ensure_loaded(client, name, spec, lambda _: None)
    return found


@pytest.fixture(scope="module")
def pair(client: docker.DockerClient, shared: ImageSet) -> tuple[ImageSpec, ImageSpec]:
    source = load_task(fixtures_root(), TASK).source
    checkout = materialise(source, fixtures=fixtures_root(), cache=cache_root())
    specs = task_images(shared, (*checkout.entries, *repository_entries(checkout)))
    for role, spec in zip(("agent", "verifier"), specs, strict=True):
        ensure_loaded(client, f"{TASK}-{role}", spec, lambda _: None)
    return specs


@pytest.fixture
def odd(client: docker.DockerClient, shared: ImageSet) -> Iterator[ImageSpec]:
    """An image that no engine has seen: the toolchain and one layer of random bytes."""
    top = make_layer([FileEntry("opt/odd", "100644", secrets.token_bytes(16))])
    layers = (*shared.python.layers, top)
    spec = make_image(layers, architecture="amd64", container=container_config())
    yield spec
    for image in client.images.list(name="memtrial/test-odd"):
        client.images.remove(image.id, force=True)  # type: ignore[arg-type]


def run(client: docker.DockerClient, spec: ImageSpec, *command: str, **options: Any) -> str:
    made = client.containers.create(
        spec.image_id,
        list(command),
        network_mode="none",
        labels={"memtrial": "test"},
        **options,
    )
    try:
        made.start()
        code = made.wait()["StatusCode"]
        output = made.logs().decode()
    finally:
        made.remove(force=True)
    assert code == 0, output
    return output


def test_the_engine_comes_to_the_computed_ids(
    client: docker.DockerClient, shared: ImageSet, pair: tuple[ImageSpec, ImageSpec]
) -> None:
    for spec in (*shared.named().values(), *pair):
        found = client.images.get(spec.image_id).attrs
        assert found["Id"] == spec.image_id
        assert tuple(found["RootFS"]["Layers"]) == spec.diff_ids
        assert found["Config"]["User"] == "10001:10001"
        assert found["Config"]["Labels"] == {"memtrial": "image"}


def test_assembling_again_gives_the_same_ids_and_loads_nothing(
    client: docker.DockerClient, shared: ImageSet
) -> None:
    said: list[str] = []
    base = ensure_base(client, images_root(), cache_root(), local_lock_path(), said.append)
    again = assemble(base, images_root(), wheel)
    for name, spec in again.named().items():
        assert spec.image_id == shared.named()[name].image_id
        assert not ensure_loaded(client, name, spec, said.append)
    assert said == []


def test_the_engine_takes_an_archive_without_the_layers_that_it_holds(
    client: docker.DockerClient, odd: ImageSpec
) -> None:
    held = frozenset(odd.diff_ids[:-1])
    assert load_archive(client, odd, tag="memtrial/test-odd:thin", without=held) is None


def test_the_engine_takes_the_whole_archive_too(
    client: docker.DockerClient, odd: ImageSpec
) -> None:
    assert load_archive(client, odd, tag="memtrial/test-odd:full") is None


def test_an_archive_without_a_layer_that_the_engine_lacks_is_refused_then_sent_with_it(
    client: docker.DockerClient, odd: ImageSpec
) -> None:
    missing = frozenset(odd.diff_ids[-1:])
    assert load_archive(client, odd, tag="memtrial/test-odd:gap", without=missing) is not None
    top = make_layer([FileEntry("opt/top", "100644", b"")])
    two_new = make_image((*odd.layers, top), architecture="amd64", container=container_config())
    assert ensure_loaded(client, "test-odd", two_new, lambda _: None)


def test_a_layer_with_other_bytes_than_declared_never_becomes_the_image(
    client: docker.DockerClient, odd: ImageSpec, tmp_path: Path
) -> None:
    path = tmp_path / "layer.tar"
    good = odd.layers[-1].data
    assert isinstance(good, bytes)
    path.write_bytes(good.replace(b"opt/odd", b"opt/bad"))
    forged = type(odd.layers[-1])(odd.diff_ids[-1], len(good), path)
    spec = ImageSpec((*odd.layers[:-1], forged), odd.config, odd.image_id)
    with pytest.raises(IntegrityError, match="expected SHA-256"):
        ensure_loaded(client, "test-odd", spec, lambda _: None)
    with pytest.raises(docker.errors.ImageNotFound):
        client.images.get(odd.image_id)


def exported(client: docker.DockerClient, spec: ImageSpec) -> Iterator[tarfile.TarInfo]:
    made = client.containers.create(spec.image_id, ["true"], labels={"memtrial": "test"})
    try:
        data = b"".join(made.export())  # type: ignore[arg-type]
    finally:
        made.remove(force=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        yield from archive


def test_nothing_in_an_image_is_writable_by_all_or_runs_with_other_rights(
    client: docker.DockerClient, pair: tuple[ImageSpec, ImageSpec]
) -> None:
    for spec in pair:
        for member in exported(client, spec):
            if member.isreg() or member.isdir():
                assert not member.mode & 0o002, member.name
            assert not (member.isreg() and member.mode & 0o6000), member.name
            if member.name.startswith("opt/memtrial"):
                assert (member.uid, member.gid) == (0, 0)
                assert member.issym() or member.mode & 0o004


def test_no_hidden_test_key_or_patch_is_in_an_image(
    client: docker.DockerClient, pair: tuple[ImageSpec, ImageSpec]
) -> None:
    task = load_task(fixtures_root(), TASK)
    secrets_of_task = [file.text.encode() for file in task.key.hidden_files]
    secrets_of_task += [task.rehearsal.reference_patch.encode(), task.key.card.canonical()]
    names = {Path(file.path).name for file in task.key.hidden_files}
    for spec in pair:
        for layer in spec.layers[1:]:
            assert isinstance(layer.data, bytes)
            assert not any(secret in layer.data for secret in secrets_of_task)
            with tarfile.open(fileobj=io.BytesIO(layer.data)) as archive:
                assert not names & {Path(name).name for name in archive.getnames()}
        config = json.dumps(client.images.get(spec.image_id).attrs)
        assert TASK not in config.replace(f"memtrial/{TASK}", "")


def test_no_name_of_this_machine_or_its_mirror_is_in_the_base(
    client: docker.DockerClient, shared: ImageSet
) -> None:
    command = (
        "ls /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null; cat /proc/sys/kernel/ostype"
    )
    assert run(client, shared.base, "sh", "-c", command).strip() == "Linux"


def test_a_foreign_base_is_flattened_to_the_same_bytes_every_time(
    client: docker.DockerClient, shared: ImageSet, tmp_path: Path
) -> None:
    for name in ("a.tar", "b.tar"):
        flatten(client, shared.base.image_id, tmp_path / name)
    first = layer_of_file(tmp_path / "a.tar")
    assert first.diff_id == layer_of_file(tmp_path / "b.tar").diff_id
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "b.tar"]
    with tarfile.open(tmp_path / "a.tar") as archive:
        assert not {".dockerenv", "etc/hosts"} & set(archive.getnames())


def test_the_checkout_is_a_clean_repository_once_copied(
    client: docker.DockerClient, pair: tuple[ImageSpec, ImageSpec]
) -> None:
    command = "cp -r /opt/memtrial/checkout/. /tmp/w && cd /tmp/w && git status --porcelain && git log --all --format=%H"
    output = run(
        client,
        pair[0],
        "sh",
        "-c",
        command,
        read_only=True,
        tmpfs={"/tmp": "rw,uid=10001,mode=0700", "/home/agent": "rw,uid=10001,mode=0700"},
    )
    task = load_task(fixtures_root(), TASK)
    assert output.split() == [task.source.expect.commit]


def test_the_toolchain_runs_and_the_library_under_test_is_not_installed(
    client: docker.DockerClient, pair: tuple[ImageSpec, ImageSpec]
) -> None:
    program = "import pytest, freezegun, importlib.util as u; print(pytest.__version__, [n for n in ('humanize', 'cachetools', 'depotfeed', 'pip') if u.find_spec(n)])"
    for spec in pair:
        assert run(client, spec, "python3", "-c", program).strip() == "8.3.5 []"


def test_an_image_that_is_missing_is_an_error_and_never_pulled(client: docker.DockerClient) -> None:
    with pytest.raises(docker.errors.ImageNotFound):
        client.containers.create(f"sha256:{'0' * 64}", ["true"])
