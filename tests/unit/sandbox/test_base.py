"""The base layer: which lock counts, what is said when it differs, and whose package sources are used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.core.aptsources import from_line, from_stanza
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import DocumentError, EnvironmentMissing, IntegrityError
from orchestrator.core.places import images_root
from orchestrator.model.images import ImageLock, LockedPackage
from orchestrator.sandbox import base as base_module
from orchestrator.sandbox.base import CachedBase, ensure_base, package_difference, read_lock
from orchestrator.sandbox.bootstrap import BaseRecipe, bootstrap
from orchestrator.sandbox.images import recipe_sha256


@pytest.fixture
def images(tmp_path: Path) -> Path:
    (tmp_path / "images" / "base").mkdir(parents=True)
    for name in ("lock.json", "base/recipe.json"):
        (tmp_path / "images" / name).write_bytes((images_root() / name).read_bytes())
    return tmp_path / "images"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMTRIAL_BASE_IMAGE", raising=False)
    monkeypatch.setenv("MEMTRIAL_ENGINE", "keep")


def committed() -> ImageLock:
    lock = read_lock(images_root() / "lock.json")
    assert lock is not None
    return lock


def cache_a_base(cache: Path, images: Path, packages: tuple[LockedPackage, ...]) -> Path:
    recipe = sha256_hex((images / "base" / "recipe.json").read_bytes())[:16]
    path = cache / "images" / f"base-{recipe}.tar"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"another base")
    note = CachedBase(diff_id=f"sha256:{sha256_hex(b'another base')}", bytes=12, packages=packages)
    path.with_suffix(".json").write_bytes(note.canonical())
    return path


def moved_on(lock: ImageLock) -> tuple[LockedPackage, ...]:
    first = lock.packages[0]
    return (LockedPackage(name=first.name, version="99"), *lock.packages[1:])


@pytest.mark.parametrize("name", [image.name for image in committed().images])
def test_the_committed_lock_was_made_from_the_recipes_as_they_are(name: str) -> None:
    locked = {image.name: image for image in committed().images}
    assert locked[name].recipe_sha256 == recipe_sha256(images_root(), name), "run `memtrial images --write-lock`"  # fmt: skip


def test_every_locked_image_stands_on_the_locked_base() -> None:
    lock = committed()
    base = next(image for image in lock.images if image.name == "base")
    assert all(image.diff_ids[:1] == base.diff_ids for image in lock.images)
    assert {"git", "python3-minimal"} <= {package.name for package in lock.packages}


def test_ids_can_be_computed_from_the_lock_alone(images: Path, tmp_path: Path) -> None:
    found = ensure_base(None, images, tmp_path / "cache", tmp_path / "local.json", lambda _: None)
    assert found.layer.diff_id == committed().images[0].diff_ids[0]
    assert found.packages == committed().packages
    assert not (tmp_path / "cache").exists()


def test_a_base_with_moved_packages_is_said_and_used(images: Path, tmp_path: Path) -> None:
    cache_a_base(tmp_path / "cache", images, moved_on(committed()))
    (images / "lock.json").write_bytes(without_images_at_hand(committed()))
    said: list[str] = []
    base = ensure_base(None, images, tmp_path / "cache", tmp_path / "local.json", said.append)
    first = committed().packages[0]
    assert base.layer.diff_id == f"sha256:{sha256_hex(b'another base')}"
    assert f"  {first.name} {first.version} -> 99" in said


def without_images_at_hand(lock: ImageLock) -> bytes:
    return lock.model_copy(update={"base_origin": "made from an earlier recipe"}).canonical()


def test_an_official_run_refuses_a_base_with_moved_packages(images: Path, tmp_path: Path) -> None:
    cache_a_base(tmp_path / "cache", images, moved_on(committed()))
    (images / "lock.json").write_bytes(without_images_at_hand(committed()))
    with pytest.raises(IntegrityError, match="-> 99"):
        ensure_base(
            None, images, tmp_path / "cache", tmp_path / "local.json", lambda _: None, official=True
        )


def test_without_an_engine_no_base_is_ever_made(images: Path, tmp_path: Path) -> None:
    (images / "lock.json").unlink()
    with pytest.raises(EnvironmentMissing, match="lock or cache"):
        ensure_base(None, images, tmp_path / "cache", tmp_path / "local.json", lambda _: None)
    assert not (tmp_path / "cache").exists()


def test_a_cached_base_of_another_size_is_not_used(images: Path, tmp_path: Path) -> None:
    path = cache_a_base(tmp_path / "cache", images, ())
    path.write_bytes(b"cut short")
    assert base_module._read_cached(path) is None


def test_a_base_image_must_be_named_by_digest(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTRIAL_BASE_IMAGE", "debian:12")
    with pytest.raises(DocumentError, match="@sha256"):
        ensure_base(None, images, tmp_path / "cache", tmp_path / "local.json", lambda _: None)


def test_where_no_base_can_be_made_the_error_holds_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = BaseRecipe.parse((images_root() / "base" / "recipe.json").read_bytes(), where="r")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentMissing) as caught:
        bootstrap(recipe, tmp_path / "base.tar", lambda _: None)
    wanted = "apt-get install" if os.geteuid() == 0 else "MEMTRIAL_BASE_IMAGE"
    assert wanted in caught.value.hint


def test_the_difference_of_packages_is_one_line_each() -> None:
    old = (LockedPackage(name="a", version="1"), LockedPackage(name="b", version="1"))
    new = (LockedPackage(name="b", version="2"), LockedPackage(name="c", version="1"))
    assert package_difference(old, new) == ["a 1 -> absent", "b 1 -> 2", "c absent -> 1"]


KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def test_the_machines_mirror_and_keyring_serve_another_release() -> None:
    stanza = f"# a remark: kept out\nTypes: deb\nURIs: http://mirror.invalid/d\nSuites: trixie trixie-updates trixie-backports\nComponents: main\nSigned-By: {KEYRING}"
    assert from_stanza(stanza, "trixie", "bookworm") == [
        f"deb [signed-by={KEYRING}] http://mirror.invalid/d bookworm main",
        f"deb [signed-by={KEYRING}] http://mirror.invalid/d bookworm-updates main",
    ]
    line = "deb http://mirror.invalid/s bookworm-security main contrib"
    assert from_line(line, "bookworm", "bookworm") == ["deb http://mirror.invalid/s bookworm-security main"]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "deb [signed-by=/etc/apt/keyrings/other.gpg] http://other.invalid bookworm main",
        "deb http://other.invalid bookworm stable",
        "deb http://other.invalid bookworm-pgdg main",
        "deb http://other.invalid bookworm-backports main",
        "deb-src http://mirror.invalid bookworm main",
        "# deb http://mirror.invalid bookworm main",
        "",
    ],
)
def test_sources_that_are_not_debians_own_release_stay_out(line: str) -> None:
    assert from_line(line, "bookworm", "bookworm") == []


@pytest.mark.parametrize(
    "field", ["Enabled: no", "Signed-By: /etc/apt/keyrings/other.gpg", "Types: deb-src"]
)
def test_stanzas_that_are_not_debians_own_stay_out(field: str) -> None:
    stanza = f"Types: deb\nURIs: http://x.invalid\nSuites: bookworm\nComponents: main\n{field}"
    assert from_stanza(stanza, "bookworm", "bookworm") == []
