"""Promise: which paths are given back before the tests is one rule, where the tests are run and where that is verified."""

from __future__ import annotations

import random
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.core.places import fixtures_root, images_root
from orchestrator.scoring.runners import exam_for, restored_paths
from orchestrator.scoring.seal import draw_seal
from orchestrator.sources.loader import load_task

TASKS = sorted(path.name for path in (fixtures_root() / "tasks").iterdir() if path.is_dir())
PARTS = (
    *("src", "tests", "Tests", "conftest.py", "CONFTEST.PY", "pytest.ini", "random.py", "a.pth"),
    *("x\ny", "té.py", "a_test.go", "go.mod", "package.json", "a.test.js", "test", "Cargo.toml"),
)


@pytest.fixture(scope="module")
def restore():
    """The verifier's own function, over trees that are given as tables."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in ("agent", "verifier"):
            patch.syspath_prepend(str(images_root() / folder))
        import verify

        yield verify.restore_protected
    for name in ("verify", "plumbing", "frames"):
        sys.modules.pop(name, None)


def trees(rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    paths = {"/".join(rng.choices(PARTS, k=rng.randint(1, 3))) for _ in range(80)}
    old = {path: ("100644", f"{rng.randrange(3)}" * 40) for path in paths if rng.random() < 0.7}
    new = {path: ("100644", f"{rng.randrange(3)}" * 40) for path in paths if rng.random() < 0.7}
    return old, new


@pytest.mark.parametrize("task_id", TASKS)
def test_the_verifier_gives_back_what_follows_from_the_change(restore, task_id):
    task = load_task(fixtures_root(), task_id)
    exam = exam_for(task.card.runner, task.key, draw_seal("fail_to_pass"))
    rng, given_back = random.Random(task_id), 0
    for _ in range(20):
        old, new = trees(rng)
        repository = SimpleNamespace(
            tree_entries=lambda tree, old=old, new=new: old if tree == "old" else new,
            git=lambda *_, **__: b"",
        )
        changed = [path for path in {*old, *new} if old.get(path) != new.get(path)]
        found = restore(repository, "old", "new", list(exam.protected))
        assert restored_paths(exam, changed) == tuple(found)
        given_back += len(found)
    assert given_back, "the trees must hold protected paths"
