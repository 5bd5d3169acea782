"""Promise: a trust root of just its largest size is read, one of a folder, file or byte more is not; a tree's modes are whole."""

from __future__ import annotations

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.trust import repository as repository_module
from orchestrator.trust.repository import _parse_tree
from tests.unit.trust.hostile_git import new_repository
from tests.unit.trust.test_repository import FILES, gate, refusal

# Below the root: two files of two bytes each, in the folder itself and in one below it.
WHOLE = {"MAX_FILES": 2, "MAX_FOLDERS": 2, "MAX_FILES_BYTES": 4}


@pytest.mark.parametrize(("bound", "value"), WHOLE.items())
def test_a_trust_root_of_just_its_largest_size_is_read(tmp_path, monkeypatch, bound, value):
    first, _ = new_repository(tmp_path / "r", FILES)
    monkeypatch.setattr(repository_module, bound, value)
    assert gate(tmp_path / "r", first) == {"a.json": b"{}", "sub/b.json": b"[]"}
    monkeypatch.setattr(repository_module, bound, value - 1)
    assert refusal(tmp_path / "r", first) == "tracked-files-too-many"


def test_an_entry_of_a_tree_has_a_mode():
    with pytest.raises(ApprovalRefused) as refused:
        list(_parse_tree(b" name\0" + bytes(20)))
    assert refused.value.reference == "tree-malformed"
