"""Promise: a change is called killed only when it was in force and a test that passes without it failed in its body."""

from __future__ import annotations

import ast
import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench import mutants, mutants_judge
from bench.mutants_baseline import learn
from bench.mutants_explained import EXPLAINED, Explanation, stale, why_unnoticed
from bench.mutants_forks import UNBORNE, Answer, forked
from bench.mutants_judge import Baseline, Outcome, judge, worth
from bench.mutants_places import changed, places
from orchestrator.core.canonical import sha256_hex

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = """
LIMIT = 3

def small(n):
    return n < LIMIT

def chained(n):
    return 0 <= n <= 9

def untested(n):
    return n == 5
"""
TESTS = """
from shelf.library import chained, small

def test_small():
    assert small(2) and not small(3)

def test_chained():
    assert chained(0)
"""


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A small repository: a room of one module, and its tests."""
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "__init__.py").write_text("")
    (tmp_path / "shelf" / "library.py").write_text(LIBRARY)
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "test_library.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\naddopts = -p no:cacheprovider\n"
    )
    return tmp_path


def in_process(root: Path, program: str) -> str:
    """Runs a program over the repository in a process that has loaded nothing of it; returns what it prints."""
    opening = (
        "import json, sys\nfrom dataclasses import asdict\nfrom pathlib import Path\n"
        "from bench import mutants_judge as judging, mutants_forks as forks\n"
        "from bench.mutants_baseline import learn\nfrom bench.mutants_places import places\n"
        f"ROOT = Path({str(root)!r})\nMODULE = 'shelf/library.py'\n"
        "TEXT = (ROOT / MODULE).read_text()\nPLACES = places(MODULE, TEXT)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", opening + program],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


LEARN = """
told = forks.forked(lambda: learn(ROOT, 'shelf', ('checks',)), timeout_s=60)
assert told['failed'] == [], told
baseline = judging.Baseline(told['seconds'], told['lines'], told['early'], {MODULE: TEXT})
"""
JUDGE_ALL = f"""
{LEARN}
found = {{}}
WANTED = ('n <= LIMIT', '4', '0 < n <= 9', '0 <= n < 9', 'n != 5')
for place in (p for p in PLACES if p.after in WANTED):
    def run(tests, module):
        return forks.run_fresh(ROOT, tests, module)
    outcome = judging.judge(ROOT, place, baseline, run)
    found[' | '.join((place.before, place.after))] = [outcome.kind, outcome.raised]
print(json.dumps(found))
"""


def test_each_change_is_killed_survives_or_is_reached_by_nothing(shelf):
    found = ast.literal_eval(in_process(shelf, JUDGE_ALL).replace("null", "None"))
    assert found["n < LIMIT | n <= LIMIT"] == ["killed", "AssertionError"]
    assert found["3 | 4"] == ["killed", "AssertionError"]
    assert found["0 <= n <= 9 | 0 < n <= 9"] == ["killed", "AssertionError"]
    assert found["0 <= n <= 9 | 0 <= n < 9"] == ["survived", None]
    assert found["n == 5 | n != 5"] == ["unreached", None]


def test_a_test_that_only_reads_what_a_module_declares_judges_it(shelf):
    (shelf / "checks" / "test_limits.py").write_text(
        "from shelf.library import LIMIT\n\ndef test_limit():\n    assert LIMIT == 3\n"
    )
    program = f"""
{LEARN}
read = 'checks/test_limits.py::test_limit'
print([p.after for p in PLACES if read in baseline.tests_of(p)])
"""
    assert in_process(shelf, program) == "['4']"


def test_the_unchanged_code_run_by_the_same_means_survives(shelf):
    program = (
        "tests = ['checks/test_library.py::test_small']\n"
        "print(forks.run_fresh(ROOT, tests, None).passed)\n"
    )
    assert in_process(shelf, program) == "1"


def test_a_module_that_is_loaded_already_is_not_judged_by_a_fresh_import(shelf):
    program = (
        "sys.path.insert(0, str(ROOT))\nimport shelf.library\n"
        "module = judging.changed_module(ROOT, PLACES[0], TEXT)\n"
        "print(forks.run_fresh(ROOT, ['checks/test_library.py::test_small'], module).wrong)\n"
    )
    assert in_process(shelf, program) == "shelf.library was loaded before it was changed"


def test_a_change_that_no_test_loads_is_not_judged(shelf):
    (shelf / "checks" / "test_other.py").write_text("def test_other():\n    pass\n")
    program = (
        "module = judging.changed_module(ROOT, PLACES[0], TEXT)\n"
        "print(forks.run_fresh(ROOT, ['checks/test_other.py::test_other'], module).wrong)\n"
    )
    assert in_process(shelf, program) == "the changed shelf.library was never loaded"


def test_a_module_that_cannot_be_loaded_is_broken_and_not_killed(shelf):
    (shelf / "shelf" / "library.py").write_text(
        "import os\nKEPT = {'a': 1}\nKEPT['a' * 1]\n" + LIBRARY
    )
    program = (
        "place = next(p for p in PLACES if p.text == \"KEPT['a' * 1]\" and p.after == '2')\n"
        "module = judging.changed_module(ROOT, place, TEXT)\n"
        "run = lambda: forks.run_fresh(ROOT, ['checks/test_library.py::test_small'], module)\n"
        "print(judging.worth(forks.forked(run, timeout_s=60), 1).kind)\n"
    )
    assert in_process(shelf, program) == "broken"


SWAPPED = """
sys.path.insert(0, str(ROOT))
import shelf.library
kept = shelf.library.small
wanted = next(p for p in PLACES if p.after == 'n <= LIMIT')
count = forks.swap(judging.changed_module(ROOT, wanted, TEXT))
print(count, kept(3), shelf.library.small(3))
"""


def test_loaded_functions_get_the_changed_code_wherever_they_are_held(shelf):
    assert in_process(shelf, SWAPPED) == "1 True True"


def test_a_change_outside_functions_is_not_borne_by_loaded_functions(shelf):
    program = (
        "sys.path.insert(0, str(ROOT))\nimport shelf.library\n"
        "wanted = next(p for p in PLACES if p.text == 'LIMIT = 3')\n"
        "try:\n    forks.swap(judging.changed_module(ROOT, wanted, TEXT))\n"
        "except forks.CannotSwapError:\n    print('unborne')\n"
    )
    assert in_process(shelf, program) == "unborne"


def test_a_test_that_fails_unchanged_too_kills_nothing(shelf):
    (shelf / "checks" / "test_library.py").write_text(
        "import os\nfrom shelf.library import small\n\ndef test_small():\n    assert not os.environ.get('LATER')\n"
    )
    program = (
        "told = forks.forked(lambda: learn(ROOT, 'shelf', ('checks',)), timeout_s=60)\n"
        "test = 'checks/test_library.py::test_small'\n"
        "baseline = judging.Baseline(told['seconds'], told['lines'], told['early'], {MODULE: TEXT})\n"
        "import os\nos.environ['LATER'] = '1'\n"
        "found = judging.Outcome('killed', test, 'AssertionError', 1)\n"
        "run = lambda tests, module: forks.run_fresh(ROOT, tests, module)\n"
        "print(judging.confirmed(found, [test], baseline, run).kind)\n"
    )
    assert in_process(shelf, program) == "unsteady"


SHELF = "def f(n):\n    return n < 3\n"


@pytest.mark.parametrize("by", ["checks/test_x.py", "checks", "elsewhere.py"])
@pytest.mark.parametrize(("unchanged", "kind"), [("passes", "broken"), ("fails", "unsteady")])
def test_what_fails_while_it_is_loaded_is_loaded_again_unchanged(monkeypatch, by, unchanged, kind):
    monkeypatch.setattr(mutants_judge, "forked", lambda work, timeout_s: dataclasses.asdict(work()))
    test, module = "checks/test_x.py::test_f", "shelf/m.py"
    place, *_ = places(module, SHELF)
    baseline = Baseline({test: 0.1}, {module: {"2": [test]}}, {}, {module: SHELF})

    def run(tests, changed):
        if changed is None and unchanged == "passes":
            return Answer(passed=len(tests))
        return Answer(failed=by, when="collect", raised="OSError")

    found = judge(ROOT, place, baseline, run)
    assert found is not None
    assert (found.kind, found.by) == (kind, by)


def test_tests_that_fail_on_unchanged_code_end_the_run(shelf):
    (shelf / "checks" / "test_bad.py").write_text("def test_bad():\n    raise OSError\n")
    told = forked(lambda: learn(shelf, "shelf", ("checks",)), timeout_s=60)
    with pytest.raises(SystemExit, match="test_bad"):
        mutants.check_baseline(told)


def test_a_run_of_no_test_at_all_ends_the_run():
    with pytest.raises(SystemExit, match="no test ran"):
        mutants.check_baseline({"failed": [], "seconds": {}})


ANSWER = {"passed": 2, "failed": None, "when": None, "raised": None, "wrong": None}


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (ANSWER, "survived"),
        ({**ANSWER, "passed": 1}, "unjudged"),
        ({**ANSWER, "passed": 0, "failed": "t", "when": "call"}, "killed"),
        ({**ANSWER, "passed": 0, "failed": "t", "when": "setup"}, "broken"),
        ({**ANSWER, "passed": 0, "failed": "t", "when": "collect"}, "broken"),
        ({**ANSWER, "wrong": UNBORNE}, "unjudged"),
        ("timeout", "timeout"),
        ("ended with -11 and without an answer", "unjudged"),
    ],
)
def test_each_end_of_a_fork_has_its_own_worth(told, kind):
    assert worth(told, 2).kind == kind


def test_a_fork_that_dies_says_how():
    assert forked(lambda: os.kill(os.getpid(), 9), timeout_s=30) == (
        "ended with -9 and without an answer"
    )


def test_a_fork_that_hangs_is_ended_in_time():
    began_s = time.monotonic()
    assert forked(lambda: time.sleep(60), timeout_s=0.5) == "timeout"
    assert time.monotonic() - began_s < 30


def test_what_a_fork_leaves_running_does_not_hold_its_answer_up():
    def leave() -> dict[str, int]:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        return {"left": 1}

    began_s = time.monotonic()
    assert forked(leave, timeout_s=50) == {"left": 1}
    assert time.monotonic() - began_s < 30


def test_every_place_is_changed_and_says_what_becomes_of_it():
    for module, text in mutants.sources_of().items():
        listed = places(module, text)
        assert [place for place in listed if place.before == place.after] == []
        plain = ast.unparse(ast.parse(text))
        for place in listed[:: max(1, len(listed) // 4)]:
            assert ast.unparse(changed(text, place.number)) != plain, place


def test_every_place_has_a_name_of_its_own():
    listed = [p.key for module, text in mutants.sources_of().items() for p in places(module, text)]
    assert len(set(listed)) == len(listed)


def test_how_an_error_is_worded_is_no_place():
    told = "try:\n    f()\nexcept OSError as error:\n    say(error.strerror or str(error), f'{1 + 1}')\n"
    assert [place.kind for place in places("m.py", told)] == ["call", "call"]


def test_every_explanation_fits_exactly_one_place_of_the_code():
    listed = [p for module, text in mutants.sources_of().items() for p in places(module, text)]
    assert stale(listed, EXPLAINED) == []


def test_an_explanation_of_a_line_that_changed_is_stale_and_explains_nothing():
    module = "orchestrator/trust/shelf.py"
    was = places(module, "def f(n):\n    return n < 3\n")
    now = places(module, "def f(n):\n    return n < 3 or n == 7\n")
    of = Explanation("shelf.py", "f", "return n < 3", "n < 3", "n <= 3", "why")
    assert (stale(was, [of]), [why_unnoticed(p, [of]) for p in was if p.kind == "comparison"]) == (
        [],
        ["why"],
    )
    assert len(stale(now, [of])) == 1
    assert {why_unnoticed(p, [of]) for p in now} == {None}


def test_of_places_that_read_alike_an_explanation_means_one():
    module = "orchestrator/trust/shelf.py"
    twice = places(module, "def f(n):\n    return g(a=0, b=0)\n")
    plain = Explanation("shelf.py", "f", "return g(a=0, b=0)", "0", "1", "why")
    assert "fits 0 places" in stale(twice, [plain])[0]
    second = dataclasses.replace(plain, nth=(2, 2))
    assert stale(twice, [second]) == []
    assert [why_unnoticed(place, [second]) for place in twice] == [None, "why"]


def kept(outcome: Outcome, **changes: object) -> dict[str, object]:
    test = "tests/unit/bench/test_mutants.py"
    return {
        "module": "m.py",
        "source": "other",
        "module_sha256": sha256_hex(b"text"),
        "test_sha256": sha256_hex((ROOT / test).read_bytes()),
        "outcome": dataclasses.asdict(outcome),
        **changes,
    }


KILLED = Outcome("killed", "tests/unit/bench/test_mutants.py::test_it")


@pytest.mark.parametrize(
    ("told", "counts"),
    [
        (kept(KILLED), True),
        (kept(KILLED, module_sha256=sha256_hex(b"text of before")), False),
        (kept(KILLED, test_sha256=sha256_hex(b"")), False),
        (kept(Outcome("survived")), False),
        (kept(Outcome("survived"), source="this"), True),
        (kept(Outcome("unjudged"), source="this"), False),
        (kept(Outcome("unsteady"), source="this"), False),
    ],
)
def test_an_outcome_is_kept_while_what_decided_it_is_the_same(told, counts):
    assert mutants.holds(told, "this", {"m.py": "text"}) is counts


def test_a_whole_run_with_an_unexplained_survivor_fails():
    listed = places("orchestrator/trust/shelf.py", "def f(n):\n    return n < 3\n")
    outcomes = {p.key: Outcome("survived") for p in listed}
    assert mutants.summary(listed, outcomes)["unexplained"] == len(listed)


@pytest.mark.parametrize("kind", ["unreached", "unsteady", "unjudged"])
def test_what_was_not_judged_is_never_counted_as_noticed(kind):
    listed = places("orchestrator/trust/shelf.py", "def f(n):\n    return n < 3\n")
    outcomes = {p.key: Outcome(kind) for p in listed}
    assert mutants.summary(listed, outcomes)["unexplained"] == len(listed)
