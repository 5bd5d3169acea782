"""What the cache must hold so that tasks and images can be made without an index. Fetches what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from orchestrator.core.places import cache_root, fixtures_root, images_root
from orchestrator.model.images import PackageLock
from orchestrator.pipeline.imaging import languages_of, supplies
from orchestrator.sandbox.images import read_requirements
from orchestrator.sandbox.toolchain import read_recipe
from orchestrator.sources.cache import cached
from orchestrator.sources.loader import list_tasks, load_source, load_task
from orchestrator.sources.origins import archive_of

Say = Callable[[str], None]


def needed_files(say: Say, *, layers: bool) -> list[Path]:
    """Returns every cached file that tasks and their images are made of, fetched if need be.

    Args:
        say: progress lines.
        layers: also the finished base and toolchain layers, which a machine without Debian cannot make.

    Raises:
        EnvironmentMissing: something is neither in the cache nor to be had.
    """
    cache, fixtures, images = cache_root(), fixtures_root(), images_root()
    give = supplies()
    found: list[Path] = []
    for name in sorted(path.stem for path in (fixtures / "sources").glob("*.json")):
        archive = archive_of(load_source(fixtures, name), cache=cache)
        if archive is not None:
            say(f"sources: {name}")
            found.append(archive[1])
    for project, hashes in read_requirements(images / "python" / "requirements.lock"):
        found.append(give.wheel(project, hashes, "-none-any.whl"))
    tasks = [load_task(fixtures, task_id) for task_id in list_tasks(fixtures)]
    for language in languages_of(tasks):
        say(f"sources: toolchain {language}")
        found += _toolchain(images, cache, language)
    if layers:
        found += [path for path in (cache / "images").glob("*") if path.suffix in {".tar", ".json"}]
    return found


def _toolchain(images: Path, cache: Path, language: str) -> list[Path]:
    recipe = read_recipe(images, language)
    give = supplies()
    found = [give.wheel(part.project, (part.sha256,), part.suffix) for part in recipe.wheels]
    if recipe.packages:
        data = (images / language / "packages.lock.json").read_bytes()
        lock = PackageLock.parse(data, where=f"images/{language}/packages.lock.json")
        for _ in give.packages(lock, ("*",)):
            pass
        paths = [cached(cache, package.sha256) for package in lock.packages]
        found += [path for path in paths if path is not None]
    return found
