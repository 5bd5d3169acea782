"""Promise: path patterns mean what a reader expects, and a diff's content cannot pose as its structure."""

import pytest

from orchestrator.core.patchtext import added_lines, binary_parts, touched_paths
from orchestrator.core.pathglob import matches_any


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("src/a.py", "src/**", True),
        ("src/x/y/a.py", "src/**", True),
        ("src", "src/**", False),
        ("srcs/a.py", "src/**", False),
        ("conftest.py", "**/conftest.py", True),
        ("a/b/conftest.py", "**/conftest.py", True),
        ("a/xconftest.py", "**/conftest.py", False),
        ("a/b.py", "*.py", False),
        ("a.py", "*.py", True),
        ("SRC/a.py", "src/**", False),
        ("axpy", "a.py", False),
        ("a/b/c", "a/*/c", True),
        ("a/b/x/c", "a/*/c", False),
    ],
)
def test_patterns(path, pattern, expected):
    assert matches_any(path, [pattern]) is expected


DIFF = b"""diff --git a/x.py b/x.py
index 1..2 100644
--- a/x.py
+++ b/x.py
@@ -1,2 +1,3 @@
 kept
-- a/evil
++ b/evil
++++ b/other
"""


def test_lines_that_look_like_headers_inside_a_hunk_are_content():
    assert added_lines(DIFF) == [b"+ b/evil", b"+++ b/other"]
    assert touched_paths(DIFF.decode()) == ["x.py"]


def test_quoted_names_are_read():
    assert touched_paths('--- "a/t\\303\\244b\\t.py"\n+++ /dev/null\n') == [["täb", ".py"][0]]


def test_a_file_without_newline_at_its_end():
    assert added_lines(b"@@ -0,0 +1 @@\n+last\n\\ No newline at end of file\n") == [b"last"]


def test_a_broken_line_of_a_binary_part_is_left_out():
    diff = b"GIT binary patch\nliteral 5\nMO=+JF*YE\nMa\x01b\n\nliteral 0\n\n"
    whole = binary_parts(diff.replace(b"Ma\x01b\n", b""))
    assert binary_parts(diff) == whole


def test_the_note_on_a_missing_last_newline_is_no_line_of_a_hunk():
    diff = b"@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+b\n+c\n"
    assert added_lines(diff) == [b"b", b"c"]
