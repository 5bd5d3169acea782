"""A folder whose every parent belongs to its owner alone, unlike the system's place for temporary files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def clean_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=".memtrial-test-", dir=Path.home()))
    yield folder
    shutil.rmtree(folder)
