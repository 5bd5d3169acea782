"""A memory product of one file that lives on hooks: it keeps what was settled, and says what is akin to a prompt.

Reads one event as JSON on standard input, as Claude Code hands it to a hook. What it prints on SessionStart
and UserPromptSubmit is put before the model. Its store is one file in the home folder.
"""

import json
import os
import re
import sys
from pathlib import Path

NOTES = Path.home() / ".veto-notes" / "notes.jsonl"
CUES = re.compile(r"\b(decid|agree|reject|never|always|keep|must|not|root cause|correct)", re.I)
SECRET = re.compile(r"\b(gh[pousr]_\w{20,}|sk-[\w-]{20,}|AKIA[A-Z0-9]{16})|(?<=BEGIN )[\s\S]{200,}")
LATEST = 3
MAX_CHARACTERS = 1800


def keep(project, said):
    """Adds what holds a cue word, without secrets, once."""
    text = " ".join(SECRET.sub("[redacted]", said).split())[:400]
    if not CUES.search(text):
        return
    note = {"project": project, "at": os.environ.get("MEMTRIAL_NOW", ""), "text": text}
    NOTES.parent.mkdir(exist_ok=True)
    with NOTES.open("a") as file:
        file.write(json.dumps(note) + "\n")


def notes_of(project):
    """Returns the notes of a project, oldest first."""
    if not NOTES.exists():
        return []
    notes = [json.loads(line) for line in NOTES.read_text().splitlines()]
    return [note for note in notes if note["project"] == project]


def akin(notes, prompt):
    """Returns the notes that share most words with a prompt, as many as fit."""
    asked, found, left = words(prompt), [], MAX_CHARACTERS
    for note in sorted(notes, key=lambda note: -len(asked & words(note["text"]))):
        left -= len(note["text"])
        if left < 0:
            break
        found.append(note)
    return found


def words(text):
    """Returns the words of a text that may tell its subject."""
    return set(re.findall(r"[a-z]{4,}", text.lower()))


def tell(notes):
    """Prints notes for the model, one a line."""
    for note in notes:
        print(f"{note['at'][:10]} {note['text']}")


def main():
    """Takes one event."""
    event = json.load(sys.stdin)
    project, name = event["cwd"], event["hook_event_name"]
    if name == "SessionStart":
        tell(notes_of(project)[-LATEST:])
    elif name == "UserPromptSubmit":
        tell(akin(notes_of(project), event["prompt"]))
        keep(project, event["prompt"])
    elif name == "PostToolUse":
        keep(project, f"{event['tool_input'].get('command')}: {event['tool_response']['stdout']}")
    elif name == "Stop":
        last = Path(event["transcript_path"]).read_text().splitlines()[-1]
        keep(project, json.loads(last)["message"]["content"][0].get("text", ""))


if __name__ == "__main__":
    main()
