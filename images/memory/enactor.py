"""Does a history's tool calls again with a product's own hooks around them, so that its real capture fires.

Joins a program's folder that has `hooks.json` and runs in the product's container: standard library only. Speaks
the lines of `orchestrator/memory/command.py`. A command's effects are real; what a hook is told of its output are
the recorded bytes, because every arm learns from the same history.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import enacting

# What a product writes beside this program is never imported into it.
del sys.path[0]

PROGRAM = enacting.PROGRAM
PLACE = PROGRAM.parent / "enacted"
REASON_CHARACTERS = 1000
SESSION_S = 100.0
"""How long a session may take in seconds, hooks and commands together: less than a step may."""
FORBIDS = 2
"""The exit code by which a hook forbids a call."""
SAYING = ("SessionStart", "UserPromptSubmit")

Json = dict[str, Any]


class Enactor:
    """One product through one history."""

    def __init__(self) -> None:
        self._product: Json = json.loads((PROGRAM / "hooks.json").read_text())
        self._environment: dict[str, str] = {}
        self.hooks: dict[str, list[str]] = self._product["hooks"]
        self.others = self.failed = self._done = self._alike = 0
        self._until = 0.0
        self._frozen = False
        self._program = enacting.program_files()

    def describe(self, _: Json) -> Json:
        """Tells who the product is, and which parts of the path can be seen."""
        shows = ["capture"]
        if self._product["recall"]:
            shows += ["store", "retrieval"]
        return {
            "schema_version": 1,
            "adapter": self._product["adapter"],
            "version": self._product["version"],
            "capabilities": self._product["capabilities"],
            "shows": shows,
            "information": "raw",
            "degraded": self._product["degraded"],
        }

    def open(self, request: Json) -> None:
        """Makes an empty home for the product."""
        enacting.HOME.mkdir()
        self._environment["MEMTRIAL_SEED"] = str(request["seed"])
        if request["budget"]:
            self._environment["MEMTRIAL_MAX_TOKENS"] = str(request["budget"]["max_tokens"])
        gateway = request["gateway"]
        if gateway:
            url, token = gateway["base_url"], gateway["token"]
            self._environment |= {
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": token,
                "OPENAI_BASE_URL": f"{url}/v1",
                "OPENAI_API_KEY": token,
                "MEMTRIAL_MODEL": gateway["model"],
            }

    def ingest(self, request: Json) -> Json:
        """Goes through one session, event by event."""
        if self._frozen:
            raise ValueError("expected no session after the freeze")
        self._until = time.monotonic() + SESSION_S
        return Enactment(self, request["session"]).run()

    def settle(self, request: Json) -> Json:
        """Waits for the product."""
        self._until = time.monotonic() + request["deadline_s"]
        if self._product["settle"]:
            ended = self.run(self._product["settle"], {}, request["deadline_s"])
            if ended.code != 0:
                raise ValueError(f"settle: expected exit 0, found {ended.told()}")
        return {"schema_version": 1, "extractor": None, "tasks": [], "candidates": []}

    def freeze(self, _: Json) -> None:
        """Ends what runs and takes all away but the home: from here on the product has its store alone.

        Raises:
            ValueError: a process or a file cannot be taken away, or the program is not what it was.
        """
        self._frozen = True
        self._alone()

    def dump(self, _: Json) -> Json:
        """Prints the store through the product's own command; empty where it has none."""
        with self._asked():
            return {"schema_version": 1, "memories": self._memories(), "links": []}

    def retrieve(self, request: Json) -> Json:
        """Asks, and puts the product's files back: that a task was asked is not remembered."""
        query = request["query"]
        with self._asked():
            found = self._recalled(query) if self._product["recall"] else self._said(query)
        return {
            "schema_version": 1,
            "query_sha256": request["query_sha256"],
            "considered": found["considered"],
            "items": found["items"][: query["k"]],
            "degraded": [self._account()],
        }

    def _account(self) -> str:
        return (
            f"re-enacted: {self._alike} of {self._done} commands ended with the recorded exit code, "
            f"{self.others} calls were of other tools, {self.failed} hooks failed"
        )

    def _asked(self) -> AbstractContextManager[None]:
        self._until = time.monotonic() + SESSION_S
        return enacting.question(self._alone)

    def _alone(self) -> None:
        enacting.end_others()
        enacting.forget_shared()
        enacting.forget(PROGRAM.parent, but=(PROGRAM,))
        enacting.forget_bytecode()
        if enacting.program_files() != self._program:
            raise ValueError(
                "expected a program that leaves its own folder as it is, found other files"
            )

    def _memories(self) -> list[Json]:
        if not self._product["dump"]:
            return []
        listed = self._printed("dump", {})
        whole = {"kind": "entry", "status": "active", "scope": "project"}
        return sorted(({**whole, **memory} for memory in listed), key=lambda m: str(m["memory_id"]))

    def _recalled(self, query: Json) -> Json:
        mine = {m["memory_id"]: m for m in self._memories() if m["scope"] == query["scope"]}
        asked = {"prompt": query["prompt"], "scope": query["scope"], "k": query["k"]}
        ranked = [mine[name] for name in self._printed("recall", asked) if name in mine]
        items = [
            {
                "memory_id": memory["memory_id"],
                "text": memory["text"],
                "source_event_ids": memory.get("evidence_event_ids", []),
                "channels": [{"channel": "recall", "rank": rank}],
            }
            for rank, memory in enumerate(ranked, 1)
        ]
        return {"considered": len(mine), "items": items}

    def _said(self, query: Json) -> Json:
        """Begins the task's session and takes what the hooks say to the model; one that fails says nothing."""
        call = Caller(self, "task", query["scope"])
        more = {
            "SessionStart": {"source": "startup"},
            "UserPromptSubmit": {"prompt": query["prompt"]},
        }
        items = []
        for event in SAYING:
            ended = call.fire(event, more[event])
            if ended is not None and ended.code != 0:
                raise ValueError(f"{event}: expected exit 0, found {ended.told()}")
            text = spoken(ended.out) if ended else ""
            if text:
                channels = [{"channel": event.lower(), "rank": 1}]
                items.append(
                    {"memory_id": f"said-{event.lower()}", "text": text, "channels": channels}
                )
        return {"considered": len(items), "items": items}

    def _printed(self, name: str, given: Json) -> list[Any]:
        ended = self.run(self._product[name], given, self._product["hook_s"])
        if ended.code != 0:
            raise ValueError(f"{name}: expected exit 0, found {ended.told()}")
        listed = json.loads(ended.out)
        if not isinstance(listed, list):
            raise ValueError(f"{name}: expected a JSON list, found {type(listed).__name__}")  # noqa: TRY004 - what a product prints is a value
        return listed

    def fire(
        self, event: str, given: Json, cwd: Path, more: dict[str, str]
    ) -> enacting.Ended | None:
        """Runs the hook of an event; None where the product has none."""
        argv = self.hooks.get(event)
        if argv is None:
            return None
        ended = self.run(argv, given, self._product["hook_s"], cwd=cwd, more=more)
        self.failed += ended.code not in (0, FORBIDS)
        return ended

    def run(
        self,
        argv: list[str],
        given: Json,
        limit_s: float,
        *,
        cwd: Path = enacting.HOME,
        more: dict[str, str] | None = None,
    ) -> enacting.Ended:
        """Runs one of the product's commands, within its own limit and what is left of the step's."""
        words = [word.replace("{program}", str(PROGRAM), 1) for word in argv]
        data = json.dumps(given).encode()
        around = {**self._environment, **(more or {})}
        return enacting.bounded(words, data, self._left(limit_s), cwd, around)

    def do(self, command: str, cwd: Path, recorded: int | None) -> None:
        """Does a command of the past again, as somebody with another home; its output is not looked at."""
        home = PLACE / "user"
        home.mkdir(parents=True, exist_ok=True)
        argv, limit_s = ["/bin/sh", "-c", command], self._left(self._product["command_s"])
        ended = enacting.bounded(argv, b"", limit_s, cwd, {"HOME": str(home)}, quiet=True)
        if recorded is not None:
            self._done, self._alike = self._done + 1, self._alike + (ended.code == recorded)

    def _left(self, limit_s: float) -> float:
        return max(0.1, min(float(limit_s), self._until - time.monotonic()))


class Caller:
    """Fires the hooks of one session."""

    def __init__(self, enactor: Enactor, session: str, scope: str) -> None:
        self._enactor = enactor
        self._session = session
        self.cwd = PLACE / "projects" / scope
        self.cwd.mkdir(parents=True, exist_ok=True)
        self.transcript = PLACE / "transcripts" / f"{session}.jsonl"
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        self.transcript.touch()

    def fire(self, event: str, more: Json, at: str = "") -> enacting.Ended | None:
        """Runs the hook of an event; None where the product has none."""
        given = {
            "session_id": self._session,
            "transcript_path": str(self.transcript),
            "cwd": str(self.cwd),
            "hook_event_name": event,
            **more,
        }
        around = {"CLAUDE_PROJECT_DIR": str(self.cwd), "MEMTRIAL_NOW": at}
        return self._enactor.fire(event, given, self.cwd, around)


class Enactment:
    """One session of the past, done again."""

    def __init__(self, enactor: Enactor, session: Json) -> None:
        self._enactor = enactor
        self._session = session
        self._call = Caller(enactor, session["session_id"], session["scope"])
        self._said = False
        # Why an event is lost; None for one that a hook has taken. Open ones wait for who reads the transcript.
        self._lost: dict[str, str | None] = {}
        self._open: list[str] = []

    def run(self) -> Json:
        """Returns what became of each event."""
        events = self._session["events"]
        self._call.fire("SessionStart", {"source": "startup"}, self._session["started_at"])
        for event in events:
            self._event(event)
        self._stop(events[-1]["at"])
        self._read(self._call.fire("SessionEnd", {"reason": "other"}, events[-1]["at"]))
        captures = [self._capture(event["event_id"]) for event in events]
        return {
            "schema_version": 1,
            "session_id": self._session["session_id"],
            "events": captures,
        }

    def _event(self, event: Json) -> None:
        ended: tuple[enacting.Ended | None, ...] = ()
        if event["role"] == "user":
            self._stop(event["at"])
            more = {"prompt": event["text"]}
            ended = (self._call.fire("UserPromptSubmit", more, event["at"]),)
        elif event["role"] == "tool":
            ended = self._tool(event)
        else:
            self._said = True
        self._write(event)
        self._take(event["event_id"], [end for end in ended if end is not None])

    def _take(self, event_id: str, ended: list[enacting.Ended]) -> None:
        failed = [end for end in ended if end.code not in (0, FORBIDS)]
        if failed:
            self._lost[event_id] = f"the product's hook failed: {failed[0].told()}"
        elif ended:
            self._lost[event_id] = None
        else:
            self._lost[event_id] = "the product has no hook that is told of it"
            self._open.append(event_id)

    def _read(self, ended: enacting.Ended | None) -> None:
        """Settles what only the transcript tells, by the hook that reads it."""
        if ended is None:
            return
        well = ended.code in (0, FORBIDS)
        why = None if well else f"the product's hook failed: {ended.told()}"
        self._lost |= dict.fromkeys(self._open, why)
        if well:
            self._open.clear()

    def _stop(self, at: str) -> None:
        if self._said:
            self._said = False
            self._read(self._call.fire("Stop", {"stop_hook_active": False}, at))

    def _tool(self, event: Json) -> tuple[enacting.Ended | None, ...]:
        tool, at = event["tool"], event["at"]
        named = named_call(tool)
        before = self._call.fire("PreToolUse", named, at)
        if named["tool_name"] != "Bash":
            self._enactor.others += 1
        elif before is None or before.code != FORBIDS:
            self._enactor.do(tool["input"], self._call.cwd, tool.get("exit_code"))
        answer = {"stdout": event["text"], "stderr": "", "interrupted": False}
        if tool.get("exit_code") is not None:
            answer["exit_code"] = tool["exit_code"]
        return before, self._call.fire("PostToolUse", {**named, "tool_response": answer}, at)

    def _capture(self, event_id: str) -> Json:
        why = self._lost[event_id]
        if why is None:
            return {"event_id": event_id, "outcome": "captured"}
        return {"event_id": event_id, "outcome": "dropped", "reason": why[:REASON_CHARACTERS]}

    def _write(self, event: Json) -> None:
        """Adds the event to the session's transcript, where Stop and SessionEnd find it."""
        if event["role"] == "tool":
            named, use_id = named_call(event["tool"]), event["event_id"]
            use = {"id": use_id, "name": named["tool_name"], "input": named["tool_input"]}
            self._line(event, "assistant", {"type": "tool_use", **use})
            result = {"type": "tool_result", "content": event["text"], "tool_use_id": use_id}
            self._line(event, "user", result)
        else:
            self._line(event, event["role"], {"type": "text", "text": event["text"]})

    def _line(self, event: Json, role: str, content: Json) -> None:
        line = {
            "type": role,
            "sessionId": self._session["session_id"],
            "timestamp": event["at"],
            "uuid": event["event_id"],
            "message": {"role": role, "content": [content]},
        }
        with self._call.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def named_call(tool: Json) -> Json:
    """Returns a call of the past in the words of Claude Code's hooks."""
    if tool["name"].lower() in ("bash", "shell"):
        return {"tool_name": "Bash", "tool_input": {"command": tool["input"]}}
    return {"tool_name": tool["name"], "tool_input": {"input": tool["input"]}}


def spoken(out: bytes) -> str:
    """Returns what a hook says to the model: of a JSON object its `additionalContext` alone, else all that it prints."""
    text = out.decode("utf-8", "replace").strip()
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(told, dict):
        return text
    more = told.get("hookSpecificOutput")
    said = more.get("additionalContext") if isinstance(more, dict) else None
    return said.strip() if isinstance(said, str) else ""


def main() -> None:
    """Answers line by line until the end of the input."""
    enacting.stand_apart()
    enactor = Enactor()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"answer": getattr(enactor, request["step"])(request)}
        except (ValueError, LookupError, TypeError, RecursionError, OSError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
