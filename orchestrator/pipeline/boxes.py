"""Where memory systems that are programs are started: in the agents' image without any checkout.

Makes that image if it is missing; used by trials and by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from orchestrator.pipeline.imaging import shared_images
from orchestrator.protocols import MemoryBox, MemoryProgram, OpenBox, Sandbox
from orchestrator.sandbox.adapter import DockerSandbox, EngineClient
from orchestrator.sandbox.images import ensure_loaded

Say = Callable[[str], None]


class Boxes:
    """Starts programs; knows the image once the first one is asked for."""

    def __init__(self, sandbox: DockerSandbox, client: EngineClient, say: Say) -> None:
        self._sandbox = sandbox
        self._client = client
        self._say = say
        self._image: str | None = None

    def of(self, trial: str) -> OpenBox:
        """Returns what starts the programs of one trial."""
        return partial(self._start, trial)

    def _start(self, trial: str, program: MemoryProgram, sockets: Path | None) -> MemoryBox:
        return self._sandbox.start_box(program, sockets, trial=trial, image=self._found())

    def _found(self) -> str:
        if self._image is None:
            spec = shared_images(self._client, (), self._say).python.agent
            ensure_loaded(self._client, "agent", spec, self._say)
            self._image = spec.image_id
        return self._image


def boxes_of(sandbox: Sandbox, client: EngineClient, say: Say = lambda _: None) -> Boxes | None:
    """Returns where programs are started; None for a sandbox without containers."""
    return Boxes(sandbox, client, say) if isinstance(sandbox, DockerSandbox) else None
