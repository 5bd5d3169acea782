"""Applies a patch of an imported task to files in memory, by git in a temporary folder without any setting."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from orchestrator.core.errors import DocumentError, EnvironmentMissing
from orchestrator.core.files import safe_relative
from orchestrator.core.gittree import FileEntry
from orchestrator.core.patchtext import touched_paths
from orchestrator.sources.clients import run_client

ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CEILING_DIRECTORIES": "/",
    "HOME": "/nonexistent",
}


def texts_after(entries: Iterable[FileEntry], patch: str, *, where: str) -> dict[str, str]:
    """Returns the text of every file that a patch touches, as it is afterwards; deleted ones are left out.

    Raises:
        DocumentError: the patch does not apply, names a path outside, or gives a file that is no text.
    """
    touched = [str(safe_relative(path, where=where)) for path in touched_paths(patch)]
    with tempfile.TemporaryDirectory(prefix="memtrial-patch-") as name:
        folder = Path(name) / "tree"
        folder.mkdir()
        for entry in entries:
            if entry.path in touched and entry.mode != "120000":
                (folder / entry.path).parent.mkdir(parents=True, exist_ok=True)
                (folder / entry.path).write_bytes(entry.data)
        file = Path(name) / "patch"
        file.write_text(patch, encoding="utf-8")
        try:
            run_client(
                ["git", "apply", "--whitespace=nowarn", str(file)],
                folder=folder,
                environment=ENVIRONMENT,
                hint="install git",
                timeout_s=60,
            )
            return {
                path: (folder / path).read_text(encoding="utf-8")
                for path in touched
                if (folder / path).is_file() and not (folder / path).is_symlink()
            }
        except (EnvironmentMissing, UnicodeDecodeError) as error:
            raise DocumentError(
                "patch-does-not-apply",
                f"{where}: expected a patch of text files that applies to the pinned tree, found: {error}",
                hint="check the row's base_commit and test_patch",
            ) from error
