"""For maintainers: renews `images/memory/<product>/recipe.json` from the lock and `wanted.json` beside it.

    uv pip compile --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \\
        --python-platform x86_64-manylinux_2_28 --only-binary :all: requirements.in -o requirements.lock
    npm install --package-lock-only --ignore-scripts
    .venv/bin/python tools/relock_product.py mem0

The first two lines renew the locks. This asks pip and npm through their own clients for what the lock names,
checks every file against it, keeps it in the cache and writes the recipe (Node and libraries are those of the
JavaScript image). Nothing of a package is run or installed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.files import write_atomic
from orchestrator.core.places import cache_root
from orchestrator.model.products import ProductRecipe
from orchestrator.sources.cache import keep
from orchestrator.sources.clients import run_client

IMAGES = Path(__file__).resolve().parents[1] / "images"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux_2_17_x86_64", "any")
HINT = "connect the machine"
AT_ONCE = 40


def wheels(folder: Path, place: Path) -> list[dict[str, str]]:
    """Downloads the wheels of a lock for the image's Python; pip checks each hash."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--python-version", "3.11", *platforms]
    command += ["-d", str(place), "-r", str(folder / "requirements.lock")]
    run_client(command, folder=place, environment={}, hint=HINT)
    found = []
    for path in sorted(place.glob("*.whl")):
        project, version = path.name.split("-")[:2]
        data = path.read_bytes()
        keep(cache_root(), sha256_hex(data), path.name, data)
        found.append(
            {
                "project": project.replace("_", "-").replace(".", "-").lower(),
                "version": version,
                "filename": path.name,
                "sha256": sha256_hex(data),
            }
        )
    return found


def tarballs(folder: Path, place: Path, product: str) -> list[dict[str, str]]:
    """Packs what npm's lock names, and checks each tarball against the lock's integrity."""
    lock = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    chosen = {path: entry for path, entry in lock.items() if path and not entry.get("optional")}
    names = {path: path.rpartition("node_modules/")[2] for path in chosen}
    specs = sorted({f"{names[path]}@{entry['version']}" for path, entry in chosen.items()})
    for start in range(0, len(specs), AT_ONCE):
        command = ["npm", "pack", "--silent", "--ignore-scripts", *specs[start : start + AT_ONCE]]
        run_client(command, folder=place, environment={}, hint=HINT)
    found = []
    for path, entry in sorted(chosen.items()):
        stem = names[path].removeprefix("@").replace("/", "-")
        data = (place / f"{stem}-{entry['version']}.tgz").read_bytes()
        sri = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        if sri != entry["integrity"]:
            raise SystemExit(f"{path}: expected integrity {entry['integrity']}, found {sri}")
        keep(cache_root(), sha256_hex(data), f"{stem}-{entry['version']}.tgz", data)
        where = f"opt/memtrial/memory/{product}/{path}"
        pin = {"path": where, "name": names[path], "version": entry["version"]}
        found.append({**pin, "sha256": sha256_hex(data)})
    return found


def main(product: str) -> None:
    """Writes the recipe of a product."""
    folder = IMAGES / "memory" / product
    wanted: dict[str, Any] = json.loads((folder / "wanted.json").read_text(encoding="utf-8"))
    recipe: dict[str, Any] = {"schema_version": 1, "product": product, "architecture": "amd64"}
    recipe |= {key: wanted[key] for key in ("package", "licence", "note")}
    with tempfile.TemporaryDirectory() as place:
        if (folder / "requirements.lock").is_file():
            recipe["wheels"] = wheels(folder, Path(place))
            recipe["site"] = f"opt/memtrial/memory/{product}/site"
            parts = recipe["wheels"]
            key = "project"
        else:
            recipe["packages"] = parts = tarballs(folder, Path(place), product)
            key = "name"
    recipe["version"] = next(p["version"] for p in parts if p[key] == wanted["package"])
    node = IMAGES / "javascript"
    locked = json.loads((node / "packages.lock.json").read_bytes())["packages"]
    shared = [package for package in locked if package["name"] in wanted["debs"]]
    recipe["packages"] = [*recipe.get("packages", []), *shared]
    if wanted.get("node"):
        recipe["parts"] = json.loads((node / "recipe.json").read_bytes())["wheels"]
    recipe["exclude"] = wanted["exclude"]
    data = json.dumps(recipe, indent=1).encode() + b"\n"
    ProductRecipe.parse(data, where="recipe.json")
    write_atomic(folder / "recipe.json", data)


if __name__ == "__main__":
    main(sys.argv[1])
