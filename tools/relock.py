"""For maintainers: renews `images/<language>/packages.lock.json` from the names in `wanted.json` beside it.

    .venv/bin/python tools/relock.py javascript
    .venv/bin/python tools/relock.py rust

Asks npm and apt through their own clients, downloads every package once into the cache, writes the lock.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.files import write_atomic
from orchestrator.core.places import cache_root
from orchestrator.sources.cache import keep
from orchestrator.sources.clients import run_client
from orchestrator.sources.deb import private_tree

IMAGES = Path(__file__).resolve().parents[1] / "images"
PLATFORM = "linux-x64-gnu"


def npm(wanted: dict[str, str]) -> list[dict[str, Any]]:
    """Resolves with npm, keeps what this platform needs, hashes each tarball."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = {"name": "tools", "version": "1.0.0", "private": True, "dependencies": wanted}
        (folder / "package.json").write_text(json.dumps(package), encoding="utf-8")
        run_client(
            ["npm", "install", "--package-lock-only", "--ignore-scripts"],
            folder=folder,
            environment={},
            hint="connect the machine",
        )
        listed = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
        chosen = {
            path: entry
            for path, entry in listed.items()
            if path and (not entry.get("optional") or path.endswith(PLATFORM))
        }
        names = {path: path.rpartition("node_modules/")[2] for path in chosen}
        specs = sorted({f"{names[path]}@{entry['version']}" for path, entry in chosen.items()})
        for start in range(0, len(specs), 40):
            run_client(
                ["npm", "pack", "--silent", "--ignore-scripts", *specs[start : start + 40]],
                folder=folder,
                environment={},
                hint="connect the machine",
            )
        return [
            {
                "path": path,
                "name": names[path],
                "version": entry["version"],
                "sha256": _kept(
                    folder
                    / f"{names[path].removeprefix('@').replace('/', '-')}-{entry['version']}.tgz"
                ),
            }
            for path, entry in sorted(chosen.items())
        ]


def debian(suite: str, names: list[str]) -> list[dict[str, Any]]:
    """Downloads packages of the suite as they are today."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {"APT_CONFIG": str(private_tree(folder, suite)), "LC_ALL": "C"}
        for command in (["apt-get", "update", "-q"], ["apt-get", "download", "-q", *names]):
            run_client(command, folder=folder, environment=environment, hint="connect the machine")
        found = []
        for path in sorted(folder.glob("*.deb")):
            package, version, architecture = path.stem.split("_")
            found.append(
                {
                    "name": package,
                    "version": version.replace("%3a", ":"),
                    "architecture": architecture,
                    "suite": suite,
                    "sha256": _kept(path),
                }
            )
        return found


def _kept(path: Path) -> str:
    data = path.read_bytes()
    return keep(cache_root(), sha256_hex(data), path.name, data).parent.name


def main() -> int:
    """Writes the lock of one language."""
    language = sys.argv[1]
    wanted = json.loads((IMAGES / language / "wanted.json").read_text(encoding="utf-8"))
    packages = npm(wanted["npm"]) if "npm" in wanted else []
    packages += debian(wanted["suite"], wanted["debs"])
    lock = {"schema_version": 1, "packages": packages}
    write_atomic(
        IMAGES / language / "packages.lock.json", (json.dumps(lock, indent=1) + "\n").encode()
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
