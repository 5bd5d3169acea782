"""How a memory system breaks its contract, as an error that the life cycle turns into a record.

An adapter may raise it itself to say more than an exception's name would; anything else that it raises is
recorded as a crash. Never an infrastructure outcome: a product that does not deliver has failed.
"""

from __future__ import annotations

from typing import Literal

from orchestrator.core.errors import MemtrialError
from orchestrator.model.lifecycle import ContractFailure, Step

FaultKind = Literal["crashed", "timed_out", "flooded", "answer_invalid", "contract_broken"]
MAX_DETAIL_CHARACTERS = 2000


class AdapterFault(MemtrialError):
    """A memory system crashed, hung, flooded, answered nonsense or broke a rule of its contract.

    Args:
        kind: the way in which it failed.
        rule: stable kebab-case name of what was expected of it.
        detail: what was expected and found; cut to a bounded length.
    """

    exit_code = 1

    def __init__(self, kind: FaultKind, rule: str, detail: str) -> None:
        super().__init__(
            f"memory-{rule}",
            detail,
            hint="run the contract kit over the adapter (docs/how-to/plug-in-a-memory.md)",
        )
        self.kind: FaultKind = kind
        self.rule = rule

    @property
    def detail(self) -> str:
        """The message, bounded and never empty."""
        printable = self.message.encode("utf-8", "backslashreplace").decode()
        return printable[:MAX_DETAIL_CHARACTERS] or self.rule

    def as_failure(self, step: Step) -> ContractFailure:
        """Returns the record of this fault at a step."""
        return ContractFailure(step=step, kind=self.kind, rule=self.rule, detail=self.detail)


def broken(rule: str, detail: str) -> AdapterFault:
    """Returns the fault of an answer that breaks a rule of the contract."""
    return AdapterFault("contract_broken", rule, detail)
