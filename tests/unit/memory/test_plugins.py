"""Promise: a memory system of another package is found by its exact name, pinned by its code, and lived like any other."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import marshal
import sys
from pathlib import Path

import pytest

from orchestrator.core.errors import EnvironmentMissing, IntegrityError, UsageError
from orchestrator.memory.watchdog import Watchdog
from orchestrator.model.condition import Condition
from orchestrator.model.lifecycle import Step
from orchestrator.pipeline.memory import adapter_of, check_pins, pinned_now
from orchestrator.plugins import MEMORY_GROUP, find_plugin
from tests.unit.memory.lives import COUNTER, arm, life_of, said

SOURCE = """
from orchestrator.memory.tokens import TokenCounter
from orchestrator.memory.verbatim import VerbatimMemory

class Theirs(VerbatimMemory):
    name = "theirs"

def adapter():
    return Theirs(TokenCounter())
"""


def install(folder: Path, package: str, source: str = SOURCE) -> None:
    """Lays a package out as an installer does."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(source)
    info = folder / f"{package}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[{MEMORY_GROUP}]\ntheirs = {package}:adapter\n")


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("their_memory")]:
        del sys.modules[name]


@pytest.fixture
def theirs() -> Condition:
    return arm("theirs").model_copy(update={"adapter_kind": "entry_point"})


def bytecode(source: str, path: Path) -> bytes:
    """Compiles as an installer does that wants its bytecode believed unseen (PEP 552, unchecked)."""
    code = marshal.dumps(compile(source, str(path), "exec"))
    return importlib.util.MAGIC_NUMBER + b"\x01\x00\x00\x00" + bytes(8) + code


def test_a_package_is_found_with_its_version_and_lives_like_any_other(site, theirs):
    install(site, "their_memory_a")
    found = find_plugin(MEMORY_GROUP, "theirs")
    assert (found.distribution, found.version) == ("their_memory_a", "1.2")
    remembered = life_of(adapter_of(theirs, None, COUNTER)(), theirs, said("one", "two"))
    assert remembered.failure is None
    assert remembered.captured_events == 2


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise SystemExit('gone')\n", "SystemExit: gone"),
        ("import no_such_dependency\n", "ModuleNotFoundError"),
        ("def adapter():\n    raise ValueError('no key')\n", "ValueError: no key"),
        ("def adapter():\n    return None\n", "AttributeError"),
    ],
)
def test_a_package_that_cannot_be_loaded_or_made_has_failed_at_its_first_step(
    site, theirs, source, told
):
    install(site, "their_memory_f", source)
    remembered = life_of(adapter_of(theirs, None, COUNTER)(), theirs, said("one"))
    assert remembered.failure is not None
    assert (remembered.failure.step, remembered.failure.kind) == (Step.DESCRIBE, "crashed")
    assert told in remembered.failure.detail


def test_looking_a_package_up_runs_none_of_it(site):
    install(site, "their_memory_b", "raise SystemExit('ran')\n")
    assert find_plugin(MEMORY_GROUP, "theirs").sha256
    assert "their_memory_b" not in sys.modules


def test_one_changed_byte_of_a_package_breaks_its_pin(site, theirs):
    install(site, "their_memory_c")
    pinned = theirs.model_copy(update={"adapter_sha256": pinned_now(theirs)})
    check_pins((pinned,))
    with (site / "their_memory_c" / "__init__.py").open("a") as file:
        file.write("#")
    with pytest.raises(Exception, match="expected adapter theirs with SHA-256"):
        check_pins((pinned,))


def test_bytecode_beside_the_pinned_source_is_never_run(site, theirs):
    install(site, "their_memory_g")
    before = pinned_now(theirs)
    path = site / "their_memory_g" / "__init__.py"
    planted = Path(importlib.util.cache_from_source(str(path)))
    planted.parent.mkdir()
    planted.write_bytes(bytecode("raise SystemExit('planted')", path))
    assert pinned_now(theirs) == before
    remembered = life_of(adapter_of(theirs, None, COUNTER)(), theirs, said("one"))
    assert remembered.failure is None


def test_a_module_that_is_bytecode_alone_is_part_of_the_pin_and_not_imported(site, theirs):
    install(site, "their_memory_h", "from their_memory_h.inner import adapter\n")
    before = pinned_now(theirs)
    path = site / "their_memory_h" / "inner.pyc"
    path.write_bytes(bytecode(SOURCE, path))
    assert pinned_now(theirs) != before
    remembered = life_of(adapter_of(theirs, None, COUNTER)(), theirs, said("one"))
    assert remembered.failure is not None
    assert "no source of their_memory_h.inner" in remembered.failure.detail


def test_a_package_that_changes_after_it_was_pinned_is_not_loaded(site, theirs):
    install(site, "their_memory_o", "from their_memory_o.inner import adapter\n")
    inner = site / "their_memory_o" / "inner.py"
    inner.write_text(SOURCE)
    pinned = theirs.model_copy(update={"adapter_sha256": pinned_now(theirs)})
    make = adapter_of(pinned, None, COUNTER)
    inner.write_text(SOURCE + "# swapped\n")
    remembered = life_of(make(), pinned, said("one"))
    assert remembered.failure is not None
    assert "inner.py as it was pinned, found other bytes" in remembered.failure.detail
    with pytest.raises(IntegrityError, match="expected adapter theirs with SHA-256"):
        adapter_of(pinned, None, COUNTER)


def test_source_in_the_folder_of_bytecode_is_part_of_the_pin(site):
    install(site, "their_memory_k")
    before = find_plugin(MEMORY_GROUP, "theirs").sha256
    cache = site / "their_memory_k" / "__pycache__"
    cache.mkdir()
    (cache / "inner.py").write_text(SOURCE)
    assert find_plugin(MEMORY_GROUP, "theirs").sha256 != before


def test_a_package_that_links_to_folders_elsewhere_has_no_pin(site, tmp_path_factory):
    install(site, "their_memory_l")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "__init__.py").write_text(SOURCE)
    (site / "their_memory_l" / "inner").symlink_to(elsewhere)
    with pytest.raises(EnvironmentMissing, match=r"found the link .*their_memory_l/inner"):
        find_plugin(MEMORY_GROUP, "theirs")


def test_what_a_package_takes_from_folders_outside_its_pin_is_not_loaded(
    site, theirs, tmp_path_factory
):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "inner.py").write_text(SOURCE)
    install(
        site,
        "their_memory_m",
        f"__path__.append({str(elsewhere)!r})\nfrom their_memory_m.inner import adapter\n",
    )
    remembered = life_of(adapter_of(theirs, None, COUNTER)(), theirs, said("one"))
    assert remembered.failure is not None
    assert "no source of their_memory_m.inner below" in remembered.failure.detail


def test_a_package_that_a_finder_of_its_own_finds_is_loaded_from_where_it_was_pinned(
    site, theirs, tmp_path_factory, monkeypatch
):
    elsewhere = tmp_path_factory.mktemp("editable")
    install(site, "their_memory_n", "raise SystemExit('another')\n")
    (elsewhere / "their_memory_n").mkdir()
    (elsewhere / "their_memory_n" / "__init__.py").write_text(SOURCE)

    class Editable:
        def find_spec(self, fullname, path=None, target=None):
            finder = importlib.machinery.PathFinder
            return finder.find_spec(fullname, [str(elsewhere)]) if path is None else None

    monkeypatch.setattr(sys, "meta_path", [Editable(), *sys.meta_path])
    assert find_plugin(MEMORY_GROUP, "theirs").root == elsewhere / "their_memory_n"
    remembered = life_of(adapter_of(theirs, None, COUNTER)(), theirs, said("one"))
    assert remembered.failure is None


def test_a_namespace_has_no_pin(site):
    install(site, "their_memory_p")
    (site / "their_memory_p" / "__init__.py").rename(site / "their_memory_p" / "inner.py")
    with pytest.raises(EnvironmentMissing, match="found the namespace their_memory_p"):
        find_plugin(MEMORY_GROUP, "theirs")


def test_a_package_without_source_has_no_pin(site, theirs):
    install(site, "their_memory_i")
    path = site / "their_memory_i" / "__init__.py"
    path.with_suffix(".pyc").write_bytes(bytecode(SOURCE, path))
    path.unlink()
    with pytest.raises(EnvironmentMissing, match="found bytecode alone"):
        pinned_now(theirs)


def test_a_package_that_was_loaded_in_another_way_is_refused(site, theirs):
    install(site, "their_memory_j")
    importlib.import_module("their_memory_j")
    remembered = life_of(adapter_of(theirs, None, COUNTER)(), theirs, said("one"))
    assert remembered.failure is not None
    assert "found it loaded by another way" in remembered.failure.detail


def test_a_name_that_nobody_or_more_than_one_provides_is_refused(site):
    with pytest.raises(EnvironmentMissing, match="found none"):
        find_plugin(MEMORY_GROUP, "theirs")
    install(site, "their_memory_d")
    install(site, "their_memory_e")
    with pytest.raises(UsageError, match="their_memory_d, their_memory_e"):
        find_plugin(MEMORY_GROUP, "theirs")


def test_an_error_of_ours_raised_by_foreign_code_is_still_its_own_failure():
    def pretend() -> None:
        raise EnvironmentMissing("engine-fault", "not our fault", hint="retry")

    watchdog = Watchdog(ours=False)
    with pytest.raises(Exception, match="EnvironmentMissing: not our fault") as caught:
        watchdog.call(pretend, 5.0)
    assert type(caught.value).__name__ == "AdapterFault"
    watchdog.end()
    ours = Watchdog(ours=True)
    with pytest.raises(EnvironmentMissing):
        ours.call(pretend, 5.0)
    ours.end()
