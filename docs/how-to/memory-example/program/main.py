"""A whole memory system in one file: keeps every line that holds a cue word, finds by shared words.

Speaks JSON lines over standard input and output; its store is one file below /work. Standard library only.
"""

import json
import re
import sys
from pathlib import Path

STORE = Path("/work/notes.json")
MAX_CHARACTERS = 600
CUES = re.compile(r"\b(decid|agree|reject|never|always|keep|must|not|root cause|correct)", re.I)
SECRET = re.compile(r"\b(gh[pousr]_\w{20,}|sk-[\w-]{20,}|AKIA[A-Z0-9]{16})|(?<=BEGIN )[\s\S]{200,}")


class Memory:
    """The store, in memory until the freeze."""

    def __init__(self):
        self.notes = {}

    def describe(self, request):
        return {
            "schema_version": 1,
            "adapter": "cue_lines",
            "version": "1",
            "capabilities": {
                "timestamps": True,
                "update": False,
                "delete": False,
                "scopes": True,
                "as_of": True,
            },
            "shows": ["capture", "store", "retrieval"],
            "information": "raw",
        }

    def open(self, request):
        return None

    def ingest(self, request):
        session, events = request["session"], []
        for event in session["events"]:
            text, redactions = SECRET.subn("[redacted]", event["text"])
            flat = " ".join(text.split())
            if not CUES.search(text):
                events.append(
                    {"event_id": event["event_id"], "outcome": "dropped", "reason": "no cue"}
                )
                continue
            self.notes[event["event_id"]] = {
                "memory_id": event["event_id"],
                "kind": "fact",
                "text": f"{event['at'][:10]} {event['role']}: {flat[:MAX_CHARACTERS]}",
                "scope": session["scope"],
                "status": "active",
                "evidence_event_ids": [event["event_id"]],
                "recorded_at": event["at"],
            }
            events.append(
                {
                    "event_id": event["event_id"],
                    "outcome": "captured",
                    "redactions": redactions,
                    "cut_characters": max(0, len(flat) - MAX_CHARACTERS),
                }
            )
        return {"schema_version": 1, "session_id": session["session_id"], "events": events}

    def settle(self, request):
        return {
            "schema_version": 1,
            "extractor": "lines with a cue word",
            "tasks": [],
            "candidates": [],
        }

    def freeze(self, request):
        STORE.write_text(json.dumps(self.dump({"as_of": None}), sort_keys=True))

    def dump(self, request):
        as_of = request["as_of"]
        kept = [n for n in self.notes.values() if as_of is None or n["recorded_at"] <= as_of]
        whole = {"valid_from": None, "valid_to": None, "superseded_by": None}
        memories = sorted(({**whole, **n} for n in kept), key=lambda n: n["memory_id"])
        return {"schema_version": 1, "memories": memories, "links": []}

    def retrieve(self, request):
        query = request["query"]
        asked = words(query["prompt"])
        mine = [n for n in self.notes.values() if n["scope"] == query["scope"]]
        mine.sort(key=lambda n: (-len(asked & words(n["text"])), n["recorded_at"], n["memory_id"]))
        items = [
            {
                "memory_id": n["memory_id"],
                "text": n["text"],
                "source_event_ids": n["evidence_event_ids"],
                "channels": [{"channel": "words", "rank": rank}],
            }
            for rank, n in enumerate(mine[: query["k"]], 1)
        ]
        return {
            "schema_version": 1,
            "query_sha256": request["query_sha256"],
            "considered": len(mine),
            "items": items,
        }


def words(text):
    """Returns the words of a text that may tell its subject."""
    return set(re.findall(r"[a-z]{4,}", text.lower()))


def main():
    """Answers line by line until the end of the input."""
    memory = Memory()
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"answer": getattr(memory, request["step"])(request)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
