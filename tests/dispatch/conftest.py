"""A folder whose every parent belongs to its owner alone, and a supervisor of a smoke run in it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dispatch.supervised import Site, site
from tests.live import live_plan


@pytest.fixture
def clean_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=".memtrial-test-", dir=Path.home()))
    yield folder
    shutil.rmtree(folder)


def smoke(origin: str):
    return live_plan(origin, phase="smoke", namespace="smoke-one", task_set="smoke")


@pytest.fixture
def here(clean_folder) -> Iterator[Site]:
    with site(clean_folder, smoke) as made:
        yield made
