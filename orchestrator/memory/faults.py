"""How a memory system breaks its contract, as an error that the life cycle turns into a record.

An adapter may raise it itself to say more than an exception's name would; anything else that it raises is
recorded as a crash. Never an infrastructure outcome: a product that does not deliver has failed.
"""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import TypeAdapter, ValidationError

from orchestrator.core.errors import MemtrialError
from orchestrator.model.base import Slug
from orchestrator.model.lifecycle import ContractFailure, Step

FaultKind = Literal["crashed", "timed_out", "flooded", "answer_invalid", "contract_broken"]
MAX_DETAIL_CHARACTERS = 2000
_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
_RULE: TypeAdapter[str] = TypeAdapter(Slug)
OTHER_RULE = "adapter-fault"
"""The rule of a fault that names none of the form that a record can hold."""
UNTELLABLE = "it raised, and what it raised cannot be told"


class AdapterFault(MemtrialError):
    """A memory system crashed, hung, flooded, answered nonsense or broke a rule of its contract.

    Args:
        kind: the way in which it failed; another word than those of a record counts as crashed.
        rule: stable kebab-case name of what was expected of it; anything else counts as `adapter-fault`.
        detail: what was expected and found; cut to a bounded length.
    """

    exit_code = 1

    def __init__(self, kind: FaultKind, rule: str, detail: str) -> None:
        rule = rule if _is_rule(rule) else OTHER_RULE
        super().__init__(
            f"memory-{rule}",
            f"{detail}",
            hint="run the contract kit over the adapter (docs/how-to/plug-in-a-memory.md)",
        )
        self.kind = _kind(kind)
        self.rule = rule

    @property
    def detail(self) -> str:
        """The message, bounded and never empty."""
        printable = self.message.encode("utf-8", "backslashreplace").decode()
        return printable[:MAX_DETAIL_CHARACTERS] or self.rule

    def as_failure(self, step: Step) -> ContractFailure:
        """Returns the record of this fault at a step."""
        return ContractFailure(step=step, kind=self.kind, rule=self.rule, detail=self.detail)


def _kind(kind: object) -> FaultKind:
    """Returns a kind as a plain word; foreign code may give anything."""
    if type(kind) is not str:
        return "crashed"
    return next((known for known in _KINDS if kind == known), "crashed")


def _is_rule(rule: object) -> bool:
    try:
        return type(rule) is str and bool(_RULE.validate_python(rule))
    except ValidationError:
        return False


def fault_of(error: BaseException) -> AdapterFault:
    """Returns what a memory system raised as a fault of plain data.

    Runs code of the system (the text of its exceptions is its own), so it is called within the step's limit.
    """
    try:
        if isinstance(error, AdapterFault):
            return AdapterFault(error.kind, error.rule, error.message)
        return AdapterFault("crashed", "step-without-exception", f"{type(error).__name__}: {error}")
    except BaseException:  # noqa: BLE001 - an exception may raise when it is told, its exit included
        return AdapterFault("crashed", OTHER_RULE, UNTELLABLE)


def broken(rule: str, detail: str) -> AdapterFault:
    """Returns the fault of an answer that breaks a rule of the contract."""
    return AdapterFault("contract_broken", rule, detail)
