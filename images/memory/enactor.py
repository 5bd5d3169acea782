"""Does a history's tool calls again with a product's own hooks around them, so that its real capture fires.

Joins a program's folder that has `hooks.json` and runs in the product's container: standard library only. Speaks
the lines of `orchestrator/memory/command.py`. A command's effects are real; what a hook is told of its output are
the recorded bytes, because every arm learns from the same history.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).resolve().parent
PLACE = PROGRAM.parent / "enacted"
HOME = Path("/work/home")
MAX_SAID_BYTES = 8 * 1024 * 1024
MAX_STDERR_BYTES = 2000
REASON_CHARACTERS = 1000
SAYING = ("SessionStart", "UserPromptSubmit")

Json = dict[str, Any]


class Ended:
    """How a command ended: its exit code, or none after its limit; what it printed."""

    def __init__(self, code: int | None, out: bytes, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def told(self) -> str:
        """Returns it as words."""
        how = "no end within its limit" if self.code is None else f"exit {self.code}"
        return f"{how} {self.err}".strip()


class Enactor:
    """One product through one history."""

    def __init__(self) -> None:
        self._product: Json = json.loads((PROGRAM / "hooks.json").read_text())
        self._environment: dict[str, str] = {}
        self.hooks: dict[str, list[str]] = self._product["hooks"]
        self.hook_s = float(self._product["hook_s"])
        self.others = self._done = self._alike = 0
        self._frozen = False

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
        HOME.mkdir()
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
        return Enactment(self, request["session"]).run()

    def settle(self, request: Json) -> Json:
        """Waits for the product."""
        if self._product["settle"]:
            ended = self.run(self._product["settle"], {}, request["deadline_s"])
            if ended.code != 0:
                raise ValueError(f"settle: expected exit 0, found {ended.told()}")
        return {"schema_version": 1, "extractor": None, "tasks": [], "candidates": []}

    def freeze(self, _: Json) -> None:
        """Takes the transcripts and projects away: from here on the product has its store alone."""
        self._frozen = True
        shutil.rmtree(PLACE, ignore_errors=True)

    def dump(self, _: Json) -> Json:
        """Prints the store through the product's own command; empty where it has none."""
        return {"schema_version": 1, "memories": self._memories(), "links": []}

    def retrieve(self, request: Json) -> Json:
        """Asks, and puts the product's files back: that a task was asked is not remembered."""
        kept = Path(tempfile.mkdtemp(dir=PROGRAM.parent)) / "home"
        shutil.copytree(HOME, kept, symlinks=True)
        query = request["query"]
        try:
            found = self._recalled(query) if self._product["recall"] else self._said(query)
        finally:
            shutil.rmtree(HOME)
            shutil.copytree(kept, HOME, symlinks=True)
            shutil.rmtree(kept.parent)
            shutil.rmtree(PLACE, ignore_errors=True)
        return {
            "schema_version": 1,
            "query_sha256": request["query_sha256"],
            "considered": found["considered"],
            "items": found["items"][: query["k"]],
            "degraded": [self._alike_as_words()],
        }

    def _alike_as_words(self) -> str:
        done = (
            f"re-enacted: {self._alike} of {self._done} commands ended with the recorded exit code"
        )
        return f"{done}, {self.others} calls were of other tools"

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
        """Begins the task's session and takes what the hooks print for the model."""
        call = Caller(self, "task", query["scope"])
        more = {
            "SessionStart": {"source": "startup"},
            "UserPromptSubmit": {"prompt": query["prompt"]},
        }
        texts = [(event, call.fire(event, more[event])) for event in SAYING]
        items = [
            {
                "memory_id": f"said-{event.lower()}",
                "text": text,
                "channels": [{"channel": event.lower(), "rank": 1}],
            }
            for event, ended in texts
            if ended is not None and (text := spoken(ended.out))
        ]
        return {"considered": len(items), "items": items}

    def _printed(self, name: str, given: Json) -> list[Any]:
        ended = self.run(self._product[name], given, self._product["hook_s"])
        if ended.code != 0:
            raise ValueError(f"{name}: expected exit 0, found {ended.told()}")
        listed = json.loads(ended.out)
        if not isinstance(listed, list):
            raise ValueError(f"{name}: expected a JSON list, found {type(listed).__name__}")  # noqa: TRY004
        return listed

    def run(
        self,
        argv: list[str],
        given: Json,
        limit_s: float,
        *,
        cwd: Path = HOME,
        more: Mapping[str, str] | None = None,
    ) -> Ended:
        """Runs one of the product's commands."""
        words = [word.replace("{program}", str(PROGRAM), 1) for word in argv]
        data = json.dumps(given).encode()
        return bounded(words, data, limit_s, cwd, {**self._environment, **(more or {})})

    def do(self, command: str, cwd: Path, recorded: int | None) -> None:
        """Does a command of the past again; its effects stay, its output is not looked at."""
        limit_s = float(self._product["command_s"])
        ended = bounded(["/bin/sh", "-c", command], b"", limit_s, cwd, {}, quiet=True)
        self._done, self._alike = self._done + 1, self._alike + (ended.code == recorded)


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

    def fire(self, event: str, more: Json, at: str = "") -> Ended | None:
        """Runs the hook of an event; None where the product has none."""
        argv = self._enactor.hooks.get(event)
        if argv is None:
            return None
        given = {
            "session_id": self._session,
            "transcript_path": str(self.transcript),
            "cwd": str(self.cwd),
            "hook_event_name": event,
            **more,
        }
        around = {"CLAUDE_PROJECT_DIR": str(self.cwd), "MEMTRIAL_NOW": at}
        return self._enactor.run(argv, given, self._enactor.hook_s, cwd=self.cwd, more=around)


class Enactment:
    """One session of the past, done again."""

    def __init__(self, enactor: Enactor, session: Json) -> None:
        self._enactor = enactor
        self._session = session
        self._call = Caller(enactor, session["session_id"], session["scope"])
        self._reads_on = any(enactor.hooks.get(name) for name in ("Stop", "SessionEnd"))
        self._said = False

    def run(self) -> Json:
        """Returns what became of each event."""
        at = self._session["started_at"]
        self._call.fire("SessionStart", {"source": "startup"}, at)
        captures = [self._event(event) for event in self._session["events"]]
        at = self._session["events"][-1]["at"]
        self._stop(at)
        self._call.fire("SessionEnd", {"reason": "other"}, at)
        return {
            "schema_version": 1,
            "session_id": self._session["session_id"],
            "events": captures,
        }

    def _event(self, event: Json) -> Json:
        if event["role"] == "user":
            self._stop(event["at"])
            ended = self._call.fire("UserPromptSubmit", {"prompt": event["text"]}, event["at"])
        elif event["role"] == "tool":
            ended = self._tool(event)
        else:
            self._said = True
            ended = None
        self._write(event)
        return self._capture(event, ended)

    def _stop(self, at: str) -> None:
        if self._said:
            self._said = False
            self._call.fire("Stop", {"stop_hook_active": False}, at)

    def _tool(self, event: Json) -> Ended | None:
        tool, at = event["tool"], event["at"]
        shell = tool["name"].lower() in ("bash", "shell")
        given = {"command": tool["input"]} if shell else {"input": tool["input"]}
        named = {"tool_name": "Bash" if shell else tool["name"], "tool_input": given}
        before = self._call.fire("PreToolUse", named, at)
        if not shell:
            self._enactor.others += 1
        elif before is None or before.code != 2:
            self._enactor.do(tool["input"], self._call.cwd, tool.get("exit_code"))
        answer = {"stdout": event["text"], "stderr": "", "interrupted": False}
        if tool.get("exit_code") is not None:
            answer["exit_code"] = tool["exit_code"]
        after = self._call.fire("PostToolUse", {**named, "tool_response": answer}, at)
        return after or before

    def _capture(self, event: Json, ended: Ended | None) -> Json:
        if ended is not None and ended.code not in (0, 2):
            why = f"the product's hook failed: {ended.told()}"[:REASON_CHARACTERS]
        elif ended is None and not self._reads_on:
            why = "the product has no hook that is told of it"
        else:
            return {"event_id": event["event_id"], "outcome": "captured"}
        return {"event_id": event["event_id"], "outcome": "dropped", "reason": why}

    def _write(self, event: Json) -> None:
        """Adds the event to the session's transcript, where Stop and SessionEnd find it."""
        if event["role"] == "tool":
            role, kind = "user", {"type": "tool_result", "content": event["text"]}
            content = {**kind, "tool_use_id": event["event_id"]}
            use = {
                "id": event["event_id"],
                "name": "Bash",
                "input": {"command": event["tool"]["input"]},
            }
            self._line(event, "assistant", {"type": "tool_use", **use})
        else:
            role, content = event["role"], {"type": "text", "text": event["text"]}
        self._line(event, role, content)

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


def spoken(out: bytes) -> str:
    """Returns what a hook tells the model: `additionalContext` of its JSON, or all that it prints."""
    text = out.decode("utf-8", "replace").strip()
    try:
        told = json.loads(text)["hookSpecificOutput"]["additionalContext"]
    except (ValueError, TypeError, KeyError):
        return text
    return str(told).strip()


def bounded(
    argv: list[str],
    given: bytes,
    limit_s: float,
    cwd: Path,
    environment: Mapping[str, str],
    *,
    quiet: bool = False,
) -> Ended:
    """Runs a command within a time; its output goes to files, so that what it leaves running holds nothing up."""
    around = {
        "HOME": str(HOME),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        **environment,
    }
    with (
        tempfile.TemporaryFile(dir=PROGRAM.parent) as stdin,
        tempfile.TemporaryFile(dir=PROGRAM.parent) as out,
        tempfile.TemporaryFile(dir=PROGRAM.parent) as err,
    ):
        stdin.write(given)
        stdin.seek(0)
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.DEVNULL if quiet else out,
            stderr=subprocess.DEVNULL if quiet else err,
            cwd=cwd,
            env=around,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        out.seek(0)
        err.seek(0)
        said = out.read(MAX_SAID_BYTES + 1)
        if len(said) > MAX_SAID_BYTES:
            raise ValueError(f"{argv[0]}: expected at most {MAX_SAID_BYTES} bytes, found more")
        return Ended(code, said, err.read(MAX_STDERR_BYTES).decode("utf-8", "replace").strip())


def main() -> None:
    """Answers line by line until the end of the input."""
    enactor = Enactor()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"answer": getattr(enactor, request["step"])(request)}
        except (ValueError, LookupError, TypeError, OSError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
