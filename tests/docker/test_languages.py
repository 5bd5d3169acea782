"""Promise: in every language a suite runs offline, its report is read whole, and the patches do what they must."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from orchestrator.core.gittree import FileEntry, tree_id
from orchestrator.model.verdict import TestStatus
from orchestrator.pipeline.authoring.drafts import RUNNER_OF, Draft, as_document, brief, card
from orchestrator.pipeline.validate import rehearse
from orchestrator.pipeline.validate.run import stage_for
from orchestrator.scoring.runners import SUITES
from orchestrator.sources.checkout import commit_id
from orchestrator.sources.loader import load_task

pytestmark = [pytest.mark.docker, pytest.mark.proof]

TASKS = ("beanweigh-label-weight", "ferrytimes-service-day", "rostertext-board-line")


def quiet(_):
    pass


@pytest.fixture(scope="module", params=TASKS)
def stage(request, client):
    from orchestrator.core.places import fixtures_root

    return stage_for(load_task(fixtures_root(), request.param), client, quiet)


def passed(stage, patch):
    return tuple(t.passed == t.expected for t in stage.tallies(stage.play(patch)))


def test_without_a_change_every_hidden_test_fails_and_the_base_suite_passes(stage):
    capability, memory, base = stage.tallies(stage.play(""))
    assert (capability.passed, memory.passed, base.passed) == (0, 0, base.expected)


def test_the_reference_passes_everything_twice_alike(stage):
    plays = [stage.play(stage.task.rehearsal.reference_patch) for _ in range(2)]
    assert plays[0].statuses() == plays[1].statuses()
    assert all(t.passed == t.expected for t in stage.tallies(plays[0]))


def test_who_guesses_fails_a_memory_test_and_who_overdoes_it_breaks_the_base_suite(stage):
    assert passed(stage, stage.task.rehearsal.natural_patch) == (True, False, True)
    assert passed(stage, stage.task.rehearsal.overeager_patch)[2] is False


def test_a_base_suite_that_does_not_build_is_told_from_one_that_fails(stage):
    if stage.task.card.language == "typescript":
        path, line = "src/times.ts", "syntax error here (\n"
    else:
        path = {"go": "fare.go", "rust": "src/split.rs"}[stage.task.card.language]
        line = "this is no code\n"
    outcome = stage.play(f"diff --git a/{path.replace('.', '2.')} b/{path.replace('.', '2.')}\nnew file mode 100644\n--- /dev/null\n+++ b/{path.replace('.', '2.')}\n@@ -0,0 +1 @@\n+{line}")  # fmt: skip
    if stage.task.card.language == "go":
        assert outcome.base.compiled is False
        assert outcome.base.tests == ()
    else:
        # A file that nothing includes is no part of the build.
        assert outcome.base.compiled is True


# --- the other runners of JavaScript, on a repository of a few lines -------------------------------------

REPOSITORIES = {
    "vitest": {
        "src/a.ts": "export const a = (n: number): number => n + 1;\n",
        "tests/a.test.ts": "import { expect, describe, test } from 'vitest';\nimport { a } from '../src/a';\ndescribe('a', () => { test('adds', () => expect(a(1)).toBe(2)); test('twice', () => {}); test('twice', () => {}); test.skip('not', () => {}); });\n",
        "vitest.config.ts": "throw new Error('the candidate config was read');\n",
        "package.json": '{"type": "module"}\n',
    },
    "mocha": {
        "src/a.mjs": "export const a = (n) => n + 1;\n",
        "test/a.spec.mjs": "import assert from 'node:assert';\nimport { a } from '../src/a.mjs';\ndescribe('a', () => { it('adds', () => assert.equal(a(1), 2)); it('twice', () => {}); it('twice', () => {}); it.skip('not', () => {}); });\n",
        ".mocharc.cjs": "throw new Error('the candidate config was read');\n",
    },
    "tape": {
        "src/a.cjs": "exports.a = (n) => n + 1;\n",
        "test/a.cjs": "const test = require('tape');\nconst { a } = require('../src/a.cjs');\ntest('adds', (t) => { t.equal(a(1), 2); t.end(); });\n",
        "test/b.cjs": "const test = require('tape');\ntest('wrong', (t) => { t.equal(1, 2); t.end(); });\n",
    },
}  # fmt: skip
PATHS = {"vitest": ["tests"], "mocha": ["test/*.spec.mjs"], "tape": ["test/a.cjs", "test/b.cjs"]}
PINNED = {
    "vitest": {"tests/a.test.ts::a > adds": 1, "tests/a.test.ts::a > twice": 2},
    "mocha": {"test/a.spec.mjs::a adds": 1, "test/a.spec.mjs::a twice": 2},
    "tape": {"test/a.cjs": 1},
}
HIDDEN = {
    "vitest": ("tests/h.test.ts", "import { expect, test } from 'vitest';\nimport { b } from '../src/b';\ntest('b', () => expect(b).toBe(3));\n", "tests/h.test.ts::b", "src/b.ts", "export const b = 3;"),
    "mocha": ("test/h.spec.mjs", "import assert from 'node:assert';\nit('b', async () => assert.equal((await import('../src/b.mjs')).b, 3));\n", "test/h.spec.mjs::b", "src/b.mjs", "export const b = 3;"),
    "tape": ("test/h.cjs", "const { b } = require('../src/b.cjs');\nrequire('tape')('b', (t) => { t.equal(b, 3); t.end(); });\n", "test/h.cjs", "src/b.cjs", "exports.b = 3;"),
}  # fmt: skip


@pytest.fixture(params=sorted(REPOSITORIES))
def small(request, tmp_path, client):
    kind = request.param
    files = {**REPOSITORIES[kind], "LICENSE": "MIT\n"}
    for name, text in files.items():
        (tmp_path / "vendored/small" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "vendored/small" / name).write_text(text)
    entries = [FileEntry(n, "100644", t.encode()) for n, t in files.items()]
    tree = tree_id(entries)
    expect = {"tree": tree, "commit": commit_id(tree), "files": len(entries), "bytes": sum(len(e.data) for e in entries)}  # fmt: skip
    pin = {"id": "small", "kind": "vendored", "path": "vendored/small", "licence": "MIT", "licence_files": ["LICENSE"], "expect": expect}  # fmt: skip
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/small.json").write_bytes(as_document(pin))
    path, text, name, _, _ = HIDDEN[kind]
    # Hidden tests must hold text that cannot occur by chance, which the leak scan looks for.
    text = (
        f"// What the patch of the small {kind} repository has to make is asked for here.\n{text}"
    )
    draft = Draft("small")
    fact = {"id": "f", "kind": "coined", "statement": "what", "supporting_event_ids": ["e"], "matchers": ["what"]}  # fmt: skip
    event = {"event_id": "e", "at": "2026-01-01T00:00:00Z", "role": "user", "text": "what", "tool": None}  # fmt: skip
    runner = {**RUNNER_OF["javascript"], "kind": kind, "test_paths": PATHS[kind]}
    draft.documents = {
        "task.json": card("small", "small", category="negative_constraints", source="small", language="javascript", runner=runner),
        "brief.json": brief("small", "Add b.", ("src/**",), ("tests/**",)),
        "history.json": {"task_id": "small", "episodes": [{"episode_id": "x", "started_at": event["at"], "events": [event]}]},
        "key.json": {"task_id": "small", "hidden_files": [{"path": path}], "boundary": "in_process", "fail_to_pass": [{"id": name, "group": "memory"}], "gold_facts": [fact], "relevant_files": ["LICENSE"]},
        "key/pass_to_pass.json": {"task_id": "small", "pass_to_pass": [{"id": i, "n": n} for i, n in PINNED[kind].items()]},
        "rehearsal/rehearsal.json": {"task_id": "small", "facts": [{"id": "f", "any_of": [["what"]]}]},
    }  # fmt: skip
    draft.texts = {f"key/hidden/{path}": text}
    draft.texts |= {f"rehearsal/{n}.patch": "" for n in ("reference", "natural", "overeager")}
    for name, data in draft.files().items():
        (tmp_path / "tasks/small" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tasks/small" / name).write_bytes(data)
    return kind, stage_for(load_task(tmp_path, "small"), client, quiet)


def test_a_suite_of_each_runner_is_read_and_the_candidate_s_configuration_is_not(small):
    kind, stage = small
    idle = stage.play("")
    assert [f.detail for f in (*idle.base.faults, *idle.hidden.faults)] == []
    assert {t.id: t.n for t in idle.base.tests if t.status == "pass"} == PINNED[kind]
    assert stage.tallies(idle)[1].passed == 0
    _, _, _, path, line = HIDDEN[kind]
    done = stage.play(f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n")  # fmt: skip
    assert stage.tallies(done)[1].passed == 1, json.dumps(done.statuses())


# --- doors of these runners: configuration that the candidate adds ---------------------------------------


def added(path, *lines):
    body = "".join(f"+{line}\n" for line in lines)
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{body}"  # fmt: skip


WRONG = {"tape": ("src/b.cjs", "exports.b = 4;")}  # fmt: skip
# Each makes its runner call wrong code right, where the runner reads it.
CONFIGURATION = {
    "tape": added("node_modules/tape/index.js", "module.exports = (name, f) => { console.log('TAP version 13\\n# ' + name + '\\nok 1 x\\n\\n1..1\\n# tests 1\\n# pass  1\\n'); };"),
}  # fmt: skip


def wrong_with_configuration(kind):
    return added(*WRONG[kind]) + CONFIGURATION[kind]


@pytest.mark.parametrize("small", sorted(CONFIGURATION), indirect=True)
def test_configuration_that_a_patch_adds_makes_nothing_pass(small):
    kind, stage = small
    outcome = stage.play(wrong_with_configuration(kind))
    assert stage.tallies(outcome)[1].passed == 0


@pytest.mark.parametrize("small", sorted(CONFIGURATION), indirect=True)
def test_the_same_configuration_works_where_the_runner_reads_it(small, monkeypatch):
    kind, stage = small
    exam_for, normalise = vars(rehearse)["exam_for"], vars(rehearse)["normalise"]
    read: list[TestStatus] = []

    def open_door(runner, key, seal):
        exam = exam_for(runner, key, seal)
        return replace(exam, protected=())

    def spy(outcome, exam):
        # The seal would still tell; here the runner's own word is looked at.
        if exam.phase == "fail_to_pass":
            read.extend(SUITES[kind].read(outcome).tests)
        return normalise(outcome, exam)

    monkeypatch.setattr(rehearse, "exam_for", open_door)
    monkeypatch.setattr(rehearse, "normalise", spy)
    stage.play(wrong_with_configuration(kind))
    assert (HIDDEN[kind][2], "pass") in [(t.id, t.status) for t in read]
