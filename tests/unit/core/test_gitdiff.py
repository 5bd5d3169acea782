"""Promise: what a diff changed is read from it as git sees it, and no content can pose as a header."""

from __future__ import annotations

import subprocess

import pytest

from orchestrator.core.gitdiff import PathChange, read_changes

FORM = (
    *("-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv"),
    *("--no-color", "--src-prefix=a/", "--dst-prefix=b/"),
)


@pytest.fixture
def git(tmp_path):
    def run(*words: str) -> bytes:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        made = subprocess.run(
            ["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True
        )
        out: bytes = made.stdout
        return out

    run("init", "-q")
    return run


def tree_of(git) -> str:
    git("add", "-A")
    written: bytes = git("write-tree")
    return written.decode().strip()


def test_every_kind_of_change_is_read_as_the_index_has_it(git, tmp_path):
    odd = 'tab\tä"q'
    (tmp_path / "a b b").mkdir()
    (tmp_path / "a b b" / "x b").write_text("1\n2\n")
    (tmp_path / odd).write_text("q\n")
    (tmp_path / "data").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "kind").write_text("hello\n")
    (tmp_path / "mode").write_text("m")
    (tmp_path / "gone").write_text("")
    (tmp_path / "link").symlink_to("kind")
    old = tree_of(git)
    (tmp_path / "a b b" / "x b").write_text("1\n--- a/evil\n+++ b/evil\ndiff --git a/e b/e\n")
    (tmp_path / odd).write_text("q\nr\n")
    (tmp_path / "data").write_bytes(b"diff --git a/x b/x\n\0" * 500)
    (tmp_path / "kind").unlink()
    (tmp_path / "kind").symlink_to("a/../b")
    (tmp_path / "mode").chmod(0o755)
    (tmp_path / "gone").unlink()
    (tmp_path / "empty").write_text("")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("new\ntarget")
    new = tree_of(git)
    found = {change.path: change for change in read_changes(git("diff-tree", *FORM, old, new))}
    lines = git("ls-files", "-s", "-z").decode().split("\0")[:-1]
    index = {line.partition("\t")[2]: line.split()[:2] for line in lines}
    assert set(found) == {"a b b/x b", odd, "data", "kind", "mode", "gone", "empty", "link"}
    for path, (mode, blob) in index.items():
        assert found[path].new_mode == mode
        assert found[path].blob in ({None} if path == "mode" else {blob})
    assert {c.status for c in found.values()} == {"added", "modified", "deleted"}
    assert found["gone"] == PathChange("gone", "100644", None)
    assert found["mode"] == PathChange("mode", "100644", "100755")
    assert (found["kind"].old_mode, found["kind"].link_target) == ("100644", "a/../b")
    assert found["link"].link_target == "new\ntarget"


@pytest.mark.parametrize(
    "diff",
    [
        b"rename from a\n",
        b"diff --git a/x b/y\nnew file mode 100644\n",
        b"diff --git a/x  b/x\n",
        b'diff --git "a/\\x" "b/\\x"\n',
        b"diff --git x x\n",
        b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\nimport evil\n",
        b"diff --git a/x b/x\n@@ -0,0 +1,2 @@\n+one\ndiff --git a/y b/y\n",
        b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n" * 2,
    ],
)
def test_what_git_does_not_write_is_refused(diff):
    with pytest.raises(ValueError, match=r"expected|twice"):
        read_changes(diff)


def test_no_diff_changes_nothing():
    assert read_changes(b"") == ()


LONG = "".join(f"{n}\n" for n in range(12))


@pytest.mark.parametrize(
    ("old", "new", "read"),
    [
        (None, "conf", "conf"),
        (None, "conf\n", "conf\n"),
        (None, "\n", "\n"),
        ("conf", "conf\n", "conf\n"),
        ("conf\n", "conf", "conf"),
        ("a\nb", "a\nc\n", "a\nc\n"),
        (LONG, LONG + "more", None),
        (LONG, "first" + LONG, None),
    ],
)
def test_the_target_of_a_link_is_read_with_its_very_end_or_not_at_all(
    git, tmp_path, old, new, read
):
    before = tree_of(git)
    if old is not None:
        (tmp_path / "link").symlink_to(old)
        before = tree_of(git)
        (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(new)
    (change,) = read_changes(git("diff-tree", *FORM, before, tree_of(git)))
    assert change.link_target == read


def test_a_link_whose_content_is_not_its_blob_is_no_diff_of_git(git, tmp_path):
    before = tree_of(git)
    (tmp_path / "link").symlink_to("conf")
    diff = git("diff-tree", *FORM, before, tree_of(git))
    with pytest.raises(ValueError, match="content of link"):
        read_changes(diff.replace(b"+conf", b"+evil"))


@pytest.mark.parametrize(
    "names",
    [
        b'"a/x\\t" b/x',
        b'"a/\\q" "b/\\q"',
        b'"a/x "b/x"',
        b"a/x b/y",
        b"a/x  b/x",
        b"x/x b/x",
        b"",
    ],
    ids=[
        "one quoted",
        "no escape of git's",
        "open quote",
        "two paths",
        "two spaces",
        "no side",
        "none",
    ],
)
def test_a_head_that_does_not_name_one_path_twice_is_refused(names):
    with pytest.raises(ValueError, match="expected"):
        read_changes(b"diff --git " + names + b"\nold mode 100644\nnew mode 100755\n")
