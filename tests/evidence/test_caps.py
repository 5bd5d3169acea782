"""Promise: a cap of any level is part of the plan, holds while the run goes, and is in the report and recomputed."""

from __future__ import annotations

import dataclasses

import pytest

from orchestrator.attest import layout
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.cli.plan_caps import caps_from
from orchestrator.core.errors import UsageError
from orchestrator.model.report import RunReport
from orchestrator.pipeline.fits import request_of
from orchestrator.pipeline.options import LEVELS
from tests.evidence.conftest import NOW
from tests.played_chat import CHAT, record_chat_run
from tests.recorded import make_plan, seal


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_is_set_alone_equal_in_every_arm_and_found_again_in_the_plan(level):
    request = dataclasses.replace(CHAT, caps=((level, 7),))
    plan, other = make_plan(request), make_plan(CHAT)
    assert plan.gateway is not None
    assert other.gateway is not None
    changed = {n for n, v in plan.gateway.caps if v != getattr(other.gateway.caps, n)}
    assert changed == {f"per_{level}_usd_micros"}
    assert len({arm.caps_sha256 for arm in plan.arms}) == 1
    assert plan.arms[0].caps_sha256 != other.arms[0].caps_sha256
    assert request_of(plan).caps == ((level, 7),)
    assert request_of(other).caps == ()


def test_caps_without_an_agent_that_asks_a_model_are_refused():
    request = dataclasses.replace(CHAT, agents=("noop",), caps=(("run", 1),))
    with pytest.raises(UsageError, match="asks a model"):
        make_plan(request)


def test_amounts_are_dollars_to_the_micro_dollar():
    assert caps_from(["run=2.5", "call=0.000001"]) == (("call", 1), ("run", 2_500_000))


@pytest.mark.parametrize(
    "text",
    ["", "trial", "trial=", "trial=-1", "trial=1e3", "trial=0.0000001", "arm=1", "trial=1,5"],
)
def test_anything_but_a_level_and_an_amount_is_refused(text):
    with pytest.raises(UsageError, match="--cap"):
        caps_from([text])


def test_a_level_given_twice_is_refused():
    with pytest.raises(UsageError, match="at most once"):
        caps_from(["run=1", "run=2"])


def test_a_trial_over_its_cap_ends_as_its_arms_affair_and_the_report_counts_the_refusal(tmp_path):
    # The bound of the first call: it is admitted, and what it costs leaves less than the next one needs.
    probe = record_chat_run(tmp_path / "probe")
    book = (probe / "gateway" / "spend.jsonl").read_bytes()
    bound = int(book.split(b'"usd_micros":')[1].split(b"}")[0])
    folder = record_chat_run(
        tmp_path / "capped", dataclasses.replace(CHAT, caps=(("trial", bound),))
    )
    report = RunReport.parse((folder / layout.REPORT).read_bytes(), where="report")
    assert report.spending is not None
    assert [(c.cap, c.calls > 0) for c in report.spending.total.caps_met] == [("trial", True)]
    assert report.spending.total.refused == sum(c.calls for c in report.spending.total.caps_met)
    assert "refused by the cap per trial" in (folder / layout.REPORT_TEXT).read_text("utf-8")
    stopped = [trial for trial in report.trials if trial.outcome == "budget"]
    assert stopped
    assert all("by the cap per trial" in trial.why for trial in stopped)
    for trial in report.trials:
        if trial.spending is not None:
            assert trial.spending.cost.usd_micros <= bound
    sealed = seal(folder)
    answer = verify_bundle(FolderView(folder), Trust(now=NOW, keyid=sealed.keyid), name="capped")
    assert answer.failed == ()
