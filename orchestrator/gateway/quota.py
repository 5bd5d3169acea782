"""Counts of a whole run against the quota of its approval: attempts of agents, calls, tokens in and out. Pure.

Like money: what a call may use at most is set aside before it is forwarded, and replaced by what it used.
Without a quota nothing is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orchestrator.model.exchange import Cap
from orchestrator.model.usage import Quota, Usage


class OverCap(Exception):
    """A cap leaves no room. `cap` names it, `left` is what it still has, in micro-USD or in its own count."""

    def __init__(self, cap: Cap, wanted: int, left: int) -> None:
        money = cap in {"call", "trial", "condition", "run"}
        super().__init__(
            f"the call can cost {wanted} micro-USD, the cap per {cap} leaves {left}"
            if money
            else f"it can take {wanted} of the {cap.replace('_', ' ')} that the approval allows, {left} are left"
        )
        self.cap = cap
        self.left = left


@dataclass(slots=True)
class Counts:
    """What is used or set aside so far."""

    quota: Quota | None
    agent_calls: int = 0
    provider_calls: int = 0
    usage: Usage = field(default_factory=Usage)

    def open_attempt(self) -> None:
        """Counts an attempt of an agent.

        Raises:
            OverCap: the approval allows no more of them.
        """
        if self.quota is not None:
            _within("agent_calls", self.quota.agent_calls - self.agent_calls, 1)
        self.agent_calls += 1

    def check(self, bound: Usage) -> None:
        """Refuses a call for which there is no room; counts nothing.

        Raises:
            OverCap: calls or tokens are used up.
        """
        quota, used = self.quota, self.usage
        if quota is None:
            return
        _within("provider_calls", quota.provider_calls - self.provider_calls, 1)
        _within("input_tokens", quota.input_tokens - used.all_input, bound.all_input)
        _within("output_tokens", quota.output_tokens - used.output, bound.output)

    def add(self, input_tokens: int, output_tokens: int) -> None:
        """Adds tokens; negative ones give back what was set aside and not used."""
        used = self.usage
        self.usage = Usage(input=used.input + input_tokens, output=used.output + output_tokens)


def _within(cap: Cap, left: int, wanted: int) -> None:
    if wanted > left:
        raise OverCap(cap, wanted, max(left, 0))
