"""Every refusal that a user can meet, with its exit code.

Reads nothing, writes nothing. An error says what happened, what was expected and found, and (in `hint`)
what to do next; `reference` is the stable kebab-case name that documentation and `--json` use.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class MemtrialError(Exception):
    """Base of all errors that are meant for the user.

    Args:
        reference: stable kebab-case name of the fault.
        message: what happened, what was expected and what was found.
        hint: the next step, preferably a command.
    """

    exit_code: ClassVar[int] = 70
    # What the record keeps beside the text: short lines, each one observation. Most errors need none.
    evidence: tuple[str, ...] = ()

    def __init__(self, reference: str, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.reference = reference
        self.message = message
        self.hint = hint


class Negative(MemtrialError):
    """A negative answer, not a fault: a check said no."""

    exit_code = 1


class UsageError(MemtrialError):
    """The command line names something that does not exist or does not fit."""

    exit_code = 2


def unknown_name(kind: str, name: str, known: Iterable[str], *, option: str) -> UsageError:
    """Returns the refusal of a name that does not exist, with the names that are close to it.

    Args:
        kind: what is named: task, condition, agent.
        name: as given.
        known: all that there are.
        option: with what to name another, for the hint.
    """
    names = list(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    guess = f"did you mean {' or '.join(close)}? " if close else ""
    return UsageError(
        f"{kind}-unknown",
        f"expected one of {', '.join(names) or 'none at all'}, found {kind} {name!r}",
        hint=f"{guess}choose with {option}",
    )


class DocumentError(MemtrialError):
    """A document is malformed, breaks its schema or contradicts its neighbours."""

    exit_code = 3


class EnvironmentMissing(MemtrialError):
    """Something that the machine must provide is not there."""

    exit_code = 4


class IntegrityError(MemtrialError):
    """Bytes are not the bytes that were pinned or recorded."""

    exit_code = 6


class BudgetExhausted(MemtrialError):
    """A spending cap of the plan is used up: the trial (or the run) may call no model any more."""

    exit_code = 7


class Witnessed(MemtrialError):
    """An error about one trial that is recorded with its evidence; abstract.

    Args:
        evidence: what was seen, one observation per line; stored as a blob and never dropped.
    """

    def __init__(
        self, reference: str, message: str, *, hint: str, evidence: tuple[str, ...] = ()
    ) -> None:
        super().__init__(reference, message, hint=hint)
        self.evidence = evidence


class Inadmissible(Witnessed):
    """The harness broke a promise to this trial (leak, unequal arms): its whole block is dropped."""

    exit_code = 6


class Misconduct(Witnessed):
    """The agent did what no agent may: a failed trial of its arm, whatever its tests say."""

    exit_code = 1


class Cancelled(MemtrialError):
    """Somebody stopped the trial; nothing is known about it and `memtrial resume` runs it again."""

    exit_code = 130


class Incomplete(MemtrialError):
    """The run has trials without a verdict; `memtrial resume` continues."""

    exit_code = 8


class ApprovalRefused(MemtrialError):
    """What was asked for needs a signed approval that is not there.

    Args:
        reference: the stable code of the refusal.
        message: what happened, what was expected and found.
        hint: the next step.
        check: number of the gate's check that refused; None outside the gate.
    """

    exit_code = 5

    def __init__(
        self, reference: str, message: str, *, hint: str, check: int | None = None
    ) -> None:
        super().__init__(reference, message, hint=hint)
        self.check = check
