"""Promise: a report says of a whole validation whether it passed."""

from __future__ import annotations

import pytest

from orchestrator.trust.gate.official import validate
from tests.gate.world import ingredients, make_world


@pytest.mark.parametrize(("late_s", "result"), [(0, "pass"), (2, "refused")])
def test_the_result_of_a_report_is_that_of_its_steps(clean_folder, late_s, result):
    world = make_world(clean_folder, ingredients())
    world.answer["answered_s"] = world.ingredients.now_s + late_s
    found = validate(world.asked())
    assert found.report.result == result
    assert (found.refusal is None) is (result == "pass")
