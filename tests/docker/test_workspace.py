"""Promise: the agent's container is empty, powerless and limited; nothing of it outlives its end."""

from __future__ import annotations

import time

import pytest

from orchestrator.model.plan import Plan, TaskPin
from orchestrator.protocols import Launch
from orchestrator.sandbox.adapter import DockerSandbox

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def task(plan: Plan) -> TaskPin:
    return plan.task("depotfeed-returns")


def limited(task: TaskPin, **limits: int) -> TaskPin:
    return task.model_copy(update={"limits": task.limits.model_copy(update=limits)})


def shell(script: str) -> Launch:
    return Launch(argv=("sh", "-c", script), environment=(), stdin=b"")


def run(sandbox: DockerSandbox, task: TaskPin, script: str):
    with sandbox.open(task, trial="test") as workspace:
        acted = workspace.act(shell(script))
        return acted, workspace.harvest()


def test_the_inventory_names_no_task_and_no_arm(sandbox, task):
    with sandbox.open(task, trial="depotfeed-returns/raw_fts/oracle/e1") as workspace:
        told = workspace.inventory.canonical().decode()
    assert "depotfeed" not in told
    assert "raw_fts" not in told


def test_no_change_is_an_empty_diff_of_the_pinned_tree(sandbox, task):
    _, harvest = run(sandbox, task, "true")
    assert (harvest.tree, harvest.diff, harvest.changes, harvest.left_out) == (
        task.tree,
        b"",
        (),
        (),
    )


def test_the_checkout_is_one_commit_without_remote_and_git_status_is_clean(sandbox, task):
    acted, _ = run(
        sandbox,
        task,
        "git rev-list --all --count; git remote; git tag; git status --porcelain; git rev-parse HEAD; git fsck --unreachable",
    )
    assert acted.output.decode().split() == ["1", task.commit]


def test_changes_are_harvested_with_modes_links_and_deletions(sandbox, task):
    _, harvest = run(
        sandbox,
        task,
        "echo x > new.txt; chmod +x new.txt; ln -s new.txt link; rm README.md; mkdir -p a/b; echo y > 'a/b/ä c'",
    )
    found = {c.path: (c.status, c.new_mode, c.link_target) for c in harvest.changes}
    assert found == {
        "README.md": ("deleted", None, None),
        "a/b/ä c": ("added", "100644", None),
        "link": ("added", "120000", "new.txt"),
        "new.txt": ("added", "100755", None),
    }


def test_names_that_cannot_be_diffed_are_told_and_left_out(sandbox, task):
    _, harvest = run(
        sandbox,
        task,
        r"""mkdir -p x/.git; echo 1 > x/.git/config; mkfifo pipe; touch "$(printf 'bad\377name')" "$(printf 'line\nbreak')"; git init -q sub""",
    )
    assert {left.reason for left in harvest.left_out} == {
        "git-folder",
        "special-file",
        "name-not-utf8",
        "name-not-portable",
    }
    assert harvest.tree == task.tree


def test_by_products_of_tools_are_left_out_without_blame(sandbox, task):
    acted, harvest = run(
        sandbox,
        task,
        "PYTHONPATH=/opt/memtrial/python:src python3 -m pytest -q >/dev/null; python3 -m compileall -q src; git init -q scratch",
    )
    assert acted.exit_code == 0
    assert {left.reason for left in harvest.left_out} == {"by-product", "git-folder"}
    assert (harvest.tree, harvest.changes) == (task.tree, ())


@pytest.mark.parametrize(
    "script",
    [
        "truncate -s 1T src/big",
        "head -c 5000000 /dev/urandom > src/a; i=0; while [ $i -lt 200 ]; do ln src/a src/l$i; i=$((i+1)); done",
    ],
    ids=["sparse", "hard-links"],
)
def test_what_costs_no_space_cannot_bring_the_harvester_down(sandbox, task, script):
    _, harvest = run(sandbox, task, script)
    assert "too-large" in {left.reason for left in harvest.left_out}
    assert sum(change.bytes for change in harvest.changes) <= 2 * task.limits.work_bytes


def test_no_two_containers_share_a_uid(sandbox, task):
    seen = [run(sandbox, task, "id -u")[0].output for _ in range(2)]
    assert len(set(seen)) == 2


def test_unreadable_files_and_hostile_attributes_do_not_hide_changes(sandbox, task):
    _, harvest = run(
        sandbox,
        task,
        "printf '* -diff filter=x\\n' > .gitattributes; echo secret = 1 >> src/depotfeed/lines.py; chmod 000 src/depotfeed/lines.py",
    )
    assert b"+secret = 1" in harvest.diff


def test_a_time_limit_ends_a_detached_writer_and_keeps_what_was_written(sandbox, task):
    script = "setsid sh -c 'while true; do echo x >> log.txt; sleep 0.05; done' & sleep 60"
    acted, harvest = run(sandbox, limited(task, wall_s=3), script)
    assert acted.ended == "time_limit"
    sizes = {c.path: c.bytes for c in harvest.changes}
    assert sizes["log.txt"] > 0


def test_the_time_limit_is_kept_within_seconds(sandbox, task):
    began = time.monotonic()
    acted, _ = run(sandbox, limited(task, wall_s=2), "trap '' TERM INT; sleep 100")
    assert acted.ended == "time_limit"
    assert time.monotonic() - began < 20


def test_output_is_bounded_and_the_flood_ends(sandbox, task):
    acted, _ = run(sandbox, limited(task, output_bytes=10_000), "yes flood")
    assert (acted.ended, len(acted.output), acted.output_truncated) == (
        "output_limit",
        10_000,
        True,
    )


def test_bytes_and_inodes_of_the_work_area_are_limited(sandbox, task):
    acted, _ = run(
        sandbox,
        limited(task, work_bytes=4 * 1024**2),
        "dd if=/dev/zero of=big bs=1M count=20; stat -c %s big",
    )
    assert int(acted.output.split()[-1]) < 4 * 1024**2
    acted, _ = run(
        sandbox,
        limited(task, work_inodes=200),
        "i=0; while touch f$i 2>/dev/null; do i=$((i+1)); [ $i -gt 500 ] && break; done; echo $i",
    )
    assert int(acted.output.split()[-1]) < 200


def test_a_memory_hog_is_told_apart(sandbox, task):
    acted, _ = run(
        sandbox,
        limited(task, memory_bytes=96 * 1024**2, work_bytes=8 * 1024**2),
        "exec python3 -c 'x = bytearray(10**9)'",
    )
    assert acted.ended == "oom_killed" or (acted.ended == "exited" and acted.exit_code == 137)


@pytest.mark.parametrize(
    "script",
    [
        "touch /x",
        "touch /opt/memtrial/agent/x",
        "echo x >> /etc/passwd",
        "touch /opt/memtrial/checkout/x",
    ],
)
def test_nothing_outside_the_work_area_can_be_written(sandbox, task, script):
    acted, _ = run(sandbox, task, script)
    assert acted.exit_code != 0


def test_there_is_no_network_but_loopback(sandbox, task):
    acted, _ = run(sandbox, task, "ls /sys/class/net; cat /proc/net/route | wc -l")
    assert acted.output.split() == [b"lo", b"1"]


def test_a_failing_trial_leaves_nothing(sandbox, task):
    with pytest.raises(RuntimeError, match="in the middle"), sandbox.open(task, trial="test"):
        raise RuntimeError("in the middle")


def test_a_missing_image_is_an_error_and_never_a_pull(sandbox, task):
    from orchestrator.core.errors import EnvironmentMissing

    missing = task.model_copy(
        update={"agent_image": task.agent_image.model_copy(update={"id": "sha256:" + "0" * 64})}
    )
    with (
        pytest.raises(EnvironmentMissing, match="never pulled"),
        sandbox.open(missing, trial="test"),
    ):
        pass
