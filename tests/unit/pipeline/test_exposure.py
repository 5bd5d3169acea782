"""Promise: a model that was taken away is never an agent's failure, and unproven memory is never scored."""

from __future__ import annotations

import pytest

from orchestrator.core.errors import EnvironmentMissing, Inadmissible
from orchestrator.gateway.shown import prove
from orchestrator.model.exchange import Exchange
from orchestrator.model.outcome import Outcome, outcome_of_error
from orchestrator.pipeline.breaches import require_model, require_shown, was_unavailable
from tests.unit.gateway.test_shown import DONE, GIVEN, call, chat, expected


def ended(outcome: str, status: int) -> Exchange:
    made = call(0, chat(GIVEN)).exchange
    return made.model_copy(update={"outcome": outcome, "status": status})


@pytest.mark.parametrize(
    ("outcome", "status", "infrastructure"),
    [
        ("answered", 200, False),
        ("client_gone", 200, False),
        ("upstream_refused", 400, False),
        ("upstream_refused", 413, False),
        ("upstream_refused", 401, True),
        ("upstream_refused", 402, True),
        ("upstream_refused", 403, True),
        ("not_permitted", 400, True),
        ("upstream_refused", 429, True),
        ("upstream_refused", 500, True),
        ("upstream_refused", 529, True),
        ("upstream_cut", 200, True),
        ("upstream_unreachable", 502, True),
        ("refused_budget", 400, False),
    ],
)
def test_the_class_of_an_ended_call(outcome, status, infrastructure):
    last = ended(outcome, status)
    assert was_unavailable(last) is infrastructure
    if not infrastructure:
        require_model((last,))
        return
    with pytest.raises(EnvironmentMissing) as seen:
        require_model((last,))
    assert outcome_of_error(seen.value) is Outcome.INFRA_ERROR


def test_an_error_that_the_agent_got_over_is_no_matter():
    require_model((ended("upstream_refused", 500), call(1, chat(GIVEN, DONE)).exchange))


def test_an_agent_that_never_asked_is_graded():
    require_model(())
    require_shown(prove([], expected()))


def test_memory_that_is_not_proven_is_inadmissible_and_says_where():
    lost = prove([call(0, chat(("user", expected().prompt)))], expected())
    with pytest.raises(Inadmissible, match="call 0") as seen:
        require_shown(lost)
    assert (seen.value.reference, outcome_of_error(seen.value)) == (
        "injection-lost",
        Outcome.INADMISSIBLE,
    )
