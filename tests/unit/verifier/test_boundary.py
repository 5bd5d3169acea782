"""Promise: hidden tests use code of another process as if it were their own, and it cannot fool or steer them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

VERIFIER = Path(__file__).resolve().parents[3] / "images" / "verifier"
CODE = """
import collections
import enum

class FeedError(ValueError):
    pass

class LateError(FeedError):
    def __init__(self, text, code):
        super().__init__(text)
        self.code = code

Pair = collections.namedtuple("Pair", "a b")

class Colour(enum.StrEnum):
    RED = "red"

class Anything:
    def __eq__(self, other):
        return True
    def __hash__(self):
        return 1

class Guard:
    state = 0
    def __enter__(self):
        self.state = 1
        return self
    def __exit__(self, *args):
        self.state = 2
        return True

def same(value):
    return value

def late():
    raise LateError("too late", 7)

def twice(function, value):
    return function(value) * 2

def counted(limit):
    yield from range(limit)

def stop():
    raise KeyboardInterrupt
"""
LEFT_OUT = ["test_hidden::test_known_not_to_work[ab]"]
Run = Callable[[str, str], dict[str, str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs hidden tests against code in another process; returns test name -> outcome."""

    def go(code: str, tests: str) -> dict[str, str]:
        source, hidden = tmp_path / "src" / "demo", tmp_path / "hidden"
        source.mkdir(parents=True)
        hidden.mkdir()
        (source / "__init__.py").write_text(textwrap.dedent(code))
        (source / "sub.py").write_text("VALUE = 3\n")
        (hidden / "test_hidden.py").write_text(textwrap.dedent(tests))
        (hidden / ".left-out.json").write_text(json.dumps(LEFT_OUT))
        sock = tmp_path / "socket"
        plain = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        candidate = subprocess.Popen(
            [sys.executable, str(VERIFIER / "candidate.py"), str(sock)],
            env={**plain, "PYTHONPATH": str(tmp_path / "src")},
            stderr=subprocess.DEVNULL,
        )
        command = [sys.executable, "-P", "-m", "pytest", "-v", "-p", "boundary", "--tb=line"]
        command += ["-p", "no:cacheprovider", "-p", "no:randomly", "-c", "/dev/null"]
        try:
            finished = subprocess.run(
                [*command, f"--rootdir={hidden}", str(hidden / "test_hidden.py")],
                env={
                    **plain,
                    "PYTHONPATH": str(VERIFIER),
                    "MEMTRIAL_SOCKET": str(sock),
                    "MEMTRIAL_CANDIDATE": "demo",
                },
                cwd=hidden,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
        finally:
            candidate.kill()
            candidate.wait()
        words = [line.split() for line in finished.stdout.splitlines() if "::" in line]
        return {w[0].split("::")[1]: w[1] for w in words if len(w) > 1 and w[1].isupper()}

    return go


def all_pass(outcomes: dict[str, str]) -> bool:
    return bool(outcomes) and set(outcomes.values()) == {"PASSED"}


def test_plain_values_cross_by_value_and_keep_their_types(run):
    assert all_pass(
        run(
            CODE,
            """
            import datetime, decimal, fractions, math, pathlib, uuid
            import pytest
            from demo import same

            VALUES = [None, True, 0, -1, 2**200, 1.5, -0.0, math.inf, "text", "\\ud800", "", b"\\xff", 1j, range(3),
                (1, [2, {"a": {3}}]), frozenset({1}), decimal.Decimal("1.10"), fractions.Fraction(1, 3),
                datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc), datetime.date(2020, 1, 1),
                datetime.time(1, 2), datetime.timedelta(1, 2, 3), pathlib.Path("/x"), uuid.UUID(int=1)]

            @pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
            def test_value(value):
                assert same(value) == value
                assert type(same(value)) is type(value)

            def test_not_a_number():
                assert math.isnan(same(math.nan))
            """,
        )
    )


def test_objects_exceptions_callbacks_and_patches_work_as_at_home(run):
    assert all_pass(
        run(
            CODE,
            """
            import pytest
            import demo
            import demo.sub
            from demo import Colour, FeedError, LateError, Pair

            def test_exceptions_have_name_ancestors_text_and_attributes():
                with pytest.raises(FeedError, match="too late") as caught:
                    demo.late()
                assert (type(caught.value).__name__, caught.value.code) == ("LateError", 7)
                with pytest.raises(ValueError):
                    demo.late()
                assert issubclass(LateError, FeedError)

            def test_values_with_a_class_of_their_own():
                pair = Pair(1, 2)
                assert pair == (1, 2) and pair != (1, 3) and pair.a == 1 and tuple(pair) == (1, 2)
                assert isinstance(pair, tuple) and isinstance(pair, Pair) and len(pair) == 2
                assert pair == Pair(1, 2) and hash(pair) == hash(Pair(1, 2)) and pair in {Pair(1, 2)}
                assert Colour.RED == "red" and Colour("red") is Colour.RED

            def test_callables_are_called_back():
                assert demo.twice(lambda n: n + 1, 3) == 8

            def test_iterators_and_modules():
                assert list(demo.counted(3)) == [0, 1, 2]
                assert demo.sub.VALUE == 3
                assert demo.same is demo.same

            def test_a_patch_is_undone(monkeypatch):
                with monkeypatch.context() as patch:
                    patch.setattr(demo, "same", lambda value: 5)
                    assert demo.same(1) == 5
                assert demo.same(1) == 1

            def test_an_error_of_the_test_is_not_swallowed():
                with pytest.raises(ZeroDivisionError):
                    with demo.Guard() as guard:
                        1 / 0
                assert guard.state == 2
            """,
        )
    )


def test_an_object_that_equals_everything_equals_no_plain_value(run):
    outcomes = run(
        CODE,
        """
        from demo import Anything

        def test_text(): assert Anything() == "text"
        def test_reversed(): assert "text" == Anything()
        def test_none(): assert Anything() == None
        def test_in_a_tuple(): assert (Anything(), 1) == ("text", 1)
        def test_in_a_list(): assert "text" in [Anything()]
        """,
    )
    assert set(outcomes.values()) == {"FAILED"}
    assert len(outcomes) == 5


def test_an_exception_that_steers_a_runner_is_an_ordinary_failure(run):
    outcomes = run(
        CODE + "\n\ndef skip():\n    import unittest\n    raise unittest.SkipTest('no')\n",
        """
        import demo

        def test_interrupt(): demo.stop()
        def test_skip(): demo.skip()
        def test_after(): assert demo.same(1) == 1
        """,
    )
    assert outcomes == {
        "test_interrupt": "FAILED",
        "test_skip": "FAILED",
        "test_after": "PASSED",
    }


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos._exit(0)",
        "import sys\nsys.exit(0)",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "raise KeyboardInterrupt",
        "import gc, socket\nfor thing in gc.get_objects():\n    if type(thing) is socket.socket:\n        thing.sendall(b'\\xff' * 4096)",
        "import gc, socket\nfor thing in gc.get_objects():\n    if type(thing) is socket.socket:\n        try:\n            thing.sendall(b'\\0\\0\\0\\x0a[\"value\",1]' * 50)\n        except OSError:\n            pass",
        "def same(value):\n    found = []\n    found.append(found)\n    return found",
    ],
    ids=["exit", "sys-exit", "kill", "interrupt", "junk", "forged-answers", "endless-list"],
)
def test_a_candidate_that_ends_or_lies_fails_its_tests_and_nothing_else(run, code):
    outcomes = run(
        code,
        """
        def test_candidate():
            import demo
            assert demo.same("text") == "text"

        def test_own():
            assert True
        """,
    )
    assert outcomes == {"test_candidate": "FAILED", "test_own": "PASSED"}


def test_no_candidate_code_runs_in_the_examiner(run):
    assert all_pass(
        run(
            "import sys\nINSIDE = '_pytest' in sys.modules\nFRAMES = []\n"
            "def frames():\n    f, n = sys._getframe(), []\n    while f: n.append(f.f_code.co_filename); f = f.f_back\n    return n",
            """
            import demo

            def test_apart():
                assert demo.INSIDE is False
                assert not [name for name in demo.frames() if "test_hidden" in name]
            """,
        )
    )


def test_modules_that_exist_here_are_never_taken_from_there(run):
    assert all_pass(
        run(
            "import json",
            """
            import json
            import pytest

            def test_own_module():
                assert json.__file__.endswith("json/__init__.py") and pytest.__version__
            """,
        )
    )


def test_only_the_base_tests_that_are_named_are_left_out(run: Run) -> None:
    found = run(
        CODE,
        """
        import pytest

        @pytest.mark.parametrize("value", ["ab", "c"])
        def test_known_not_to_work(value):
            assert value == "c"

        def test_other():
            assert True
        """,
    )
    assert found == {"test_known_not_to_work[c]": "PASSED", "test_other": "PASSED"}
