"""Promise: a memory test that one could pass without the memory, in a process that one shares, is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.model.task import FailToPass
from orchestrator.pipeline.validate import handed, paper
from orchestrator.sources.loader import LoadedTask, list_tasks, load_task

TASK = "strsim-street-key"


@pytest.fixture
def task() -> LoadedTask:
    return load_task(fixtures_root(), TASK)


def with_test(task: LoadedTask, *, name: str = "", values: tuple[str, ...] = ()) -> LoadedTask:
    """The task with its first memory test named or expecting otherwise."""
    tests = list(task.key.card.fail_to_pass)
    place = next(n for n, test in enumerate(tests) if test.group == "memory")
    tests[place] = tests[place].model_copy(
        update={
            "id": f"strsim::hidden_street_key::{name}" if name else tests[place].id,
            "values": values or tests[place].values,
        }
    )
    card = task.key.card.model_copy(update={"fail_to_pass": tuple(tests)})
    return dataclasses.replace(task, key=task.key.model_copy(update={"card": card}))


def with_text(task: LoadedTask, text: str) -> LoadedTask:
    (file,) = task.key.hidden_files
    telling = file.model_copy(update={"text": file.text + text})
    return dataclasses.replace(task, key=task.key.model_copy(update={"hidden_files": (telling,)}))


@pytest.mark.parametrize(
    "values",
    [("",), ("true", "FALSE"), ("no",), ("ok", ""), ("0",), ("0.000000000",), ("1.0", "0"), ("null",), ("<nil>",), ("[]",), ("7",), ("x", "yes"), ("'none'",)],
    ids=repr,
)  # fmt: skip
def test_a_value_that_one_would_guess_is_refused(task: LoadedTask, values: tuple[str, ...]) -> None:
    found = handed.problems(with_test(task, values=values))
    assert [p for p in found if "hidden_list_a expects what one would guess" in p] == found
    assert len(found) == 1


@pytest.mark.parametrize(
    "values", [("true", "s:hrbr+ln"), ("0.5",), ("04:30",), ("lost",)], ids=repr
)
def test_a_value_that_one_must_know_is_not(task: LoadedTask, values: tuple[str, ...]) -> None:
    assert handed.problems(with_test(task, values=values)) == []


@pytest.mark.parametrize("values", [("Quarry Hill",), ("[Cliff Road]",), ("true", "Quay"), ("s:",)])
def test_a_value_that_stands_in_the_hidden_files_is_refused(
    task: LoadedTask, values: tuple[str, ...]
) -> None:
    (found,) = handed.problems(with_test(task, values=values))
    assert "the hidden files hold all that" in found


def test_one_value_that_does_not_stand_there_is_enough(task: LoadedTask) -> None:
    assert handed.problems(with_test(task, values=("Quarry Hill", "s:qrry+hll"))) == []


def test_a_value_of_the_prompt_is_refused(task: LoadedTask) -> None:
    (found,) = handed.problems(with_test(task, values=("no words",)))
    assert "hold all that" in found


def test_a_value_that_capability_tests_expect_too_is_refused(task: LoadedTask) -> None:
    (found,) = handed.problems(with_test(task, values=("0 1 0 0 1 5", "0 1 2 3 4")))
    assert "only what capability tests expect" in found


def test_a_name_that_says_a_word_of_the_fact_is_refused(task: LoadedTask) -> None:
    (found,) = handed.problems(with_test(task, name="hidden_house_at_the_end"))
    assert "says 'house', a word of fact f3" in found
    (found,) = handed.problems(with_test(task, name="TestHiddenHouseLast"))
    assert "'house'" in found


def test_a_file_that_is_named_by_a_word_of_the_fact_is_refused() -> None:
    """The file's name is seen where the tests run: a header called Pb-Journey, and hidden_journey_test.go."""
    task = load_task(fixtures_root(), "mux-journey-header")
    (file,) = task.key.hidden_files
    named = file.model_copy(update={"path": "hidden_journey_test.go"})
    key = task.key.model_copy(update={"hidden_files": (named,)})
    (found,) = handed.problems(dataclasses.replace(task, key=key))
    assert "the path hidden_journey_test.go says 'journey'" in found


def test_a_name_may_say_what_the_prompt_says(task: LoadedTask) -> None:
    assert "words" in task.brief.prompt
    assert handed.problems(with_test(task, name="hidden_words")) == []


def test_a_number_of_the_fact_among_the_inputs_is_refused() -> None:
    """Marks of 24 to the inch, and an input of 47/48: whoever reads it knows the marks."""
    task = load_task(fixtures_root(), "fraction-bench-stop")
    (found,) = handed.problems(with_text(task, "// 2 1/24\n"))
    assert "the hidden files hold 24, a number of fact f1" in found
    assert handed.problems(with_text(task, "// 240, 1.24, v24 and 7\n")) == []


def test_each_memory_test_is_looked_at_alone(task: LoadedTask) -> None:
    """That another test shows the value itself does not make a yes or no of this one better."""
    assert not paper.hidden_tests(with_test(task, values=("true",))).ok
    assert paper.hidden_tests(task).ok


def test_tests_that_decide_in_a_process_of_their_own_may_expect_anything() -> None:
    apart = [load_task(fixtures_root(), name) for name in list_tasks(fixtures_root())]
    apart = [task for task in apart if task.key.card.boundary == "process"]
    assert apart
    assert all(handed.problems(with_text_of(task)) == [] for task in apart)


def with_text_of(task: LoadedTask) -> LoadedTask:
    files = tuple(
        file.model_copy(update={"text": file.text + task.key.card.gold_facts[0].statement})
        for file in task.key.hidden_files
    )
    return dataclasses.replace(task, key=task.key.model_copy(update={"hidden_files": files}))


MINED = Path(__file__).parents[2] / "cases/miners"


@pytest.mark.parametrize("name", sorted(p.name for p in MINED.iterdir() if p.is_dir()))
def test_suites_that_programs_mine_with_success_are_refused_on_paper(name: str) -> None:
    case = json.loads((MINED / name / "case.json").read_bytes())
    task = load_task(fixtures_root(), case["task"])
    (file,) = task.key.hidden_files
    text = (MINED / name / case["hidden"]).read_text(encoding="utf-8")
    tests = tuple(
        FailToPass(id=test, group="memory", values=tuple(values))
        for test, values in case["telling"].items()
    )
    card = task.key.card.model_copy(update={"fail_to_pass": tests})
    key = task.key.model_copy(
        update={"hidden_files": (file.model_copy(update={"text": text}),), "card": card}
    )
    assert handed.problems(dataclasses.replace(task, key=key))
