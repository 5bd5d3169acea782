"""Promise: the house rules hold for every file, checked by reading the code."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted([*(ROOT / "orchestrator").rglob("*.py"), *(ROOT / "images").rglob("*.py")])
# Where everything that is raised may be caught and kept: boundaries to code that is not ours.
BROAD = {
    "orchestrator/audit/verify.py": 1,
    "orchestrator/cli/main.py": 1,
    "orchestrator/pipeline/run.py": 1,
    "orchestrator/memory/watchdog.py": 1,
    "orchestrator/memory/faults.py": 1,
    "images/verifier/boundary.py": 1,
    "images/verifier/candidate.py": 1,
}
MAY_START_PROCESSES = {
    "orchestrator/cli/desk.py",
    "orchestrator/gateway/process.py",
    "orchestrator/sandbox/bootstrap.py",
    "orchestrator/sandbox/engine.py",
    "orchestrator/sources/clients.py",
    "orchestrator/trust/plumbing.py",
}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_is_short_introduced_and_plain(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    name = str(path.relative_to(ROOT))
    assert len(text.splitlines()) <= 400, f"{name}: over 400 lines"
    assert ast.get_docstring(tree), f"{name}: no opening docstring"
    broad = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 50, f"{name}: {node.name} is over 50 lines"
        assert not isinstance(node, ast.Global), f"{name}: global"
        if name.startswith("orchestrator/"):
            assert not isinstance(node, ast.Assert), f"{name}: assert"
        broad += isinstance(node, ast.ExceptHandler) and _catches_all(node)
    assert broad == BROAD.get(name, 0), f"{name}: {broad} broad excepts"
    if name.startswith("orchestrator/") and name not in MAY_START_PROCESSES:
        assert not re.search(r"^\s*import subprocess|from subprocess", text, re.MULTILINE), (
            f"{name}: starts processes"
        )


def _catches_all(handler: ast.ExceptHandler) -> bool:
    """Whether a handler takes whatever is raised and does not raise it again at its end."""
    every = handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in {"Exception", "BaseException"}
    )
    last = handler.body[-1]
    return every and not (isinstance(last, ast.Raise) and last.exc is None)


def test_help_loads_no_sdk_and_nothing_heavy():
    program = "import sys; from orchestrator.cli.main import main; main(['--help-all']); print(sorted(sys.modules), file=sys.stderr)"
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(re.findall(r"'([a-z_0-9]+)'", finished.stderr))
    assert not loaded & {
        "anthropic",
        "docker",
        "git",
        "h11",
        "httpx2",
        "openai",
        "pydantic",
        "pypi_simple",
        "requests",
        "bpe_openai",
        "rich",
        "sqlite3",
    }


def test_no_committed_file_names_this_machine_or_an_index_host():
    listed = (
        subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
        .stdout.decode()
        .split("\0")
    )
    hosts = ("python" + "hosted.org", "pypi" + ".org", "deb." + "debian.org", "registry." + "npmjs")
    for name in filter(None, listed):
        path = ROOT / name
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            assert not any(host in text for host in hosts), f"{name} names a package index"
            assert "/root/" not in text or name.startswith("tests/"), (
                f"{name} names a path of one machine"
            )


def test_no_link_is_committed():
    """One that leads out of the repository replaces what others have in its place, such as their .venv."""
    listed = subprocess.run(
        ["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [line for line in listed.stdout.splitlines() if line.startswith("120000 ")] == []


def test_every_verb_is_in_the_readme_or_the_architecture():
    from orchestrator.cli.main import VERBS

    text = (ROOT / "README.md").read_text(encoding="utf-8") + (ROOT / "ARCHITECTURE.md").read_text(
        encoding="utf-8"
    )
    assert [
        verb for verb in VERBS if f"memtrial {verb}" not in text and f"make {verb}" not in text
    ] == []


def test_schemas_are_what_the_code_says():
    from orchestrator.model.schemas import schema_files

    present = {path.name: path.read_bytes() for path in (ROOT / "schemas").glob("*.json")}
    assert present == schema_files()


def test_nothing_waits_by_select():
    """It fails from descriptor 1,024 on, which a process with many trials or tests has (core/waiting.py)."""
    folders = ("orchestrator", "images", "bench", "tools", "fixtures")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 500
    assert [str(p) for p in files if "select.select(" in p.read_text(encoding="utf-8")] == []
