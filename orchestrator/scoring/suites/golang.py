"""go test over its own event stream (NDJSON of test2json). Vet is off: style is no verdict.

Ids: `import path::Test/sub`. The build runs as the tests' user, in the same command; cgo is off, so no
compiler option of a candidate is ever followed.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import parse_json
from orchestrator.model.task import Key, Runner
from orchestrator.model.verdict import Seal
from orchestrator.protocols import Command, VerifyOutcome
from orchestrator.scoring.seal import SealFile
from orchestrator.scoring.suites.form import (
    Drawn,
    Outcome,
    Reading,
    Status,
    Step,
    drawn_tests,
    merged,
    no_report,
    normal_id,
    read_parts,
    steps_argv,
    wrong_status,
)

ENVIRONMENT = (
    ("CGO_ENABLED", "0"),
    ("GOCACHE", "/tmp/go-cache"),
    ("GOENV", "off"),
    ("GOFLAGS", "-trimpath"),
    ("GOPROXY", "off"),
    ("GOTELEMETRY", "off"),
    ("GOTMPDIR", "/tmp"),
    ("GOTOOLCHAIN", "local"),
    ("GOWORK", "off"),
    ("HOME", "/tmp"),
    ("TZ", "UTC"),
)
_PACKAGE = re.compile(r"^package\s+(\w+)", re.MULTILINE)
_DRAWN = re.compile(r"TestSeal(?:Own|In)_[0-9a-f]{12}")
MAX_LINES = 400_000
MAX_BUILD_CHARS = 1_500
_ACTIONS: dict[str, Status] = {"pass": "pass", "fail": "fail", "skip": "skip"}


class GoTest:
    """`go test -json`."""

    protected = ("**/*_test.go", "go.mod", "go.sum", "go.work", "go.work.sum", "vendor/**")

    def seal(self, seal: Seal, key: Key) -> tuple[SealFile, ...]:
        """Returns a package of drawn tests; in the hidden phase also the same in the hidden tests' package."""
        word, tests = drawn_tests(seal)
        places = {f"seal{word}/seal_test.go": f"seal{word}"}
        if seal.phase == "fail_to_pass":
            for file in key.hidden_files:
                clause = _PACKAGE.search(file.text)
                folder = str(PurePosixPath(file.path).parent)
                if clause is not None:
                    places.setdefault(f"{folder}/seal{word}_test.go".removeprefix("./"), clause[1])
        return tuple(_seal_file(path, name, tests) for path, name in places.items())

    def command(
        self, runner: Runner, hidden_paths: tuple[str, ...], seal_paths: tuple[str, ...]
    ) -> Command:
        """Returns the command; test paths are package patterns, hidden files give their packages."""
        packages = dict.fromkeys(map(_package, (*hidden_paths, *seal_paths)))
        wanted = tuple(packages) if hidden_paths else (*runner.test_paths, *packages)
        argv = (
            "go",
            "test",
            "-json",
            "-count=1",
            "-vet=off",
            "-shuffle=off",
            *dict.fromkeys(wanted),
        )
        return Command(argv=steps_argv([Step("go-test", argv)]), environment=ENVIRONMENT)

    def read(self, outcome: VerifyOutcome) -> Reading:
        """Reads the events; a package that failed without a failed test gives no passed test."""
        part = read_parts(outcome).get("go-test")
        if part is None:
            return no_report()
        if part.exit_code != 1:
            return wrong_status(1, part.exit_code)
        events = _events(part.data)
        if any(e.get("FailedBuild") or e.get("Action") == "build-fail" for e in events):
            said = [str(e.get("Output", "")) for e in events if e.get("Action") == "build-output"]
            return Reading(build_error="".join(said)[-MAX_BUILD_CHARS:].strip() or "build failed")
        ended = {
            e.get("Package"): e for e in events if "Test" not in e and e.get("Action") in _ACTIONS
        }
        found: list[tuple[str, Status]] = []
        for package, last in ended.items():
            own = [e for e in events if e.get("Package") == package and "Test" in e]
            tests = [(e["Test"], _ACTIONS[e["Action"]]) for e in own if e.get("Action") in _ACTIONS]
            lost = last["Action"] == "fail" and not any(s == "fail" for _, s in tests)
            found += [
                (_id(str(package), str(name)), "error" if lost and s == "pass" else s)
                for name, s in tests
            ]
        return Reading(merged(found))


def _package(path: str) -> str:
    folder = str(PurePosixPath(path).parent)
    return "." if folder == "." else f"./{folder}"


def _id(package: str, name: str) -> str:
    """Ids of drawn tests are their names alone: the host does not know the module's path."""
    drawn = _DRAWN.fullmatch(name)
    return normal_id("seal", name) if drawn else normal_id(package, name)


def _seal_file(path: str, package: str, tests: list[Drawn]) -> SealFile:
    place = "own" if "/" in path and package.startswith("seal") else "in"
    lines = [f"package {package}", "", 'import "testing"', ""]
    expected: list[tuple[str, Outcome]] = []
    for test in tests:
        name = f"TestSeal{place.capitalize()}_{test.name}"
        lines.append(
            f"func {name}(t *testing.T) {{ if v := {test.value}; v % 7 != {test.wanted} {{ t.Fatal(v) }} }}"
        )
        expected.append((normal_id("seal", name), test.status))
    return SealFile(path, "\n".join([*lines, ""]), tuple(expected))


def _events(data: bytes) -> list[dict[str, str]]:
    lines = data.splitlines()
    if len(lines) > MAX_LINES:
        return []
    events = []
    for line in lines:
        try:
            event = parse_json(line, where="go test")
        except DocumentError:
            # A line that is no event is output of a process that wrote past the runner.
            continue
        if isinstance(event, dict):
            events.append({str(k): v for k, v in event.items() if isinstance(v, str)})
    return events
