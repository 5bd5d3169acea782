"""Makes the images of a plan while it is built: a pair for each task, one more for each packaged agent.

Without an engine nothing is loaded and ids are computed; from the cache alone, if so asked, and then an id
may stay unknown. Remembers what it made, for the leak scan.
"""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.core.errors import UsageError
from orchestrator.core.places import images_root
from orchestrator.model.plan import ImagePin
from orchestrator.pipeline.imaging import Shared, languages_of, layer_of_agent, shared_images
from orchestrator.sandbox.adapter import EngineClient
from orchestrator.sandbox.agents import read_agent_recipe, with_agent
from orchestrator.sandbox.images import ensure_loaded, pin
from orchestrator.sandbox.layers import ImageSpec
from orchestrator.sources.closed import NotAtHand
from orchestrator.sources.loader import LoadedTask

Say = Callable[[str], None]


def check_holds_no_answer(task: LoadedTask, agent: str) -> None:
    """Refuses an agent whose own modules are another version of the repository under test: an answer in the house.

    Raises:
        UsageError: they are.
    """
    project = task.card.source.rpartition("-")[0].replace("_", "-").casefold()
    recipe = read_agent_recipe(images_root(), agent)
    held = next((w for w in recipe.wheels if w.project.casefold() == project), None)
    if held is not None:
        raise UsageError(
            "agent-holds-library",
            f"task {task.card.id}: expected an image without {project}, found that agent {agent} brings {held.project} {held.version}",
            hint="leave the task out with --task, or choose another agent",
        )


# Stands for an image whose parts are not at hand; no engine has it and no run takes it.
UNKNOWN = ImagePin(id="sha256:" + "0" * 64, diff_ids=("sha256:" + "0" * 64,))


class PlanImages:
    """The images of one plan. `made` holds those that agents act in, each with its task.

    `unknown` says what is missing for images that could not be computed without fetching.
    """

    def __init__(self, client: EngineClient | None, say: Say, *, official: bool) -> None:
        self._client = client
        self._say = say
        self._official = official
        self._shared: dict[str, Shared] = {}
        self._common: dict[str, ImageSpec] = {}
        self.made: list[tuple[LoadedTask, ImageSpec]] = []
        self.unknown: list[str] = []

    def of_task(self, task: LoadedTask) -> tuple[ImagePin, ImagePin]:
        """Returns (agent image, verifier image) of a task.

        Raises:
            MemtrialError: they cannot be made here.
        """
        try:
            return self._of_task(task)
        except NotAtHand as missing:
            self.unknown.append(f"{task.card.id}: {missing.message}")
            return UNKNOWN, UNKNOWN

    def _of_task(self, task: LoadedTask) -> tuple[ImagePin, ImagePin]:
        languages = languages_of([task])
        name = languages[0] if languages else "python"
        if name not in self._shared:
            self._shared[name] = shared_images(
                self._client,
                languages,
                self._say,
                official=self._official,
                made=next(iter(self._shared.values()), None),
            )
        agent, verifier = self._shared[name].of_task(task)
        self._common[task.card.id] = agent
        self._load(task, "verifier", verifier)
        self._load(task, "agent", agent)
        self.made.append((task, agent))
        return pin(agent), pin(verifier)

    def of_agent(self, task: LoadedTask, agent: str) -> ImagePin:
        """Returns the image of a task, whose pair was made before, for a packaged agent.

        Raises:
            UsageError: the agent's layer holds the library that the task is about.
            MemtrialError: it cannot be made here.
        """
        check_holds_no_answer(task, agent)
        if task.card.id not in self._common:
            return UNKNOWN
        try:
            layer = layer_of_agent(agent, self._say)
        except NotAtHand as missing:
            self.unknown.append(f"{agent}: {missing.message}")
            return UNKNOWN
        spec = with_agent(self._common[task.card.id], layer)
        self._load(task, agent, spec)
        self.made.append((task, spec))
        return pin(spec)

    def _load(self, task: LoadedTask, role: str, spec: ImageSpec) -> None:
        if self._client is not None:
            ensure_loaded(self._client, f"{task.card.id}-{role}", spec, self._say)
