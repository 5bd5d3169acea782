"""Starts a gateway process and talks to it; the only place of this room that starts a process.

Run tokens come back over a pipe, so they stand in no command line and no file. The process ends with its
starter, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from orchestrator.core.errors import (
    ApprovalRefused,
    BudgetExhausted,
    EnvironmentMissing,
    MemtrialError,
)
from orchestrator.core.strictjson import parse_json
from orchestrator.core.waiting import readable
from orchestrator.gateway.control import MAX_LINE_BYTES, order_close, order_open
from orchestrator.model.gateway import GatewaySetup, LiveSetup, Traffic
from orchestrator.protocols import GatewayPlace, TrialPlace

START_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 120.0
_PROGRAM = (sys.executable, "-m", "orchestrator", "gateway")
COMMAND = (*_PROGRAM, "--controlled")
LIVE_COMMAND = (*_PROGRAM, "--controlled-live")


class GatewayFault(MemtrialError):
    """The gateway's process failed or refused."""

    exit_code = 4


# What the other process refused for a reason that this one must tell apart, by exit code.
_MEANT: dict[int, type[MemtrialError]] = {
    kind.exit_code: kind for kind in (ApprovalRefused, BudgetExhausted)
}


class GatewayProcess:
    """A running gateway process. Threads may open and close trials together."""

    def __init__(self, setup: GatewaySetup | LiveSetup) -> None:
        """Starts the process and waits until it is ready.

        Raises:
            GatewayFault: it refused its set-up, or did not come up.
        """
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            LIVE_COMMAND if isinstance(setup, LiveSetup) else COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is for the starter, which ends this process in order.
            start_new_session=True,
        )
        try:
            self._ask(setup.canonical() + b"\n", START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise

    def open_trial(self, place: TrialPlace) -> GatewayPlace:
        """Opens an attempt: makes its socket and tokens."""
        answer = self._ask(order_open(place), ANSWER_TIMEOUT_S)
        tokens = answer["tokens"]
        if not isinstance(tokens, dict):
            raise self._silent("an answer without tokens")
        return GatewayPlace(
            Path(str(answer["folder"])), tuple((r, str(tokens[r])) for r in place.roles)
        )

    def close_trial(self, trial: str) -> Traffic:
        """Closes an attempt and returns what went through."""
        answer = self._ask(order_close(trial), ANSWER_TIMEOUT_S)
        return Traffic.parse(json.dumps(answer["traffic"]).encode(), where="traffic")

    def _ask(self, line: bytes, timeout_s: float) -> dict[str, object]:
        with self._lock:
            stdin, stdout = self._process.stdin, self._process.stdout
            if stdin is None or stdout is None:
                raise self._silent("no pipes")
            try:
                stdin.write(line)
                stdin.flush()
            except OSError as error:
                raise self._silent(str(error)) from error
            data = bytearray()
            deadline_s = time.monotonic() + timeout_s
            while not data.endswith(b"\n"):
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or not readable(stdout, left_s):
                    raise self._silent(f"nothing within {timeout_s:.0f} s")
                piece = stdout.read1(65536)  # type: ignore[attr-defined]
                if not piece:
                    raise self._silent(f"its end, exit code {self._process.poll()}")
                data += piece
        answer = parse_json(bytes(data), where="gateway", max_bytes=MAX_LINE_BYTES)
        if not isinstance(answer, dict):
            raise self._silent("something else")
        failed = answer.get("failed")
        if isinstance(failed, dict):
            kind = _MEANT.get(int(str(failed.get("exit_code", 0))), GatewayFault)
            raise kind(str(failed["reference"]), str(failed["message"]), hint=str(failed["hint"]))
        return answer

    def _silent(self, found: str) -> EnvironmentMissing:
        return EnvironmentMissing(
            "gateway-silent",
            f"the gateway's process: expected an answer, found {found}",
            hint="read what it printed above, then run `memtrial resume`",
        )

    def close(self) -> None:
        """Ends the process: politely, then by a kill."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=ANSWER_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
