"""Promise: the proof of the products says no where an arm was not tried, and names what it does not know."""

from __future__ import annotations

from typing import Any

import pytest

from bench import products
from orchestrator.core.errors import UsageError
from orchestrator.core.places import fixtures_root
from orchestrator.sources.loader import load_conditions

ARM = "langmem_e2e"


def proof(**kit: Any) -> dict[str, Any]:
    whole = {"tests": products.FEWEST_TESTS + 1, "failed": {}, "seconds": 1}
    trials = {"no_memory": {"memory": "not_applicable"}, ARM: {"memory": "verified"}}
    return {"arms": {ARM: {"kit": whole | kit}}, "trials": trials}


def test_an_arm_that_was_tried_whole_is_right():
    assert products.verdict_on(proof()) == []


@pytest.mark.parametrize("tests", [0, products.FEWEST_TESTS - 1])
def test_an_arm_of_which_too_few_promises_were_tried_is_wrong(tests):
    (told,) = products.verdict_on(proof(tests=tests))
    assert told.endswith(f"found {tests}")


def test_a_failed_promise_is_named():
    assert products.verdict_on(proof(failed={"test_x": "lost"})) == [f"{ARM}: test_x: lost"]


def test_an_arm_without_a_trial_is_wrong_and_so_is_one_whose_memory_failed():
    without = proof() | {"trials": {}}
    assert products.verdict_on(without) == [f"{ARM}: expected a trial, found none"]
    failed = proof() | {"trials": {ARM: {"memory": "contract_failure"}}}
    assert products.verdict_on(failed) == [f"{ARM}: memory contract_failure"]


def test_a_name_of_no_arm_with_a_product_is_refused_with_those_that_there_are():
    registry = load_conditions(fixtures_root()).conditions
    with pytest.raises(UsageError, match=r"langmem_e2e.*found reference_e2e"):
        products.chosen(registry, ["reference_e2e"])
    with pytest.raises(UsageError, match="found none"):
        products.chosen((), [])
    assert len(products.chosen(registry, [])) >= 4
    assert [arm.id for arm in products.chosen(registry, [ARM])] == [ARM]
