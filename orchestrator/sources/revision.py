"""Which memtrial made a plan: the clone's commit and whether it was changed, or the installed wheel's digest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator import __version__
from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.places import clone_root, data_root

# Untracked files elsewhere (a plan, notes, results) cannot change what a run does.
WHAT_RUNS = ("orchestrator", "images", "fixtures", "pyproject.toml", "requirements")


@dataclass(frozen=True, slots=True)
class SourceState:
    """Which memtrial this is, and the files that differ from its commit (sorted)."""

    revision: str
    changed: tuple[str, ...]

    @property
    def dirty(self) -> bool:
        """Whether the commit alone does not say what runs."""
        return bool(self.changed)


def source_state(root: Path | None = None) -> SourceState:
    """Returns the state of a clone, by default of the one that runs.

    A wheel has no history: its revision is a digest over its files. A clone is dirty with tracked files
    that changed, or untracked ones where they can change a result.
    """
    root = root or clone_root()
    if root is None or not (root / ".git").exists():
        return SourceState(f"dist:{__version__}:{_package_digest(data_root())}", ())
    import git

    client = git.Git(str(root))
    client.update_environment(GIT_NO_REPLACE_OBJECTS="1", GIT_OPTIONAL_LOCKS="0")
    safe = [
        "git",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        f"safe.directory={root}",
    ]
    tracked = ["status", "--porcelain", "--untracked-files=no", "--no-renames", "-z"]
    untracked = [
        "ls-files",
        "--others",
        "--exclude-per-directory=.gitignore",
        "-z",
        "--",
        *WHAT_RUNS,
    ]
    try:
        commit = str(client.execute([*safe, "rev-parse", "HEAD"]))
        changed = str(client.execute([*safe, *tracked], strip_newline_in_stdout=False))
        others = str(client.execute([*safe, *untracked], strip_newline_in_stdout=False))
    except git.GitCommandError as error:
        why = f"git refused: {str(error.stderr).strip()[:200]}"
        return SourceState(f"dist:{__version__}:{_package_digest(root)}", (why,))
    # git-status(1): two letters of state, a space, the path.
    names = {line[3:] for line in changed.split("\0") if line} | set(others.split("\0")) - {""}
    return SourceState(f"git:{commit}", tuple(sorted(names)))


def _package_digest(root: Path) -> str:
    package = Path(__file__).resolve().parent.parent
    folders = (package, root / "fixtures", root / "images")
    files = {
        path.relative_to(folder.parent).as_posix(): sha256_hex(path.read_bytes())
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and "__pycache__" not in path.parts
        and path.suffix != ".pyc"
        and path.name != "lock.local.json"
    }
    return digest_sha256(files)
