"""What `memtrial verify` answers: each check with its count, and what was not checked and why."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.model.base import Closed, Document, Sha256, Text

CheckStatus = Literal["ok", "failed", "partly", "not_checked", "not_run"]
Standing = Literal["authentic", "authentic_in_part", "self_consistent", "refused"]


class CheckResult(Closed):
    """One check. `partly` and `not_checked` say in `detail` what was left out and why."""

    number: int = Field(gt=0)
    name: Text
    status: CheckStatus
    count: int = Field(ge=0)
    detail: str
    reference: str | None
    hint: str | None


class Verification(Document):
    """The answer as a whole. `authentic` only when a key from outside the bundle signed it.

    `authentic_in_part`: so it is, but files are withheld by a list that nobody signed, as the verifier accepted.
    """

    bundle: Text
    run_id: str | None
    keyid: Sha256 | None
    key_label: str | None
    sealed_at: str | None
    standing: Standing
    exit_code: Literal[0, 1, 6]
    checks: tuple[CheckResult, ...]
    withheld: tuple[Text, ...]

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The checks that said no."""
        return tuple(check for check in self.checks if check.status == "failed")
