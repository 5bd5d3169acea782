"""The scripted agents: oracle, noop, follower. They make the wiring measurable without a model.

Reads one JSON object from standard input (the prompt as every agent gets it, and the play that the
driver sends at `act`), edits the work area with `git apply`, writes one JSON line for each thing it
does. Runs inside the container like any other agent; no answer lies in the image.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def fold(text: str) -> str:
    """Folds case and white space, so that wording decides and layout does not."""
    return " ".join(text.casefold().split())


def knows(prompt: str, fact: dict[str, Any]) -> bool:
    """Tells whether one alternative wording of the fact stands in the prompt."""
    folded = fold(prompt)
    return any(all(fold(part) in folded for part in parts) for parts in fact["any_of"])


def say(kind: str, text: str) -> None:
    """Writes one transcript line."""
    print(json.dumps({"kind": kind, "text": text}), flush=True)


def apply(patch: str) -> int:
    """Applies a unified diff to the work area."""
    finished = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"], input=patch.encode(), check=False
    )
    say("tool_call", f"git apply: exit {finished.returncode}")
    return finished.returncode


def main() -> int:
    """Plays the script and returns the exit code."""
    play = json.load(sys.stdin)
    name = play["play"]
    if name == "noop":
        say("message", "Nothing to do.")
        return 0
    if name == "oracle":
        say("message", "Applying the reference change.")
        return apply(play["reference_patch"])
    missing = [fact["id"] for fact in play["facts"] if not knows(play["prompt"], fact)]
    if missing:
        say("message", f"Not told about {', '.join(missing)}; doing what seems natural.")
        return apply(play["natural_patch"])
    say("message", "All facts are at hand; doing as agreed.")
    return apply(play["reference_patch"])


if __name__ == "__main__":
    raise SystemExit(main())
