"""Promise: a built-in system is pinned by its own code and all that it stands on, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.core.errors import UsageError
from orchestrator.memory import shelf
from orchestrator.memory.shelf import ABSENT, SHELF, Shelved, adapter_sha256, available, shelved


@pytest.fixture
def changed(monkeypatch):
    """Pretends that one module of the room has other bytes, and gives the names whose pin changed."""
    before = {name: adapter_sha256(name) for name in SHELF}
    real = shelf._source_of

    def change(module: str, folder: Path) -> set[str]:
        other = folder / "changed.py"
        source = real(module)
        assert source is not None
        other.write_bytes(source.read_bytes() + b"\n# changed\n")
        monkeypatch.setattr(
            shelf, "_source_of", lambda name: other if name == module else real(name)
        )
        return {name for name in SHELF if adapter_sha256(name) != before[name]}

    return change


@pytest.mark.parametrize(
    ("module", "hit", "spared"),
    [
        ("orchestrator.memory.raw_fts", {"raw_fts"}, {"curated", "placebo", "none"}),
        ("orchestrator.memory.sqlite.search", {"raw_fts", "full_history"}, {"curated", "none"}),
        ("orchestrator.memory.redact", {"raw_fts", "history_tail", "oracle_evidence"}, {"curated"}),
        ("orchestrator.memory.curated", {"curated", "conventions"}, {"raw_fts", "seeded"}),
        ("orchestrator.memory.compile", {"curated", "raw_fts", "placebo", "seeded"}, set()),
    ],
)
def test_a_changed_module_changes_the_pin_of_what_stands_on_it(changed, tmp_path, module, hit, spared):  # fmt: skip
    found = changed(module, tmp_path)
    assert hit <= found
    assert not spared & found


def test_a_system_over_another_is_pinned_by_both(monkeypatch):
    one, two = (
        Shelved("above", over="raw_fts"),
        Shelved("above", over="curated"),
    )
    pins = []
    for entry in (one, two):
        monkeypatch.setattr(shelf, "SHELF", {**SHELF, "over": entry})
        pins.append(adapter_sha256("over"))
    assert pins[0] != pins[1]


def test_a_system_that_is_not_installed_has_the_digest_of_nothing(monkeypatch):
    monkeypatch.setattr(shelf, "SHELF", {**SHELF, "ghost": Shelved("no_such_module")})
    assert adapter_sha256("ghost") == ABSENT
    assert not available("ghost")


def test_an_unknown_system_is_refused_with_the_close_ones():
    with pytest.raises(UsageError) as caught:
        shelved("raw_ftz")
    assert "raw_fts" in caught.value.hint
