"""Every port on one page. Pipeline code knows these shapes; the rooms below implement them.

`Workspace` lives as long as a trial's containers; `Sandbox` opens one and runs verifications. An
`AgentDriver` turns a prompt into a command, a `MemoryAdapter` turns sessions into a compiled context. Values
that cross a port are frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from orchestrator.model.condition import MemoryBudget
from orchestrator.model.exchange import Role
from orchestrator.model.gateway import Traffic
from orchestrator.model.isolation import Inventory
from orchestrator.model.lifecycle import (
    CaptureReport,
    CompiledContext,
    Description,
    ExtractionReport,
    GoldFacts,
    Query,
    Ranked,
    Session,
    Snapshot,
    StoreDump,
)
from orchestrator.model.plan import TaskPin
from orchestrator.model.resources import Resources
from orchestrator.model.task import Rehearsal
from orchestrator.model.verdict import Change, LeftOut

Form = TypeVar("Form", bound=BaseModel)


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

    def allows(self, role: Role) -> bool:
        """Whether a role has a token; one that nobody approved has none."""
        return role in dict(self.tokens)


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


@dataclass(frozen=True, slots=True)
class MemoryProgram:
    """A memory system as a program in any language: its files (path, mode, content) and which one is started.

    An entry that ends in `.py` is run by the container's Python; any other must be able to run by itself.
    `product` names the recipe (images/memory/<product>) of the layer that it stands on, `variant` how it is used.
    """

    entry: str
    files: tuple[tuple[str, int, bytes], ...]
    product: str | None = None
    variant: str | None = None


@dataclass(frozen=True, slots=True)
class BoxAnswer:
    """What a program answered to one line: a line, or why there is none."""

    kind: Literal["line", "timed_out", "flooded", "ended"]
    line: bytes
    detail: str


class MemoryBox(Protocol):
    """A memory system's program in a container of its own."""

    @property
    def gateway_url(self) -> str:
        """Where the program reaches the gateway, as seen from inside."""

    def ask(self, line: bytes, *, limit_s: float, max_bytes: int) -> BoxAnswer:
        """Sends one line and waits for one."""

    def files(self) -> tuple[tuple[str, bytes], ...]:
        """Returns the files of its work folder by name, sorted; a name with NUL is no plain file."""

    def close(self) -> None:
        """Ends it, whatever it does."""


OpenBox = Callable[[MemoryProgram, Path | None], MemoryBox]
"""Starts a program; with the folder of a gateway socket, or without any way out."""


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


class Clock(Protocol):
    """The time of a history: a memory system asks it, and never the machine, so that runs repeat."""

    def now(self) -> str:
        """Returns the time of the latest event that was handed over, as RFC 3339 text in UTC."""


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """Where a memory system lives: its own empty folders, its only way out, and what it may spend.

    Everything that it keeps lies below `workdir`, which is archived when the store is frozen. `budget` is
    null for an arm that delivers nothing; `gateway` for one that asks no model;
    `socket` is the folder with the gateway's Unix socket. `seed` is all its chance.
    """

    workdir: Path
    home: Path
    gateway: GatewayAccess | None
    clock: Clock
    budget: MemoryBudget | None
    seed: int
    socket: Path | None = None


class ModelAsker(Protocol):
    """Asks a model for an answer of a form, through the gateway and for one role of one trial."""

    def chat(self, prompt: str, form: type[Form], *, max_tokens: int) -> Form:
        """Returns the answer.

        Raises:
            MemtrialError: there was none, or it does not have the form.
        """

    def close(self) -> None:
        """Closes the connections."""


class MemoryAdapter(Protocol):
    """A memory system, from raw history to compiled context. One object lives for one trial.

    The steps come in this order: describe, open, ingest for each session, settle, freeze, retrieve, compile,
    close. `dump` may be asked for at any time after `open`. The harness records and hashes every answer,
    checks it, bounds its time and size, and charges whatever breaks to the step at which it broke.
    """

    def describe(self) -> Description:
        """Says who this is and what it can; asked before anything else, without effects."""

    def open(self, place: MemoryPlace) -> None:
        """Makes an empty store below `place.workdir`."""

    def ingest(self, session: Session) -> CaptureReport:
        """Captures one session; sessions come in chronological order, each once."""

    def settle(self, deadline_s: int) -> ExtractionReport:
        """Drains every queue within so many seconds; what is not done by then has failed."""

    def freeze(self) -> Snapshot:
        """Ends all writing, before the task is known."""

    def retrieve(self, query: Query) -> Ranked:
        """Returns the best items for a query; at most `query.k`, of its scope, from the frozen store."""

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        """Chooses and orders items under the budget and renders them by the shared template."""

    def dump(self, as_of: str | None = None) -> StoreDump:
        """Returns the whole store, or what it held at a time (RFC 3339, UTC); changes nothing."""

    def close(self) -> None:
        """Lets go of everything; called once, also after a failure, and after a hang from another thread."""


@runtime_checkable
class ServingAdapter(MemoryAdapter, Protocol):
    """A memory system whose frozen store can be searched again later, by queries that an agent makes up."""

    def reopen(self, workdir: Path) -> None:
        """Opens the work folder as `freeze` left it, for reading alone; no other step came before."""


@runtime_checkable
class InformedAdapter(MemoryAdapter, Protocol):
    """A memory system with a door for facts of the answer key: a bound or a harm probe, never a claim."""

    def inform(self, gold: GoldFacts) -> None:
        """Hands over gold facts, once, after `describe` and before `open`."""
