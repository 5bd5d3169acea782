"""Makes the guard of each task of a run: its literals, the host's paths, the run's canaries, the image layers.

Reads the places of this installation; writes the host's canary into the run's own folder and notes on
layers into the cache. The real HOME is never written to.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from orchestrator.attest import layout
from orchestrator.core.files import write_atomic
from orchestrator.core.places import cache_root, clone_root, fixtures_root, results_root
from orchestrator.model.plan import TaskPin
from orchestrator.pipeline.isolation import Guard
from orchestrator.sandbox.adapter import EngineClient
from orchestrator.sandbox.layers import ImageSpec, Layer
from orchestrator.sandbox.leaks.layers import BringLayers, LayerBook, LayersKnown
from orchestrator.sandbox.leaks.literals import (
    canary,
    canary_literal,
    host_path_literals,
    oracle_literals,
)
from orchestrator.sandbox.leaks.scanner import Literal
from orchestrator.sandbox.saved import saved_layers
from orchestrator.sources.loader import LoadedTask

HOST_CANARY = layout.CANARY
Say = Callable[[str], None]


def host_canary(folder: Path) -> str:
    """Returns the canary that lies on the host for a run, planted in the run's folder on first use.

    The canaries of the run's trials are derived from it, so a resumed run has the same ones.
    """
    path = folder / HOST_CANARY
    if not path.exists():
        write_atomic(path, canary(secrets.token_hex(16), "host") + b"\n", mode=0o600)
    return path.read_text(encoding="ascii").strip()


def image_paths() -> tuple[Literal, ...]:
    """Returns the literals of host paths that an image could have caught when it was made."""
    paths = [Path.home(), cache_root(), fixtures_root(), clone_root()]
    return host_path_literals(path.absolute() for path in paths if path is not None)


def layer_book() -> LayerBook:
    """Returns this installation's notes on image layers."""
    return LayerBook(cache_root() / "layers")


def examine_images(
    client: EngineClient,
    made: Iterable[tuple[LoadedTask, ImageSpec]],
    say: Say,
) -> None:
    """Searches the layers of fresh agent images for the literals of all their tasks, in one pass each."""
    made = tuple(made)
    literals = _union(task for task, _ in made)
    specs = {spec.image_id: spec for _, spec in made}
    diff_ids = tuple(dict.fromkeys(diff_id for spec in specs.values() for diff_id in spec.diff_ids))

    def bring(missing: frozenset[str]) -> Iterable[Layer]:
        say(f"leak scan: searching {len(missing)} image layers")
        given: set[str] = set()
        for spec in specs.values():
            for layer in spec.layers:
                at_hand = isinstance(layer.data, bytes) or layer.data.is_file()
                if layer.diff_id in missing - given and at_hand:
                    given.add(layer.diff_id)
                    yield layer
            rest = missing.intersection(spec.diff_ids) - given
            if rest:
                given |= rest
                yield from saved_layers(client, spec.image_id, spec.diff_ids, rest)

    layer_book().know(diff_ids, literals, bring)


def _union(tasks: Iterable[LoadedTask]) -> tuple[Literal, ...]:
    oracle = [literal for task in tasks for literal in oracle_literals(task.key, task.rehearsal)]
    return tuple(dict.fromkeys((*oracle, canary_literal(), *image_paths())))


class Guards:
    """The guards of a run's tasks, made once each."""

    def __init__(self, tasks: dict[str, LoadedTask], client: EngineClient, *, secret: str) -> None:
        self._tasks = tasks
        self._client = client
        self._secret = secret
        self._book = layer_book()
        self._union = _union(tasks.values())
        self._made: dict[tuple[str, str], Guard] = {}

    def of(self, pin: TaskPin) -> Guard:
        """Returns the guard of a task in the image that its pin names for the agent."""
        task = self._tasks[pin.digests.id]
        return self._made.setdefault(
            (pin.digests.id, pin.agent_image.id),
            Guard(
                oracle=oracle_literals(task.key, task.rehearsal),
                image_paths=image_paths(),
                run_paths=host_path_literals([results_root().absolute()]),
                secret=self._secret,
                know=lambda literals: self._know(pin, literals),
            ),
        )

    def _know(self, pin: TaskPin, literals: tuple[Literal, ...]) -> LayersKnown:
        image = pin.agent_image
        bring: BringLayers = lambda missing: saved_layers(  # noqa: E731
            self._client, image.id, image.diff_ids, missing
        )
        known = self._book.know(image.diff_ids, (*self._union, *literals), bring)
        own = {literal.sha256 for literal in literals}
        return LayersKnown(
            tuple(f for f in known.findings if f.literal_sha256 in own), known.listing
        )
