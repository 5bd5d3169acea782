"""A branch of a local git repository that keeps checkpoints: one commit each, no file ever changed.

Works on objects and one ref; the repository's work tree, index and hooks are not touched.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile

from orchestrator.core.errors import UsageError

BRANCH = "refs/heads/memtrial-checkpoints"


class GitMirror:
    """The branch of one repository."""

    def __init__(self, repository: Path) -> None:
        import git

        self._git = git.Git(str(repository))
        self._git.update_environment(
            GIT_NO_REPLACE_OBJECTS="1",
            GIT_AUTHOR_NAME="memtrial",
            GIT_AUTHOR_EMAIL="memtrial@localhost",
            GIT_COMMITTER_NAME="memtrial",
            GIT_COMMITTER_EMAIL="memtrial@localhost",
        )
        self._failure = git.GitCommandError
        try:
            self._run("rev-parse", "--git-dir")
        except (git.GitCommandError, git.GitCommandNotFound, OSError) as error:
            raise UsageError(
                "mirror-not-a-repository",
                f"expected a git repository at {repository}, found none",
                hint=f"run `git init {repository}`, or give --to a folder",
            ) from error

    def kept(self, run: str) -> dict[str, bytes]:
        """Returns the checkpoints of a run that the branch holds, by name."""
        if self._tip() is None:
            return {}
        listed = self._text("ls-tree", "--name-only", BRANCH, f"{run}/").splitlines()
        return {
            name.rpartition("/")[2]: self._run("cat-file", "blob", f"{BRANCH}:{name}")
            for name in listed
        }

    def add(self, name: str, data: bytes, message: str) -> None:
        """Commits one new file on top of the branch.

        Raises:
            UsageError: someone else moved the branch meanwhile.
        """
        tip = self._tip()
        blob = self._text("hash-object", "-w", "--stdin", istream=data)
        folder, _, leaf = name.partition("/")
        rest = [
            line
            for line in (self._text("ls-tree", tip).splitlines() if tip else [])
            if line.partition("\t")[2] != folder
        ]
        held = tip is not None and self._text("ls-tree", tip, folder)
        inner = self._text("ls-tree", f"{tip}:{folder}").splitlines() if held else []
        inner_tree = self._tree([*inner, f"100644 blob {blob}\t{leaf}"])
        tree = self._tree([*rest, f"040000 tree {inner_tree}\t{folder}"])
        parents = ["-p", tip] if tip else []
        commit = self._text("commit-tree", tree, *parents, "-m", message)
        try:
            self._run("update-ref", BRANCH, commit, tip or "0" * 40)
        except self._failure as error:
            raise UsageError(
                "mirror-moved",
                "expected the branch as it was read, found it moved by someone else",
                hint="run the command again",
            ) from error

    def _tip(self) -> str | None:
        try:
            return self._text("rev-parse", "--verify", "--quiet", f"{BRANCH}^{{commit}}")
        except self._failure:
            return None

    def _tree(self, lines: list[str]) -> str:
        return self._text("mktree", istream="".join(f"{line}\n" for line in lines).encode())

    def _text(self, *words: str, istream: bytes | None = None) -> str:
        return self._run(*words, istream=istream).decode().strip()

    def _run(self, *words: str, istream: bytes | None = None) -> bytes:
        safe = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
        with TemporaryFile() as stream:
            stream.write(istream or b"")
            stream.seek(0)
            return self._git.execute(
                [*safe, *words],
                istream=stream,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
            )
