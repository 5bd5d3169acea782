"""Promise: a test counts what its own programs left in the engine, and nothing of the tests beside it."""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest

from tests.docker.conftest import ours

pytestmark = pytest.mark.docker
# Makes a volume as a run does, and dies without taking it back.
LEAVES = """
import os, sys
from orchestrator.core.places import cache_root
from orchestrator.sandbox.engine import connect
from orchestrator.sandbox.identity import installation_id, labels
connect().api.create_volume(sys.argv[1], labels=labels(installation_id(cache_root()), "counted"))
os._exit(9)
"""


@pytest.fixture
def volume(client, tmp_path, monkeypatch):
    """A name for the volume, in an installation of its own: no run beside this test sweeps it away."""
    monkeypatch.setenv("MEMTRIAL_CACHE", str(tmp_path))
    name = f"memtrial-counted-{uuid.uuid4().hex[:12]}"
    yield name
    client.api.remove_volume(name)


def test_what_a_program_of_this_test_leaves_is_counted(client, volume):
    assert subprocess.run([sys.executable, "-c", LEAVES, volume], check=False).returncode == 9
    assert volume in ours(client)["volumes"]


def test_what_a_killed_program_of_another_test_leaves_is_not(client, volume):
    beside = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {LEAVES!r}, {volume!r}])"
    )
    subprocess.run([sys.executable, "-c", beside], check=True)
    assert client.api.inspect_volume(volume)["Labels"]["memtrial.trial"] == "counted"
    assert volume not in ours(client)["volumes"]
