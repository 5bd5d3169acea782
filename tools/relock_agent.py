"""For maintainers: renews `images/agents/<name>/recipe.json` from `wanted.json` beside it.

    .venv/bin/python tools/relock_agent.py codex
    .venv/bin/python tools/relock_agent.py mini-swe-agent

Asks npm and pip through their own clients, keeps every package in the cache, writes the recipe. Nothing
of a package is run or installed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.files import write_atomic
from orchestrator.core.places import cache_root
from orchestrator.model.agents import AgentRecipe
from orchestrator.sources.cache import keep
from orchestrator.sources.clients import run_client

IMAGES = Path(__file__).resolve().parents[1] / "images" / "agents"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux_2_17_x86_64", "any")
HINT = "connect the machine"


def npm(wanted: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Packs one npm package and pins the members that the image takes."""
    name, version = wanted["package"], wanted["version"]
    command = ["npm", "pack", "--silent", "--ignore-scripts", f"{name}@{version}"]
    run_client(command, folder=folder, environment={}, hint=HINT)
    (path,) = folder.glob("*.tgz")
    data = path.read_bytes()
    sri = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    said = run_client(
        ["npm", "view", f"{name}@{version}", "dist.integrity"],
        folder=folder,
        environment={},
        hint=HINT,
    )
    if sri not in said.decode():
        raise SystemExit(f"{name}: expected the registry's integrity {sri}, found {said.decode()}")
    keep(cache_root(), sha256_hex(data), path.name, data)
    members = []
    with tarfile.open(path, mode="r:gz") as archive:
        for member in wanted["members"]:
            stream = archive.extractfile(member["member"])
            if stream is None:
                raise SystemExit(f"{member['member']}: expected a file")
            members.append({**member, "sha256": sha256_hex(stream.read())})
    package = {"registry": "npm", "name": name, "version": version, "sha256": sha256_hex(data)}
    return {
        "package": {**package, "integrity": sri},
        "members": members,
        "program_sha256": next(m["sha256"] for m in members if m["to"] == wanted["program"]),
    }


def pypi(wanted: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Downloads a package with what it needs, for the image's Python, and pins each wheel."""
    name, version = wanted["package"], wanted["version"]
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:"]
    command += ["--python-version", "3.11", *platforms, "-d", str(folder), f"{name}=={version}"]
    run_client(command, folder=folder, environment={}, hint=HINT)
    wheels, package, program = [], None, ""
    for path in sorted(folder.glob("*.whl")):
        project, number = path.name.split("-")[:2]
        data = path.read_bytes()
        if project.replace("_", "-") in wanted["left_out"]:
            continue
        keep(cache_root(), sha256_hex(data), path.name, data)
        pin = {"version": number, "sha256": sha256_hex(data)}
        wheels.append({"project": project.replace("_", "-"), "filename": path.name, **pin})
        if project.replace("_", "-") == name:
            package = {"registry": "pypi", "name": name, **pin, "integrity": "sha256-" + base64.b64encode(hashlib.sha256(data).digest()).decode()}  # fmt: skip
            inner = wanted["program"].removeprefix(wanted["site"] + "/")
            program = sha256_hex(zipfile.ZipFile(path).read(inner))
    return {"package": package, "wheels": wheels, "program_sha256": program}


def main(name: str) -> None:
    """Writes the recipe of an agent."""
    wanted = json.loads((IMAGES / name / "wanted.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        found = {"npm": npm, "pypi": pypi}[wanted["registry"]](wanted, Path(folder))
    kept = ("licence", "published", "site", "left_out", "program", "note")
    recipe = {
        "schema_version": 1,
        "agent": name,
        "architecture": "amd64",
        **{key: wanted[key] for key in kept if key in wanted},
        **found,
    }
    data = json.dumps(recipe, indent=2).encode() + b"\n"
    AgentRecipe.parse(data, where="recipe.json")
    write_atomic(IMAGES / name / "recipe.json", data)


if __name__ == "__main__":
    main(sys.argv[1])
