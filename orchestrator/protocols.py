"""Every port on one page. Pipeline code knows these shapes; the rooms below implement them.

`Workspace` lives as long as a trial's containers; `Sandbox` opens one and runs verifications. An
`AgentDriver` turns a prompt into a command, a `MemoryAdapter` turns history into ranked items. Values
that cross a port are frozen.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from orchestrator.model.condition import Condition
from orchestrator.model.exchange import Role
from orchestrator.model.gateway import Traffic
from orchestrator.model.isolation import Inventory
from orchestrator.model.memory import Remembered
from orchestrator.model.plan import TaskPin
from orchestrator.model.resources import Resources
from orchestrator.model.task import History, Rehearsal
from orchestrator.model.verdict import Change, LeftOut


@dataclass(frozen=True, slots=True)
class Launch:
    """How an agent is started inside the container: command, extra environment, standard input."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    stdin: bytes


@dataclass(frozen=True, slots=True)
class TrialPlace:
    """Which attempt of which trial asks for the gateway, and the roles that may call models in it."""

    trial: str
    task_id: str
    condition: str
    attempt: int
    roles: tuple[Role, ...]


@dataclass(frozen=True, slots=True)
class GatewayPlace:
    """Where a trial reaches its gateway: the folder with its socket, and a token for each role."""

    folder: Path
    tokens: tuple[tuple[Role, str], ...]

    def token(self, role: Role) -> str:
        """Returns the token of a role."""
        return dict(self.tokens)[role]


@dataclass(frozen=True, slots=True)
class GatewayAccess:
    """What a client of the gateway needs: its address (without a path), a run token, a model."""

    base_url: str
    token: str
    model: str


@dataclass(frozen=True, slots=True)
class ActOutcome:
    """How the agent's container ended, and its bounded output (stdout and stderr interleaved)."""

    ended: Literal["exited", "time_limit", "output_limit", "oom_killed"]
    exit_code: int | None
    output: bytes
    output_truncated: bool


@dataclass(frozen=True, slots=True)
class HarvestOutcome:
    """The diff against the pinned tree, made by a trusted container after the agent's end."""

    tree: str
    diff: bytes
    diff_truncated: bool
    changes: tuple[Change, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its environment."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class VerifyJob:
    """One run of a suite in a fresh container: pinned tree + diff (+ hidden files).

    `protected` holds regular expressions over case-folded paths that are restored from the pinned tree.
    With a `candidate` the code under test runs in a process of its own, apart from the tests; what lies at
    and below `pinned_tests` in the pinned tree is then placed beside the hidden files, and its tests of the
    ids `left_out` are not run.
    """

    phase: Literal["pass_to_pass", "fail_to_pass"]
    task: TaskPin
    expect_tree: str
    diff: bytes
    hidden_files: tuple[tuple[str, str], ...]
    seal_files: tuple[tuple[str, str], ...]
    protected: tuple[str, ...]
    source_roots: tuple[str, ...]
    tests: Command
    candidate: Command | None
    pinned_tests: tuple[str, ...]
    left_out: tuple[str, ...]
    timeout_s: int


@dataclass(frozen=True, slots=True)
class VerifyOutcome:
    """What a verification container gave back; `report` is the runner's own file, unparsed."""

    compiled: bool
    compile_error: str | None
    timed_out: bool
    exit_code: int | None
    report: bytes | None
    log: bytes
    restored: tuple[str, ...] = ()
    left_running: int = 0


class Workspace(Protocol):
    """The containers of one trial."""

    @property
    def inventory(self) -> Inventory:
        """What stood in the container before `act`, by our own program's account."""

    @property
    def contents(self) -> tuple[tuple[str, bytes], ...]:
        """Path and content (in bounds) of the files of the inventory."""

    @property
    def runtime(self) -> str:
        """The container runtime under the agent's container, by the engine's account."""

    @property
    def exposed(self) -> bytes:
        """What the engine says of the container: name, labels, mounts, environment, command."""

    def listing(self) -> tuple[str, ...]:
        """The listing of image files behind the inventory's digest, one line each; only before `act`."""

    @property
    def gateway_url(self) -> str | None:
        """Where an agent inside reaches the gateway; None if it cannot."""

    def act(self, launch: Launch) -> ActOutcome:
        """Runs the agent to its end or to a limit; afterwards nothing of it is alive."""

    def harvest(self) -> HarvestOutcome:
        """Reads the work area after `act`; raises if the agent could still write."""

    def resources(self) -> Resources | None:
        """What the agent's container used, by the kernel's account; None if it could not be read."""

    def container_ms(self) -> int:
        """Wall time so far in which a container step was under way, in milliseconds."""


class Sandbox(Protocol):
    """Where containers come from."""

    def open(
        self, task: TaskPin, *, trial: str, sockets: Path | None = None
    ) -> AbstractContextManager[Workspace]:
        """Starts the containers of a trial; removes them and their volume on exit, whatever happens.

        `sockets` is the folder of the trial's gateway socket, for an agent that may reach the gateway.
        """

    def verify(self, job: VerifyJob, *, trial: str) -> tuple[VerifyOutcome, int]:
        """Runs one verification; also returns its container time in milliseconds."""


class AgentDriver(Protocol):
    """An agent as a command line."""

    @property
    def name(self) -> str:
        """The agent's name in plans."""

    def launch(
        self, prompt: str, rehearsal: Rehearsal, access: GatewayAccess | None = None
    ) -> Launch:
        """Builds the command for a prompt that already carries the memory text."""


class ModelGateway(Protocol):
    """The one door to models, for every role of a trial."""

    def open_trial(self, place: TrialPlace) -> GatewayPlace:
        """Makes a socket and tokens for an attempt."""

    def close_trial(self, trial: str) -> Traffic:
        """Makes them worthless and returns what went through."""


class MemoryAdapter(Protocol):
    """A memory system, driven from raw history to ranked items."""

    def remember(self, condition: Condition, history: History, query: str) -> Remembered:
        """Captures the history, freezes the store, then retrieves for the query (the task's prompt)."""
