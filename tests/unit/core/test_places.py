"""Promise: where things are is named by memtrial's own variables, then by the system's, then under the home."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.core import places

PLACES = [
    (places.cache_root, "MEMTRIAL_CACHE", "XDG_CACHE_HOME", ".cache"),
    (places.config_root, "MEMTRIAL_CONFIG", "XDG_CONFIG_HOME", ".config"),
]


@pytest.mark.parametrize(("place", "own", "common", "plain"), PLACES)
def test_each_name_comes_before_the_next(place, own, common, plain, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv(own, "/own")
    monkeypatch.setenv(common, "/common")
    assert place() == Path("/own")
    monkeypatch.delenv(own)
    assert place() == Path("/common/memtrial")
    monkeypatch.delenv(common)
    assert place() == Path("/home/somebody") / plain / "memtrial"


def test_a_wheel_has_no_clone_and_its_data_inside(monkeypatch, tmp_path):
    monkeypatch.setattr(places, "_PACKAGE", tmp_path / "orchestrator")
    monkeypatch.delenv("MEMTRIAL_FIXTURES", raising=False)
    monkeypatch.delenv("MEMTRIAL_RESULTS", raising=False)
    monkeypatch.setenv("MEMTRIAL_CACHE", "/own")
    monkeypatch.chdir(tmp_path)
    assert places.clone_root() is None
    assert places.fixtures_root() == tmp_path / "orchestrator" / "_data" / "fixtures"
    assert places.results_root() == tmp_path / "results"
    assert places.local_lock_path() == Path("/own/lock.local.json")


def test_a_folder_of_results_that_is_named_is_taken(monkeypatch):
    monkeypatch.setenv("MEMTRIAL_RESULTS", "/runs")
    assert places.results_root() == Path("/runs")


def test_the_approvers_corner_is_below_the_configuration(monkeypatch):
    monkeypatch.setenv("MEMTRIAL_CONFIG", "/own")
    assert places.local_home() == Path("/own/local")
