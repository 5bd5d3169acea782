"""Drivers of the scripted agents: oracle, noop, follower.

They hand the script over standard input at `act`, after the container was scanned, so that no answer
lies in image, mount or environment. They know the answer: every trial of theirs is diagnostic.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from orchestrator.model.task import Rehearsal
from orchestrator.protocols import GatewayAccess, Launch

SCRIPTED_AGENTS = ("follower", "noop", "oracle")
PROGRAM = ("python3", "-I", "-B", "/opt/memtrial/agent/scripted.py")


@dataclass(frozen=True, slots=True)
class ScriptedDriver:
    """One scripted agent by name."""

    name: str

    def launch(
        self, prompt: str, rehearsal: Rehearsal, access: GatewayAccess | None = None
    ) -> Launch:
        """Builds the command; the oracle gets no facts and the noop gets nothing at all."""
        del access
        play: dict[str, object] = {"play": self.name, "prompt": prompt}
        if self.name in {"oracle", "follower"}:
            play["reference_patch"] = rehearsal.reference_patch
        if self.name == "follower":
            play["natural_patch"] = rehearsal.natural_patch
            play["facts"] = [fact.model_dump(mode="json") for fact in rehearsal.facts]
        return Launch(argv=PROGRAM, environment=(), stdin=json.dumps(play).encode())
