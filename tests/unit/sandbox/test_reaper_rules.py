"""Promise: an object goes only if it is ours and its owner is dead, or unseen and past its age."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.sandbox import identity
from orchestrator.sandbox.identity import labels, owner_state, this_owner
from orchestrator.sandbox.reaper import MAX_AGE_S, judge

HERE = "ours"
OLD_S = MAX_AGE_S + 1.0


def judged(found: dict[str, str], *, age_s: float | None = 0.0, session: str | None = None):
    verdict = judge(found, installation=HERE, session=session, age_s=age_s)
    return None if verdict is None else verdict[0]


def owned(owner: str) -> dict[str, str]:
    return labels(HERE, "t/c/a/e1") | {"memtrial.owner": owner}


def dead_owner() -> str:
    """The owner text of a process that has ended and was waited for."""
    program = "from orchestrator.sandbox.identity import this_owner; print(this_owner())"
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return made.stdout.strip()


def test_an_object_of_a_dead_owner_goes():
    assert judged(owned(dead_owner())) is True


def test_an_object_of_a_living_owner_stays_however_old_it_is():
    assert judged(owned(this_owner()), age_s=100 * MAX_AGE_S) is False


def test_a_reused_process_number_does_not_bring_an_owner_back_to_life():
    pid, ticks, boot, namespace = this_owner().split(":")
    assert judged(owned(f"{pid}:{int(ticks) - 1}:{boot}:{namespace}")) is True


def test_an_owner_that_ended_but_was_not_waited_for_is_dead():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    try:
        ticks = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[19]
        _, _, boot, namespace = this_owner().split(":")
        assert judged(owned(f"{child}:{ticks}:{boot}:{namespace}")) is True
    finally:
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"memtrial.installation": "another"},
        {"memtrial.installation": ""},
        {"memtrial.installation": HERE + " "},
        {"memtrial.installation": HERE.upper()},
        {"memtrial": "image"},
        {"memtrial": ""},
        {"memtrial": "trial "},
    ],
    ids=str,
)
def test_a_look_alike_is_not_ours_even_with_a_dead_owner_and_old(change):
    assert judged(owned(dead_owner()) | change, age_s=OLD_S) is None


@pytest.mark.parametrize("missing", ["memtrial", "memtrial.installation"])
def test_an_object_without_one_of_the_two_labels_is_not_ours(missing):
    found = owned(dead_owner())
    del found[missing]
    assert judged(found, age_s=OLD_S) is None


@pytest.mark.parametrize("owner", ["", "nonsense", "1:2:3", "::::", "x:1:2:3", "1:::"])
def test_an_owner_that_cannot_be_read_is_judged_by_age(owner):
    assert judged(owned(owner)) is False
    assert judged(owned(owner), age_s=None) is False
    assert judged(owned(owner), age_s=OLD_S) is True


def test_an_owner_in_another_pid_namespace_is_judged_by_age():
    pid, ticks, boot, namespace = this_owner().split(":")
    other = owned(f"{pid}:{ticks}:{boot}:{int(namespace) + 1}")
    assert judged(other, age_s=3600.0) is False
    assert judged(other, age_s=OLD_S) is True


def test_an_owner_of_an_earlier_boot_is_dead_and_one_of_another_machine_is_not(monkeypatch):
    pid, ticks, _, namespace = this_owner().split(":")
    other = f"{pid}:{ticks}:ffffffff:{namespace}"
    monkeypatch.setattr(identity, "_uptime_s", lambda: 10_000.0)
    assert owner_state(other, object_age_s=20_000.0) == "dead"
    assert owner_state(other, object_age_s=5_000.0) == "unseen"
    assert owner_state(other, object_age_s=None) == "unseen"


def test_what_an_ended_sandbox_of_this_process_left_goes_and_its_neighbours_stay():
    mine, neighbour = labels(HERE, "t", "session-1"), labels(HERE, "t", "session-2")
    assert judged(mine, session="session-1") is True
    assert judged(neighbour, session="session-1") is False
    assert judged(mine) is False


@given(
    st.dictionaries(st.sampled_from(["memtrial", "memtrial.owner", "x"]), st.text()), st.floats()
)
def test_without_this_installations_id_nothing_is_ever_ours(found, age_s):
    assert judged(found, age_s=age_s) is None
