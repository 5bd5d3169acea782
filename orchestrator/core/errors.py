"""Every refusal that a user can meet, with its exit code.

Reads nothing, writes nothing. An error says what happened, what was expected and found, and (in `hint`)
what to do next; `reference` is the stable kebab-case name that documentation and `--json` use.
"""

from __future__ import annotations

from typing import ClassVar


class MemtrialError(Exception):
    """Base of all errors that are meant for the user.

    Args:
        reference: stable kebab-case name of the fault.
        message: what happened, what was expected and what was found.
        hint: the next step, preferably a command.
    """

    exit_code: ClassVar[int] = 70

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


class DocumentError(MemtrialError):
    """A document is malformed, breaks its schema or contradicts its neighbours."""

    exit_code = 3


class EnvironmentMissing(MemtrialError):
    """Something that the machine must provide is not there."""

    exit_code = 4


class IntegrityError(MemtrialError):
    """Bytes are not the bytes that were pinned or recorded."""

    exit_code = 6


class Incomplete(MemtrialError):
    """The run has trials without a verdict; `memtrial resume` continues."""

    exit_code = 8
