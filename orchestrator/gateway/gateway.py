"""A running gateway: opens a socket and tokens for each trial, closes them, and says what went through.

Writes a folder (spend book, traffic, bodies) and makes sockets; each has one gateway at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from orchestrator.core.errors import BudgetExhausted, UsageError
from orchestrator.core.peer import peer_uid
from orchestrator.core.sockets import listen_at
from orchestrator.gateway.budget import Budget
from orchestrator.gateway.cassette import Cassette, ReplayMode
from orchestrator.gateway.desk import Desk
from orchestrator.gateway.modes import Mode
from orchestrator.gateway.quota import OverCap
from orchestrator.gateway.record import Recorder
from orchestrator.gateway.scripted import ScriptedMode
from orchestrator.gateway.secrets import Secrets
from orchestrator.gateway.server import Connection, Held
from orchestrator.gateway.tally import AttemptTally
from orchestrator.gateway.tokens import Grant
from orchestrator.model.exchange import Role
from orchestrator.model.gateway import Bounds, GatewaySetup, Traffic
from orchestrator.model.usage import Caps, PriceTable, Quota
from orchestrator.protocols import GatewayPlace, TrialPlace

SPEND = "spend.jsonl"
SOCKET_NAME = "gateway.sock"
# How many connections may wait to be accepted.
BACKLOG = 256


class Gateway:
    """Serves trials over sockets of their own. Belongs to one event loop."""

    def __init__(
        self,
        mode: Mode,
        *,
        folder: Path,
        sockets: Path,
        prices: PriceTable,
        caps: Caps,
        bounds: Bounds,
        secrets: Secrets,
        book: Path | None = None,
        quota: Quota | None = None,
        admits: Callable[[int], bool] | None = None,
    ) -> None:
        """Opens record and spend book; the book lies in the record's folder unless `book` names it.

        `admits` says of a user, by the kernel's account, whether a trial's socket serves them; by default all.
        """
        # The book first: a record without its book is then one whose book was lost.
        self._budget = Budget(
            caps, book or folder / SPEND, real_money=mode.name == "live", quota=quota
        )
        try:
            self._recorder = Recorder(folder, secrets)
        except BaseException:
            self._budget.close()
            raise
        self.desk = Desk(
            mode=mode,
            prices=prices,
            budget=self._budget,
            recorder=self._recorder,
            secrets=secrets,
            bounds=bounds,
        )
        self._sockets = sockets
        self._admits = admits
        self._bounds = bounds
        self._servers: dict[str | None, asyncio.Server] = {}
        self._own_sockets: list[Path] = []
        self._connections: dict[Connection, tuple[str | None, asyncio.Task[None]]] = {}
        self._held: dict[str | None, Held] = {}
        self._count = 0

    async def open_trial(self, place: TrialPlace) -> GatewayPlace:
        """Makes socket and tokens of an attempt.

        Raises:
            UsageError: the trial is open already.
            BudgetExhausted: the approval allows no more attempts of agents.
        """
        if place.trial in self._servers:
            raise UsageError(
                "trial-open",
                f"expected trial {place.trial} closed, found it open",
                hint="close the attempt before the next begins",
            )
        try:
            self._budget.open_attempt(place.trial, place.attempt)
        except OverCap as error:
            raise BudgetExhausted(
                "agent-calls-used-up",
                f"{place.trial}: expected another attempt that the approval allows, found: {error}",
                hint="what is left of this run needs another approval, of another plan",
            ) from error
        await self._budget.durable()
        folder = self._sockets / f"{self._count:06d}"
        self._count += 1
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        self.desk.tallies[place.trial] = AttemptTally(place.trial, place.condition, place.attempt)
        await self.listen_unix(folder / SOCKET_NAME, place.trial)
        return GatewayPlace(folder, tuple((role, self._issue(place, role)) for role in place.roles))

    def _issue(self, place: TrialPlace, role: Role) -> str:
        grant = Grant(place.trial, place.task_id, place.condition, place.attempt, role)
        return self.desk.tokens.issue(grant)

    async def close_trial(self, trial: str) -> Traffic:
        """Revokes the tokens, lets running calls end within a limit, and returns the sums.

        Raises:
            UsageError: the trial is not open.
        """
        if trial not in self._servers:
            raise UsageError(
                "trial-not-open",
                f"expected an open trial, found {trial} closed",
                hint="open it first",
            )
        self.desk.tokens.revoke(trial)
        server = self._servers.pop(trial)
        folder = self._folder_of(server)
        server.close()
        await self._end_connections(trial)
        await self._budget.durable()
        await self._recorder.sync()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        self._held.pop(trial, None)
        tally = self.desk.tallies.pop(trial)
        divergence = None
        if isinstance(self.desk.mode, ReplayMode):
            divergence = self.desk.mode.divergences.get((trial, tally.attempt))
        return tally.traffic(divergence=divergence, unsettled=self._budget.unsettled_of(trial))

    def _folder_of(self, server: asyncio.Server) -> Path | None:
        names = [s.getsockname() for s in server.sockets if s.family == socket.AF_UNIX]
        return Path(names[0]).parent if names else None

    async def _end_connections(self, trial: str | None) -> None:
        mine = [(c, task) for c, (t, task) in self._connections.items() if t == trial]
        for connection, task in mine:
            connection.last = True
            if not connection.busy:
                task.cancel()
        tasks = [task for _, task in mine]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._bounds.close_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def listen_unix(self, path: Path, trial: str | None = None) -> None:
        """Listens on a Unix socket that any user of its folder may connect to.

        Raises:
            UsageError: something listens there already, something else is there, or nothing can be made there.
        """
        try:
            listener = listen_at(path, backlog=BACKLOG)
        except OSError as error:
            raise UsageError(
                "socket-not-made",
                f"{path}: expected a folder that a socket can be made in, found {error.strerror or error}",
                hint="make the folder, or choose a shorter path",
            ) from error
        self._own_sockets.append(path)
        self._servers[trial] = await asyncio.start_unix_server(
            lambda reader, writer: self._connected(reader, writer, trial),
            sock=listener,
            backlog=BACKLOG,
        )

    async def listen_loopback(self, port: int) -> int:
        """Listens on a loopback port and returns its number; 0 asks for a free one.

        Raises:
            UsageError: there is no such port, or it is not to be had.
        """
        try:
            server = await asyncio.start_server(
                lambda reader, writer: self._connected(reader, writer, None), "127.0.0.1", port
            )
        except (OSError, OverflowError) as error:
            raise UsageError(
                "port-not-free",
                f"port {port}: expected a free loopback port from 1 to 65535, found {getattr(error, 'strerror', None) or error}",
                hint="choose another port, or 0 for any free one",
            ) from error
        self._servers[f"port {port}"] = server
        return int(server.sockets[0].getsockname()[1])

    def _connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trial: str | None
    ) -> None:
        if not self._is_admitted(writer):
            writer.close()
            return
        mine = sum(of == trial for of, _ in self._connections.values())
        crowded = trial is not None and mine >= self._bounds.trial_connections
        if crowded or len(self._connections) >= self._bounds.connections:
            writer.close()
            return
        held = self._held.setdefault(trial, Held())
        connection = Connection(
            reader, writer, desk=self.desk, bounds=self._bounds, trial=trial, held=held
        )
        task = asyncio.get_running_loop().create_task(connection.run())
        self._connections[connection] = (trial, task)
        task.add_done_callback(lambda _: self._connections.pop(connection))

    def _is_admitted(self, writer: asyncio.StreamWriter) -> bool:
        """Asks the kernel who connected: strangers leave no trace in a trial's record and take no connection."""
        if self._admits is None:
            return True
        try:
            return self._admits(peer_uid(writer.get_extra_info("socket")))
        except OSError:
            return False

    async def close(self) -> None:
        """Ends everything: calls within a limit, then sockets, mode, record and book."""
        for server in self._servers.values():
            server.close()
        for path in self._own_sockets:
            path.unlink(missing_ok=True)
        for trial in {t for t, _ in self._connections.values()}:
            await self._end_connections(trial)
        await self.desk.mode.close()
        self._recorder.close()
        self._budget.close()
        with contextlib.suppress(OSError):
            shutil.rmtree(self._sockets)


def offline_gateway(setup: GatewaySetup) -> Gateway:
    """Makes a scripted or replaying gateway from its set-up. There is no way from a file to live calls.

    Raises:
        UsageError: not exactly one of script and cassette, or folder or cassette cannot be used.
    """
    mode: Mode
    if setup.cassette is not None and setup.script is None:
        mode = ReplayMode(Cassette(Path(setup.cassette.folder), dict(setup.cassette.attempts)))
    elif setup.script is not None and setup.cassette is None:
        mode = ScriptedMode(setup.script)
    else:
        raise UsageError(
            "gateway-mode",
            "expected exactly one of script and cassette, found both or none",
            hint="give --script FILE or --cassette RUN",
        )
    return Gateway(
        mode,
        folder=Path(setup.folder),
        sockets=Path(setup.sockets),
        prices=setup.prices,
        caps=setup.caps,
        bounds=setup.bounds,
        secrets=Secrets(),
    )
