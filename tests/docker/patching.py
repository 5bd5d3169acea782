"""Patches made of a task's own: a file more, a line otherwise."""

from __future__ import annotations


def added(path, text):
    """A patch that adds a file."""
    lines = text.splitlines()
    body = "".join(f"+{line}\n" for line in lines)
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{body}"  # fmt: skip


def replaced(patch, old, new):
    """A patch of one new file or hunk with a line made others."""
    assert f"+{old}\n" in patch
    more = new.count("\n")
    head, at, rest = patch.partition("@@ -")
    if more:
        count = int(rest.split(" ")[1].partition(",")[2])
        rest = rest.replace(f",{count} @@", f",{count + more} @@", 1)
    return head + at + rest.replace(f"+{old}\n", "+" + new.replace("\n", "\n+") + "\n")
