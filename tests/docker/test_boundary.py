"""Promise: the candidate's process can reach neither hidden tests, nor the examiner, nor its report."""

from __future__ import annotations

import pytest

from orchestrator.protocols import Launch
from orchestrator.sandbox.containers import Container
from orchestrator.sandbox.harden import draw_uids, verifier_profile
from orchestrator.sandbox.timing import StepClock
from orchestrator.scoring.runners import exam_for, job_for, normalise
from orchestrator.scoring.seal import draw_seal
from orchestrator.scoring.verdict import tally, tally_base
from orchestrator.sources.loader import load_task

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("nothing_left")]

PROBE = '''
import os
import signal

def probe():
    """Tries everything on every other process and every folder that is not its own."""
    found = []
    for folder in ("/hidden", "/tmp", "/home/agent"):
        try:
            found.append((folder, os.listdir(folder)))
        except OSError:
            pass
    for path in ("/report/x", "/hidden/x", "/tmp/x", "/work/x", "/work/src/x", "/home/agent/x"):
        try:
            open(path, "w").close()
            found.append(("wrote", path))
        except OSError:
            pass
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        for name in ("mem", "environ", "maps", "cwd", "fd"):
            try:
                path = f"/proc/{pid}/{name}"
                os.readlink(path) if name == "cwd" else os.listdir(path) if name == "fd" else open(path, "rb").read(1)
                found.append(("read", path))
            except OSError:
                pass
        try:
            os.kill(int(pid), signal.SIGCONT)
            found.append(("signalled", pid))
        except OSError:
            pass
    return found

def parse_return(line):
    raise RuntimeError(f"FOUND {probe()} OUT OF {sum(map(str.isdigit, os.listdir('/proc')))}")
'''


def test_the_candidates_process_reaches_nothing_but_its_own(sandbox, plan, fixtures):
    loaded = load_task(fixtures, "depotfeed-returns")
    pin = plan.task(loaded.card.id)
    script = f"cat > src/depotfeed/returns.py <<'EOF'\n{PROBE}\nEOF\n"
    with sandbox.open(pin, trial="test") as workspace:
        workspace.act(Launch(("sh", "-c", script), (), b""))
        harvest = workspace.harvest()
    exam = exam_for(loaded.card.runner, loaded.key, draw_seal("fail_to_pass"))
    job = job_for(exam, pin, loaded.card.runner, expect_tree=harvest.tree, diff=harvest.diff)
    outcome, _ = sandbox.verify(job, trial="test")
    assert b"FOUND [] OUT OF" in outcome.log, outcome.log.decode().split("FOUND", 1)[-1][:600]


REGRESSION = """
sed -i 's/^def parse_whole.*/&\\n    return 7/' src/depotfeed/numbers.py
cat >> src/depotfeed/__init__.py <<'END'
try:
    import _pytest.python as python
    real = python.Function.runtest
    python.Function.runtest = lambda self: real(self) if self.nodeid.startswith("seal_") else None
except ImportError:
    pass
END
"""


def test_a_regression_that_is_hidden_in_the_base_suites_process_is_found_apart(
    sandbox, plan, fixtures
):
    loaded = load_task(fixtures, "depotfeed-returns")
    pin = plan.task(loaded.card.id)
    with sandbox.open(pin, trial="test/regression") as workspace:
        workspace.act(Launch(argv=("sh", "-ec", REGRESSION), environment=(), stdin=b""))
        harvest = workspace.harvest()
    reports = []
    for phase in ("pass_to_pass", "fail_to_pass"):
        exam = exam_for(loaded.card.runner, loaded.key, draw_seal(phase))
        job = job_for(exam, pin, loaded.card.runner, expect_tree=harvest.tree, diff=harvest.diff)
        reports.append(normalise(sandbox.verify(job, trial="test/regression")[0], exam))
    together = tally(loaded.key.pass_to_pass, reports[0])
    assert together.passed == together.expected
    assert tally_base(loaded.key, *reports).failed


def test_each_folder_of_a_verifier_has_the_mode_that_keeps_others_out(client, plan):
    uids = draw_uids()
    pin = plan.tasks[0]
    container = Container.start(
        client,
        StepClock(),
        verifier_profile(pin.limits, 60, uids),
        image=pin.verifier_image.id,
        volume=None,
        labels={"memtrial": "test"},
    )
    with container:
        said = container.output_of(
            (
                "stat",
                "-c",
                "%n %a %u %g",
                "/hidden",
                "/tmp",
                "/home/agent",
                "/report",
                "/candidate",
            ),
            timeout_s=30,
        )
    assert dict(line.split(" ", 1) for line in said.split("\n") if line) == {
        "/hidden": f"750 {uids.agent} {uids.tests}",
        "/tmp": f"700 {uids.tests} {uids.tests}",
        "/home/agent": f"700 {uids.agent} {uids.agent}",
        "/report": f"755 {uids.tests} {uids.tests}",
        "/candidate": f"755 {uids.candidate} {uids.candidate}",
    }
