"""Brings sources and sandbox together for images: shared ones by language, and the pair of each task.

Only the languages that are asked for are assembled. Reads recipes, locks and pins; writes the cache, an
ignored local lock, and for maintainers images/lock.json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from orchestrator.core.files import write_atomic
from orchestrator.core.gittree import FileEntry
from orchestrator.core.places import cache_root, fixtures_root, images_root, local_lock_path
from orchestrator.model.images import IMAGE_OF, PackageLock
from orchestrator.model.plan import Plan
from orchestrator.model.products import ProductRecipe
from orchestrator.sandbox.adapter import EngineClient
from orchestrator.sandbox.agents import agent_layer
from orchestrator.sandbox.base import Base, ensure_base, read_lock
from orchestrator.sandbox.images import (
    FOLDERS,
    ImageSet,
    assemble,
    ensure_loaded,
    lock_of,
    task_images,
)
from orchestrator.sandbox.languages import LanguageImages, assemble_language, image_of
from orchestrator.sandbox.layers import ImageSpec, Layer
from orchestrator.sandbox.leaks.literals import check_task
from orchestrator.sandbox.products import product_layer
from orchestrator.sandbox.toolchain import Maker, Supplies, wheel_files
from orchestrator.sources.agents import agent_files, product_wheels
from orchestrator.sources.checkout import materialise, repository_entries
from orchestrator.sources.fetch import PinnedFile, fetch
from orchestrator.sources.loader import LoadedTask, check_against_checkout, load_task
from orchestrator.sources.steering import steering_files, telling_lines
from orchestrator.sources.supplies import package_files

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Shared:
    """The shared images of some languages."""

    base: Base
    python: ImageSet
    others: dict[str, LanguageImages]

    def named(self) -> dict[str, ImageSpec]:
        """Returns all images by name."""
        found = self.python.named()
        for language in self.others.values():
            found |= language.named()
        return found

    def of_task(self, task: LoadedTask) -> tuple[ImageSpec, ImageSpec]:
        """Returns (agent image, verifier image) of a task: its language's images and its checkout.

        Raises:
            MemtrialError: the checkout cannot be had, or contradicts the task.
        """
        checkout = materialise(
            task.source, fixtures=task.root or fixtures_root(), cache=cache_root()
        )
        check_against_checkout(task, checkout)
        entries = (*checkout.entries, *repository_entries(checkout))
        check_task(
            entries,
            key=task.key,
            rehearsal=task.rehearsal,
            brief=task.brief,
            history=task.history,
        )
        name = IMAGE_OF[task.card.language]
        pair = self.python if name == "python" else self.others[name]
        return task_images(pair, entries)


def supplies() -> Supplies:
    """Returns where pinned packages come from: the cache, else the index through its ordinary client."""
    cache = cache_root()
    return Supplies(
        wheel=lambda project, hashes, suffix: fetch(PinnedFile(project, hashes, suffix), cache),
        packages=lambda lock, exclude: package_files(lock, exclude, cache),
    )


def layer_of_agent(name: str, say: Say) -> Layer:
    """Returns the image layer of a packaged agent, made once per machine.

    Raises:
        MemtrialError: it cannot be made here.
    """
    cache = cache_root()
    return agent_layer(images_root(), cache, name, lambda recipe: agent_files(recipe, cache), say)


def layer_of_product(name: str, say: Say) -> Layer:
    """Returns the image layer of a memory product, made once per machine.

    Raises:
        MemtrialError: it cannot be made here.
    """
    cache = cache_root()
    give = supplies()

    def files(recipe: ProductRecipe) -> Iterator[FileEntry]:
        yield from product_wheels(recipe, cache)
        for part in recipe.parts:
            path = give.wheel(part.project, (part.sha256,), part.suffix)
            yield from wheel_files(path.read_bytes(), part)
        if recipe.packages:
            yield from give.packages(PackageLock(packages=recipe.packages), recipe.exclude)

    return product_layer(images_root(), cache, name, files, say)


def steering_of(plan: Plan) -> dict[str, tuple[tuple[str, tuple[str, ...]], ...]]:
    """Returns the files of each task's checkout that steer agents, with the lines that tell them."""
    found = {}
    for pin in plan.tasks:
        task = load_task(fixtures_root(), pin.digests.id)
        checkout = materialise(
            task.source, fixtures=task.root or fixtures_root(), cache=cache_root()
        )
        files = steering_files(checkout.entries)
        found[pin.digests.id] = tuple((file.path, telling_lines(file.data)) for file in files)
    return found


def languages_of(tasks: Iterable[LoadedTask]) -> tuple[str, ...]:
    """Returns the image languages beside Python that tasks need, sorted."""
    return tuple(sorted({IMAGE_OF[task.card.language] for task in tasks} - {"python"}))


def shared_images(
    client: EngineClient | None,
    languages: tuple[str, ...],
    say: Say,
    *,
    official: bool = False,
    made: Shared | None = None,
) -> Shared:
    """Assembles the shared images; without an engine ids are computed from locks and cache.

    Args:
        client: an engine, or None.
        languages: those beside Python.
        say: progress lines.
        official: take no base but the locked one.
        made: what an earlier call of the same plan gave; its base and Python images are taken over.

    Raises:
        IntegrityError: official, and the base is not the locked one.
        EnvironmentMissing: a base or a toolchain cannot be made here.
    """
    cache, images = cache_root(), images_root()
    give = supplies()
    if made is not None:
        base, python = made.base, made.python
    else:
        base = ensure_base(client, images, cache, local_lock_path(), say, official=official)
        python = assemble(
            base, images, lambda project, hashes: give.wheel(project, hashes, "-none-any.whl")
        )
    locks = [lock for lock in map(read_lock, (images / "lock.json", local_lock_path())) if lock]
    maker = Maker(
        images,
        cache,
        give,
        client,
        locks,
        say,
        folders=FOLDERS,
        image_of=image_of,
        load=ensure_loaded,
    )
    others = {name: assemble_language(base, images, name, maker) for name in languages}
    shared = Shared(base, python, others)
    _note_differences(shared)
    return shared


def _note_differences(shared: Shared) -> None:
    committed = images_root() / "lock.json"
    lock = _lock(shared)
    if not committed.exists() or committed.read_bytes() != lock:
        write_atomic(local_lock_path(), lock)


def _lock(shared: Shared) -> bytes:
    old = read_lock(images_root() / "lock.json")
    kept = old.images if old else ()
    return lock_of(shared.base, shared.named(), images_root(), kept=kept).canonical() + b"\n"


def write_lock(shared: Shared) -> None:
    """Records the shared images in images/lock.json, for maintainers."""
    write_atomic(images_root() / "lock.json", _lock(shared))
    local_lock_path().unlink(missing_ok=True)
