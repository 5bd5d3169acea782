"""Promise: a refusal says what was expected, what was found, and the next step."""

from orchestrator.core.errors import ApprovalRefused, unknown_name
from orchestrator.core.words import counted


def test_a_name_that_is_close_is_proposed():
    error = unknown_name("agent", "folower", ["follower", "oracle"], option="--agents")
    assert (error.reference, error.exit_code) == ("agent-unknown", 2)
    assert error.message == "expected one of follower, oracle, found agent 'folower'"
    assert error.hint == "did you mean follower? choose with --agents"


def test_where_nothing_is_close_nothing_is_proposed():
    error = unknown_name("task", "x", [], option="--tasks")
    assert error.message == "expected one of none at all, found task 'x'"
    assert error.hint == "choose with --tasks"


def test_a_refusal_of_the_gate_says_which_check():
    assert ApprovalRefused("r", "m", hint="h", check=3).check == 3
    assert ApprovalRefused("r", "m", hint="h").check is None


def test_a_number_stands_with_its_noun():
    assert [counted(n, "trial") for n in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]
    assert counted(2, "copy", "copies") == "2 copies"
