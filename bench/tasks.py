"""Figures about the tasks: source pins under hostile git set-ups, all language images from nothing, warm starts.

    python -m bench.tasks [pins] [warm] [images]    (all three without a word)

`images` makes base and toolchains in an empty folder and loads them under a layer drawn for the run, so
that the engine holds none of it; what it loaded is removed again. Downloads that the cache lacks come from
the indexes, and are timed apart. Writes results/proofs/tasks-DATE.json;
exit 1 when a bar is missed.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from orchestrator.core.clock import run_stamp
from orchestrator.core.files import write_atomic
from orchestrator.core.gittree import FileEntry
from orchestrator.core.places import cache_root, fixtures_root, images_root
from orchestrator.model.images import PackageLock
from orchestrator.pipeline.imaging import supplies
from orchestrator.pipeline.validate.run import stage_for
from orchestrator.sandbox.adapter import EngineClient
from orchestrator.sandbox.base import Base
from orchestrator.sandbox.bootstrap import BaseRecipe, bootstrap, packages_of
from orchestrator.sandbox.containers import Container
from orchestrator.sandbox.engine import connect, describe
from orchestrator.sandbox.harden import draw_uids, verifier_profile
from orchestrator.sandbox.identity import installation_id, labels
from orchestrator.sandbox.images import (
    FOLDERS,
    assemble,
    ensure_loaded,
    program_layer,
    recipe_sha256,
)
from orchestrator.sandbox.languages import image_of
from orchestrator.sandbox.layers import ImageSpec, Layer, layer_of_file, make_layer
from orchestrator.sandbox.timing import StepClock
from orchestrator.sandbox.toolchain import LANGUAGES, Maker, read_recipe
from orchestrator.sources.loader import list_tasks, load_task

ROOT = Path(__file__).resolve().parents[1]
IMAGES_BAR_S, WARM_BAR_S = 15 * 60, 0.5
STARTS = 20
# One task of each language: what is warm is its image, toolchain, checkout and all.
WARM = ("humanize-transfer-eta", "mux-journey-header", "fraction-bench-stop", "strsim-street-key")

Figures = dict[str, object]
T = TypeVar("T")

# Git settings that change what is added or written, and umasks that change what is made.
SET_UPS: dict[str, tuple[int, dict[str, str]]] = {
    "conversion": (0o077, {"core.autocrlf": "true", "core.eol": "crlf", "core.fileMode": "false", "core.safecrlf": "true"}),
    "links-and-filters": (0o000, {"core.symlinks": "false", "core.autocrlf": "input", "core.attributesFile": "{home}/attributes", "core.hooksPath": "{home}/hooks", "core.fsmonitor": "true"}),
    "ignored-and-signed": (0o027, {"core.excludesFile": "{home}/everything", "commit.gpgSign": "true", "user.useConfigOnly": "true", "core.ignoreCase": "true", "core.sparseCheckout": "true"}),
    "other-formats": (0o007, {"init.defaultObjectFormat": "sha256", "init.defaultRefFormat": "reftable", "index.version": "4", "core.bigFileThreshold": "1", "core.compression": "9", "i18n.commitEncoding": "ISO-8859-1", "core.logAllRefUpdates": "always", "init.defaultBranch": "other"}),
}  # fmt: skip
PIN_PROGRAM = """
import hashlib, json, os, sys
os.umask(int(sys.argv[1]))
from orchestrator.core.places import cache_root, fixtures_root
from orchestrator.sources.checkout import materialise, repository_entries
from orchestrator.sources.loader import load_source
out = {}
for name in sys.argv[2:]:
    made = materialise(load_source(fixtures_root(), name), fixtures=fixtures_root(), cache=cache_root())
    out[name] = [made.tree, made.commit, hashlib.sha256(repr(repository_entries(made)).encode()).hexdigest()]
print(json.dumps(out))
"""


def sources() -> list[str]:
    """Returns the ids of the sources that the pack's tasks stand on."""
    fixtures = fixtures_root()
    return sorted({load_task(fixtures, name).card.source for name in list_tasks(fixtures)})


def pinned_ids(home: Path, umask: int, settings: dict[str, str]) -> dict[str, list[str]]:
    """Returns (tree, commit, digest of the repository's files) of every source under a git set-up.

    Each repository is written by git itself, which must come to the tree and commit of the pin.
    """
    home.mkdir()
    for name in ("attributes", "everything"):
        (home / name).write_text(
            "* text eol=crlf ident filter=no\n" if name[0] == "a" else "*\n", encoding="ascii"
        )
    (home / "hooks").mkdir()
    pairs = [(key, value.format(home=home)) for key, value in settings.items()]
    lines = [f"[{k.partition('.')[0]}]\n\t{k.partition('.')[2]} = {v}\n" for k, v in pairs]
    (home / ".gitconfig").write_text("".join(lines), encoding="utf-8")
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_SYSTEM": str(home / ".gitconfig"),
        "GIT_CONFIG_COUNT": str(len(pairs)),
        **{f"GIT_CONFIG_KEY_{n}": key for n, (key, _) in enumerate(pairs)},
        **{f"GIT_CONFIG_VALUE_{n}": value for n, (_, value) in enumerate(pairs)},
        "GIT_DIR": str(home / "elsewhere.git"),
        "GIT_INDEX_FILE": str(home / "index"),
        "GIT_AUTHOR_DATE": "1 +0100",
        "MEMTRIAL_CACHE": str(cache_root()),
        "TZ": "Asia/Tokyo",
    }
    words = [sys.executable, "-B", "-c", PIN_PROGRAM, str(umask), *sources()]
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def pins() -> Figures:
    """Compares every source under every set-up with its pin, and the repositories with one another."""
    wanted = {}
    fixtures = fixtures_root()
    for name in list_tasks(fixtures):
        task = load_task(fixtures, name)
        wanted[task.card.source] = [task.source.expect.tree, task.source.expect.commit]
    with tempfile.TemporaryDirectory(prefix="memtrial-pins-") as folder:
        found = {name: pinned_ids(Path(folder) / name, *set_up) for name, set_up in SET_UPS.items()}
    first = next(iter(found.values()))
    differing = sorted(
        f"{source} under {name}"
        for name, ids in found.items()
        for source in wanted
        if ids[source][:2] != wanted[source] or ids[source] != first[source]
    )
    return {
        "tasks": len(list_tasks(fixtures)),
        "sources": len(wanted),
        "set_ups": len(found),
        "differing": differing,
        "ok": not differing and len(found) >= 4,
    }


def warm() -> Figures:
    """Measures create, attach and start of warm task images."""
    client = connect()
    owner = labels(installation_id(cache_root()), "bench")
    medians: dict[str, float] = {}
    every: list[float] = []
    for name in WARM:
        stage = stage_for(load_task(fixtures_root(), name), client, _say)
        took = []
        for _ in range(STARTS + 1):
            began = time.monotonic()
            profile = verifier_profile(stage.pin.limits, 60, draw_uids())
            made = Container.start(
                client, StepClock(), profile,
                image=stage.pin.agent_image.id, volume=None, labels=owner,
            )  # fmt: skip
            took.append(time.monotonic() - began)
            made.remove()
        medians[name] = round(statistics.median(took[1:]), 3)
        every += took[1:]
    return {
        "starts_each": STARTS,
        "median_s": medians,
        "slowest_s": round(max(every), 3),
        "bar_s": WARM_BAR_S,
        "ok": max(medians.values()) < WARM_BAR_S,
    }


class Timed:
    """Seconds by step."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}

    def run(self, name: str, work: Callable[[], T]) -> T:
        """Does a piece of work and keeps its time."""
        _say(f"images: {name}")
        began = time.monotonic()
        made = work()
        self.steps[name] = round(time.monotonic() - began, 1)
        return made


def fetch_all() -> None:
    """Has every wheel and package of the recipes in the cache."""
    give = supplies()
    for language in LANGUAGES:
        recipe = read_recipe(images_root(), language)
        for part in recipe.wheels:
            give.wheel(part.project, (part.sha256,), part.suffix)
        if recipe.packages:
            path = images_root() / language / "packages.lock.json"
            lock = PackageLock.parse(path.read_bytes(), where=path.name)
            for _ in give.packages(lock, ("*",)):
                pass


def images() -> Figures:
    """Makes base and all toolchains in an empty folder and loads every language's images."""
    client = connect()
    timed = Timed()
    timed.run("fetch wheels and packages", fetch_all)
    loaded: list[str] = []
    with tempfile.TemporaryDirectory(prefix="memtrial-images-", dir=cache_root()) as folder:
        try:
            _make_all(client, Path(folder), timed, loaded)
        finally:
            for image_id in reversed(loaded):
                client.images.remove(image_id, force=True)
    total_s = round(sum(timed.steps.values()), 1)
    return {
        "steps_s": timed.steps,
        "total_s": total_s,
        "images": len(loaded),
        "bar_s": IMAGES_BAR_S,
        "ok": total_s < IMAGES_BAR_S,
    }


def _make_all(client: EngineClient, folder: Path, timed: Timed, loaded: list[str]) -> None:
    drawn = make_layer([FileEntry("opt/memtrial/drawn", "100644", secrets.token_bytes(32))])
    recipe_bytes = (images_root() / "base" / "recipe.json").read_bytes()
    recipe = BaseRecipe.parse(recipe_bytes, where="images/base/recipe.json")
    target = folder / "images" / "base.tar"
    timed.run(
        "base, with its Debian packages from the mirror", lambda: bootstrap(recipe, target, _say)
    )
    base = Base(layer_of_file(target), "bench", packages_of(target))
    give = supplies()

    def fresh(layers: tuple[Layer, ...]) -> ImageSpec:
        return image_of((drawn, *layers))

    def load(engine: EngineClient, name: str, spec: ImageSpec, say: Callable[[str], None]) -> bool:
        new = ensure_loaded(engine, f"bench-{name}", spec, say)
        # What was refused, or was there before, is not ours to remove.
        if new and spec.image_id not in loaded:
            loaded.append(spec.image_id)
        return new

    def wheel(project: str, hashes: tuple[str, ...]) -> Path:
        return give.wheel(project, hashes, "-none-any.whl")

    python = timed.run("python: make", lambda: assemble(base, images_root(), wheel))
    stacks = {"python": python.python.layers}
    maker = Maker(
        images_root(), folder, give, client, (), _say, folders=FOLDERS, image_of=fresh, load=load
    )
    for name in LANGUAGES:
        recipe_id = recipe_sha256(images_root(), name)
        made = timed.run(f"{name}: make", partial(maker.layers, name, recipe_id, (base.layer,)))
        stacks[name] = (base.layer, *made)
    for name, layers in stacks.items():
        for role in ("agent", "verifier"):
            spec = fresh((*layers, program_layer(images_root(), role)))
            timed.run(f"{name}: load {role}", partial(load, client, f"{name}-{role}", spec, _say))


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


PARTS: dict[str, Callable[[], Figures]] = {"pins": pins, "warm": warm, "images": images}


def main(words: list[str]) -> int:
    """Measures the named parts, or all."""
    chosen = words or list(PARTS)
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        _say(f"expected some of {', '.join(PARTS)}, found {unknown[0]}")
        return 2
    before = os.getloadavg()[0]
    parts = {name: PARTS[name]() for name in chosen}
    result = {
        "proof": "tasks",
        "date": run_stamp(),
        "engine": describe(connect()),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": round(before, 2),
        "load_after": round(os.getloadavg()[0], 2),
        **parts,
    }
    out = ROOT / "results" / "proofs" / f"tasks-{run_stamp()}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=2) + "\n"
    write_atomic(out, text.encode())
    sys.stdout.write(text)
    return 0 if all(part["ok"] for part in parts.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
