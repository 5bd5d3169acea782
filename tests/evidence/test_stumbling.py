"""Promise: whatever a bundle makes a check stumble over, the answer is no; a fault of the machine is none of it."""

from __future__ import annotations

import errno

import pytest

from orchestrator.audit import opening, recheck
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import MemoryView


@pytest.mark.parametrize(
    ("module", "function", "check"),
    [(opening, "read_seal", "seal"), (recheck, "check_proofs", "inclusion proofs")],
)
@pytest.mark.parametrize("error", [StopIteration(), RecursionError("deep"), TypeError("a list")])
def test_a_check_that_stumbles_says_no(tiny, monkeypatch, module, function, check, error):
    def stumble(*_: object) -> None:
        raise error

    monkeypatch.setattr(module, function, stumble)
    answer = verify_bundle(MemoryView(tiny.files), tiny.trust, name="tiny")
    assert [(c.name, c.reference) for c in answer.failed] == [(check, "check-stumbled")]
    assert (answer.exit_code, answer.standing) == (6, "refused")
    assert type(error).__name__ in answer.failed[0].detail


def test_a_fault_of_the_machine_is_no_answer_about_the_bundle(tiny, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(opening, "read_seal", full)
    with pytest.raises(OSError, match="Input/output"):
        verify_bundle(MemoryView(tiny.files), tiny.trust, name="tiny")
