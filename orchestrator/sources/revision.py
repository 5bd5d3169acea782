"""Which memtrial made a plan: the clone's commit and whether it was changed, or the installed wheel's digest."""

from __future__ import annotations

from pathlib import Path

from orchestrator import __version__
from orchestrator.core.canonical import digest_sha256, sha256_hex
from orchestrator.core.places import clone_root, data_root


def source_revision() -> tuple[str, bool]:
    """Returns (revision, dirty). A wheel has no history: its revision is a digest over its files."""
    root = clone_root()
    if root is None or not (root / ".git").exists():
        return f"dist:{__version__}:{_package_digest(data_root())}", False
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
    try:
        commit = str(client.execute([*safe, "rev-parse", "HEAD"]))
        dirty = bool(client.execute([*safe, "status", "--porcelain", "--untracked-files=normal"]))
    except git.GitCommandError:
        return f"dist:{__version__}:{_package_digest(root)}", True
    return f"git:{commit}", dirty


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
