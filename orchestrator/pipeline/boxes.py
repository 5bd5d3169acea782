"""Where memory systems that are programs are started: in the agents' image without any checkout.

A program that drives a product has the product's layer on top. Makes images that are missing; used by trials and by
hand.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from orchestrator.model.condition import Condition
from orchestrator.pipeline.imaging import layer_of_product, shared_images
from orchestrator.protocols import MemoryBox, MemoryProgram, OpenBox, Sandbox
from orchestrator.sandbox.adapter import DockerSandbox, EngineClient
from orchestrator.sandbox.images import ensure_loaded
from orchestrator.sandbox.products import with_product

Say = Callable[[str], None]


class Boxes:
    """Starts programs; knows an image once the first program of it is asked for."""

    def __init__(self, sandbox: DockerSandbox, client: EngineClient, say: Say) -> None:
        self._sandbox = sandbox
        self._client = client
        self._say = say
        self._lock = threading.Lock()
        self._images: dict[str | None, str] = {}

    def of(self, trial: str) -> OpenBox:
        """Returns what starts the programs of one trial."""
        return partial(self._start, trial)

    def ready(self, conditions: Iterable[Condition]) -> None:
        """Makes the images of products before a trial needs them: that time is no arm's own.

        Raises:
            MemtrialError: one cannot be made here.
        """
        for product in sorted({c.product for c in conditions if c.product is not None}):
            self._found(product)

    def _start(self, trial: str, program: MemoryProgram, sockets: Path | None) -> MemoryBox:
        image = self._found(program.product)
        return self._sandbox.start_box(program, sockets, trial=trial, image=image)

    def _found(self, product: str | None) -> str:
        with self._lock:
            if product not in self._images:
                spec = shared_images(self._client, (), self._say).python.agent
                if product is not None:
                    spec = with_product(spec, layer_of_product(product, self._say))
                name = "agent" if product is None else f"memory-{product}"
                ensure_loaded(self._client, name, spec, self._say)
                self._images[product] = spec.image_id
            return self._images[product]


def boxes_of(sandbox: Sandbox, client: EngineClient, say: Say = lambda _: None) -> Boxes | None:
    """Returns where programs are started; None for a sandbox without containers."""
    return Boxes(sandbox, client, say) if isinstance(sandbox, DockerSandbox) else None
