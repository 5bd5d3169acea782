"""Promise: a request that cannot be met is refused by name, with a way out, before an engine is asked."""

from __future__ import annotations

import shutil

import pytest

from orchestrator.cli.main import main
from orchestrator.core.errors import DocumentError, UsageError
from orchestrator.core.places import fixtures_root
from orchestrator.pipeline import imaging, setup
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.plan import choose
from orchestrator.sources.loader import load_task
from tests.unit.pipeline.conftest import ROOT


@pytest.mark.parametrize(
    ("choice", "reference", "close"),
    [
        ({"conditions": ("no_memry",)}, "condition-unknown", "no_memory"),
        ({"conditions": ("curated_file",)}, "condition-unknown", "curated_file_budgeted"),
        ({"tasks": ("depotfeed-return",)}, "task-unknown", "depotfeed-returns"),
        ({"agents": ("orcale",)}, "agent-unknown", "oracle"),
    ],
)
def test_an_unknown_name_is_refused_with_the_close_ones(fixtures, choice, reference, close):
    request = PlanRequest(**{"agents": ("noop",), **choice})
    with pytest.raises(UsageError) as caught:
        choose(request, fixtures=fixtures, images=ROOT / "images")
    assert caught.value.reference == reference
    assert f"did you mean {close}" in caught.value.hint
    assert caught.value.exit_code == 2


def test_a_name_that_is_close_to_nothing_gets_the_whole_list_and_no_guess(fixtures):
    request = PlanRequest(agents=("noop",), conditions=("zzz",))
    with pytest.raises(UsageError) as caught:
        choose(request, fixtures=fixtures, images=ROOT / "images")
    assert "no_memory, curated_file_budgeted, raw_fts" in caught.value.message
    assert "did you mean" not in caught.value.hint


@pytest.fixture
def uncurated(fixtures, tmp_path):
    """The fixtures without two of the curated files."""
    copy = tmp_path / "fixtures"
    shutil.copytree(fixtures, copy)
    for name in ("cachetools-account-key", "humanize-transfer-eta"):
        shutil.rmtree(copy / "curated" / name)
    return copy


def test_every_task_without_a_curated_file_is_named(uncurated):
    request = PlanRequest(agents=("noop",), task_set="full", conditions=("curated_file_budgeted",))
    with pytest.raises(DocumentError) as caught:
        choose(request, fixtures=uncurated, images=ROOT / "images")
    assert caught.value.reference == "curated-file-missing"
    assert "cachetools-account-key, humanize-transfer-eta" in caught.value.message


def test_arms_that_need_no_curated_file_do_not_ask_for_one(uncurated):
    request = PlanRequest(agents=("noop",), task_set="full", conditions=("no_memory", "raw_fts"))
    assert choose(request, fixtures=uncurated, images=ROOT / "images").curated == ()


def test_the_verb_refuses_before_it_asks_for_an_engine(uncurated, tmp_path, monkeypatch, capsys):
    def never(*_, **__):
        raise RuntimeError("an engine was asked for")

    monkeypatch.setenv("MEMTRIAL_FIXTURES", str(uncurated))
    monkeypatch.setattr(setup, "ensure_engine", never)
    out = tmp_path / "plan.json"
    words = ["plan", "--agent", "noop", "--task-set", "full", "--out", str(out)]
    assert main(words) == 3
    assert "humanize-transfer-eta" in capsys.readouterr().err
    assert not out.exists()


def test_an_official_plan_takes_no_base_but_the_locked_one(monkeypatch, fixtures):
    asked = []

    def base(*_, official: bool, **__):
        asked.append(official)
        raise UsageError("stop", "far enough", hint="none")

    monkeypatch.setattr(imaging, "ensure_base", base)
    monkeypatch.setattr(setup, "choose", lambda *_, **__: None)
    task = load_task(fixtures_root(), "depotfeed-returns")
    monkeypatch.setattr(setup, "build_plan", lambda *_, image_pins, **__: image_pins(task))
    for phase in ("local", "official"):
        with pytest.raises(UsageError, match="far enough"):
            setup.make_plan(PlanRequest(agents=("noop",), phase=phase), print, offline=True)
    assert asked == [False, True]
