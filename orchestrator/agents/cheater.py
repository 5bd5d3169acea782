"""The driver of hostile agents: a Python program over standard input, with what a cheater could know.

It knows our code, the checkout, the prompt and the names of all tests; it does not know the hidden tests'
content, the facts or the answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from orchestrator.model.task import Rehearsal
from orchestrator.protocols import GatewayAccess, Launch


@dataclass(frozen=True, slots=True)
class CheaterDriver:
    """One hostile agent.

    Args:
        name: the agent's name in plans.
        program: Python source; finds its knowledge in `KNOWN`.
        round: 1, or 2 when it comes back to look for what it left.
        base_ids: ids of the base suite, which anybody can read off the checkout.
        hidden_paths: where hidden tests go, which is easily guessed.
        hidden_ids: names of hidden tests, which other benchmarks publish.
    """

    name: str
    program: str
    round: int
    base_ids: tuple[str, ...]
    hidden_paths: tuple[str, ...]
    hidden_ids: tuple[str, ...]

    def launch(
        self, prompt: str, rehearsal: Rehearsal, access: GatewayAccess | None = None
    ) -> Launch:
        """Builds the command. The over-eager patch is something that breaks the base suite, no answer."""
        known = {
            "prompt": prompt,
            "round": self.round,
            "breaking_patch": rehearsal.overeager_patch,
            "base_ids": list(self.base_ids),
            "hidden_paths": list(self.hidden_paths),
            "hidden_ids": list(self.hidden_ids),
        }
        source = f"KNOWN = __import__('json').loads({json.dumps(known)!r})\n{self.program}"
        return Launch(argv=("python3", "-I", "-"), environment=(), stdin=source.encode())
