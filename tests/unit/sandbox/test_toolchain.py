"""Toolchain layers are unpacked from pinned packages, equal each time, and not made where a lock or the cache will do."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.core.gittree import FileEntry
from orchestrator.core.places import images_root
from orchestrator.model.images import ImageLock, LockedImage, WheelPart
from orchestrator.sandbox.base import read_lock
from orchestrator.sandbox.images import recipe_sha256
from orchestrator.sandbox.languages import image_of
from orchestrator.sandbox.layers import Layer, make_layer, write_layer
from orchestrator.sandbox.toolchain import LANGUAGES, Maker, Supplies, read_recipe, wheel_files

BASE = make_layer([FileEntry("base", "100644", b"base")])


def wheel(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def part(**changes):
    fields = {"project": "p", "suffix": ".whl", "sha256": "0" * 64, "root": "tool/", "to": "usr/local/tool"}  # fmt: skip
    return WheelPart.model_validate({**fields, **changes})


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images" / "plain"
    folder.mkdir(parents=True)
    recipe = {
        "schema_version": 1,
        "language": "plain",
        "architecture": "amd64",
        "wheels": [part(executable=("bin/*",)).model_dump(mode="json")],
        "links": [{"path": "usr/local/bin/tool", "target": "../tool/bin/tool"}],
        "files": [{"path": "etc/tool.conf", "text": "quiet\n"}],
    }
    (folder / "recipe.json").write_text(json.dumps(recipe))
    return tmp_path / "images"


def maker(images, tmp_path, *, locks=(), said=None):
    path = tmp_path / "tool.whl"
    path.write_bytes(wheel({"tool/bin/tool": "#!", "tool/lib/x": "x", "other/y": "y"}))
    calls = said if said is not None else []
    give = Supplies(wheel=lambda *_: path, packages=lambda *_: ())
    return Maker(images, tmp_path / "cache", give, None, locks, calls.append, folders={"work": 0o755}, image_of=image_of, load=lambda *_: True)  # fmt: skip


def test_a_layer_is_the_same_each_time_and_the_second_time_comes_from_the_cache(images, tmp_path):
    said: list[str] = []
    first = maker(images, tmp_path, said=said).layers("plain", "a" * 64, (BASE,))
    again = maker(images, tmp_path, said=said).layers("plain", "a" * 64, (BASE,))
    other = maker(images, tmp_path / "elsewhere" if (tmp_path / "elsewhere").mkdir() is None else tmp_path).layers("plain", "a" * 64, (BASE,))  # fmt: skip
    assert [x.diff_id for x in first] == [x.diff_id for x in again] == [x.diff_id for x in other]
    assert len(said) == 1


def test_a_cached_layer_that_was_cut_is_made_again(images, tmp_path):
    (layer,) = maker(images, tmp_path).layers("plain", "a" * 64, (BASE,))
    layer.data.write_bytes(b"cut")
    (again,) = maker(images, tmp_path).layers("plain", "a" * 64, (BASE,))
    assert again.diff_id == layer.diff_id
    assert again.data.stat().st_size == layer.size_bytes


def test_without_an_engine_a_lock_of_the_same_recipe_is_enough_and_of_another_is_not(images, tmp_path):  # fmt: skip
    entry = LockedImage(name="plain", recipe_sha256="a" * 64, diff_ids=(BASE.diff_id, f"sha256:{'1' * 64}"), image_id=f"sha256:{'2' * 64}", bytes=9)  # fmt: skip
    lock = ImageLock(architecture="amd64", base_origin="x", packages=(), images=(entry,))
    (found,) = maker(images, tmp_path, locks=[lock]).layers("plain", "a" * 64, (BASE,))
    assert found.diff_id == entry.diff_ids[1]
    assert not (tmp_path / "cache").exists()
    (made,) = maker(images, tmp_path, locks=[lock]).layers("plain", "b" * 64, (BASE,))
    assert made.diff_id != entry.diff_ids[1]


def test_a_toolchain_that_must_be_compiled_is_not_made_without_an_engine(images, tmp_path):
    path = images / "plain" / "recipe.json"
    recipe = json.loads(path.read_text())
    recipe["compiled"] = {"argv": ["tool"], "folder": "out"}
    path.write_text(json.dumps(recipe))
    with pytest.raises(EnvironmentMissing, match="plain toolchain"):
        maker(images, tmp_path).layers("plain", "a" * 64, (BASE,))


def test_of_a_wheel_only_the_named_folder_is_taken():
    data = wheel({"tool/bin/t": "1", "tool/testdata/x": "2", "tool/../x": "3", "info/RECORD": "4"})
    files = {e.path: e.mode for e in wheel_files(data, part(exclude=("testdata/*",), executable=("bin/*",)))}  # fmt: skip
    assert files == {"usr/local/tool/bin/t": "100755"}


def test_a_root_that_is_a_file_gives_that_file_alone():
    data = wheel({"bin/node": "1", "bin/npm": "2"})
    found = list(wheel_files(data, part(root="bin/node", to="usr/local/bin/node")))
    assert [e.path for e in found] == ["usr/local/bin/node"]


def test_a_wheel_without_the_folder_is_an_error():
    with pytest.raises(IntegrityError, match="tool/"):
        list(wheel_files(wheel({"x": "1"}), part()))


def test_a_layer_in_a_file_is_the_layer_in_memory(tmp_path):
    entries = [FileEntry("b/x", "100755", b"x"), FileEntry("a", "120000", b"b/x")]
    made = write_layer(tmp_path / "l.tar", entries, folders={"work": 0o755})
    assert isinstance(made, Layer)
    assert made.diff_id == make_layer(entries, folders={"work": 0o755}).diff_id
    assert [p.name for p in tmp_path.iterdir()] == ["l.tar"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_recipe_is_whole_and_locked_as_it_is(language):
    recipe = read_recipe(images_root(), language)
    lock = read_lock(images_root() / "lock.json")
    assert recipe.language == language
    assert lock is not None
    locked = {image.name: image for image in lock.images}
    assert locked[language].recipe_sha256 == recipe_sha256(images_root(), language)
    assert locked[f"{language}-agent"].diff_ids[:-1] == locked[language].diff_ids
    assert locked[f"{language}-agent"].diff_ids[-1] == locked["agent"].diff_ids[-1]
    assert locked[f"{language}-verifier"].diff_ids[-1] == locked["verifier"].diff_ids[-1]
