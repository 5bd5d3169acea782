"""Where things are: shipped data (fixtures, image recipes), the user's cache, the results folder.

In a clone the data is the clone's own; in an installed wheel it lies inside the package. Reads the
environment and the file system, creates nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def clone_root() -> Path | None:
    """Returns the root of the clone that this package runs from, or None for an installed wheel."""
    root = _PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "fixtures").is_dir() else None


def data_root() -> Path:
    """Returns the folder that holds `fixtures/` and `images/`."""
    return clone_root() or _PACKAGE / "_data"


def fixtures_root() -> Path:
    """Returns the shipped fixtures, or the folder that MEMTRIAL_FIXTURES names."""
    named = os.environ.get("MEMTRIAL_FIXTURES")
    return Path(named) if named else data_root() / "fixtures"


def added_conditions_path() -> Path | None:
    """Returns the file with a user's own conditions that MEMTRIAL_CONDITIONS names, if it does."""
    named = os.environ.get("MEMTRIAL_CONDITIONS")
    return Path(named).absolute() if named else None


def images_root() -> Path:
    """Returns the image recipes."""
    return data_root() / "images"


def cache_root() -> Path:
    """Returns the folder for downloads, base images and the local lock (MEMTRIAL_CACHE overrides)."""
    named = os.environ.get("MEMTRIAL_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "memtrial"


def config_root() -> Path:
    """Returns the folder of the operator's own key and leave book (MEMTRIAL_CONFIG overrides)."""
    named = os.environ.get("MEMTRIAL_CONFIG")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "memtrial"


def local_home() -> Path:
    """Returns the folder of the operator's key for local approvals, with its roles and nonce book."""
    return config_root() / "local"


def results_root() -> Path:
    """Returns where runs are written: the clone's `results/`, or `./results` outside a clone."""
    named = os.environ.get("MEMTRIAL_RESULTS")
    if named:
        return Path(named)
    root = clone_root()
    return (root if root is not None else Path.cwd()) / "results"


def local_lock_path() -> Path:
    """Returns the ignored lock that this machine writes when its packages differ from the lock."""
    root = clone_root()
    return (
        root / "images" / "lock.local.json"
        if root is not None
        else cache_root() / "lock.local.json"
    )
