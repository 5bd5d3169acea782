"""Promise: a stranger proves again what memory each model was shown, and replays every cap line by line."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from orchestrator.audit.reprove import _compare, check_injections
from orchestrator.audit.respend import Spent, _check_caps, check_spending
from orchestrator.audit.verify import examine, verify_bundle
from orchestrator.audit.view import MemoryView
from orchestrator.core.errors import Negative
from orchestrator.model.exchange import Exchange, Reserved, Settled
from orchestrator.model.proof import PROOF, Foreign, InjectionProof, Rest
from orchestrator.model.record import Stage
from orchestrator.model.usage import Caps
from orchestrator.pipeline.memory_audits import artifact_of

CAPS = Caps(
    per_call_usd_micros=70,
    per_trial_usd_micros=100,
    per_condition_usd_micros=200,
    per_run_usd_micros=300,
)


def reserved(call: int, usd_micros: int = 60) -> Reserved:
    return Reserved(
        call=call, trial="t", condition="c", role="agent", model="m", usd_micros=usd_micros
    )


def settled(call: int, usd_micros: int = 10) -> Settled:
    return Settled(
        call=call, usd_micros=usd_micros, uncached_usd_micros=usd_micros, source="reported"
    )


def test_two_calls_that_were_open_together_may_not_pass_a_cap_together():
    _check_caps((reserved(0), settled(0), reserved(1), settled(1)), CAPS)
    with pytest.raises(Negative, match="call 1 of t"):
        _check_caps((reserved(0), reserved(1), settled(0), settled(1)), CAPS)


def test_each_attempts_proof_is_made_again_from_the_recorded_calls(chatting):
    answer = verify_bundle(MemoryView(chatting.files), chatting.trust, name="chatting")
    assert answer.failed == ()
    (check,) = [c for c in answer.checks if c.name == "injections"]
    assert (check.status, check.count) == ("ok", 2)


def test_where_no_model_was_asked_there_is_nothing_to_prove():
    nothing = SimpleNamespace()
    found = check_injections(nothing, nothing, Spent(None))  # type: ignore[arg-type]
    assert (found.count, found.detail) == (0, "no model was asked")


def test_a_call_whose_body_was_withheld_is_counted_and_not_called_proven(chatting):
    seen = examine(MemoryView(chatting.files), chatting.trust, name="chatting")
    assert seen.opened is not None
    assert seen.dossier is not None
    accounts = check_spending(seen.opened, seen.dossier)[0].accounts
    assert accounts is not None
    digest, first = accounts.traffic[0]
    assert isinstance(first, Exchange)
    request = first.request.model_copy(update={"pieces": ()})
    less = ((digest, first.model_copy(update={"request": request})), *accounts.traffic[1:])
    found = check_injections(seen.opened, seen.dossier, Spent(replace(accounts, traffic=less)))
    assert (found.count, found.whole, found.detail) == (1, False, "1 withheld")


@pytest.fixture(scope="module")
def proven(chatting):
    """A trial of an agent that asked a model, and its proof."""
    seen = examine(MemoryView(chatting.files), chatting.trust, name="chatting")
    assert seen.opened is not None
    assert seen.dossier is not None
    trial = seen.dossier.plan.trials[0]
    attempt = seen.dossier.run.trial(trial.key).graded
    assert attempt is not None
    sha256 = artifact_of(attempt, Stage.ACT, PROOF)
    assert sha256 is not None
    return trial, InjectionProof.parse_canonical(seen.opened.files.get(sha256), where=PROOF)


def signed(proof: InjectionProof, sign: str, **more: object) -> InjectionProof:
    return proof.model_copy(
        update={"noted_files": (Foreign(ordinal=0, pointer="/p", sign=sign),), **more}
    )


@pytest.mark.parametrize(
    "more",
    [{"steering": ("AGENTS.md",)}, {"more_steering": Rest(count=1, sha256="0" * 64)}],
    ids=["named", "beyond the bound of names"],
)
def test_the_sign_of_a_file_that_the_proof_names_is_the_records_own_word(proven, more):
    trial, proof = proven
    _compare(trial, signed(proof, "file AGENTS.md", **more), proof)


@pytest.mark.parametrize(
    ("sign", "more"),
    [
        ("file AGENTS.md", {}),
        ("file AGENTS.md", {"steering": ("CLAUDE.md",)}),
        ("[mem:", {"steering": ("CLAUDE.md",), "more_steering": Rest(count=1, sha256="0" * 64)}),
    ],
    ids=["none steers", "another steers", "no file"],
)
def test_the_sign_of_a_file_that_the_proof_does_not_name_is_refused(proven, sign, more):
    trial, proof = proven
    with pytest.raises(Negative, match="the proof that its calls give"):
        _compare(trial, signed(proof, sign, **more), proof)
