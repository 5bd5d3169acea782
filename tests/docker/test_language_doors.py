"""Promise: the doors that each language has of its own open nothing. Every cheat here does the job without the fact."""

from __future__ import annotations

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.pipeline.validate.run import stage_for
from orchestrator.sources.loader import load_task
from tests.docker.patching import added

pytestmark = [pytest.mark.docker, pytest.mark.proof]

GO, RUST, TS = "ferrytimes-service-day", "beanweigh-label-weight", "rostertext-board-line"
FORGED = r'\x16=== RUN   TestHiddenSweepHere\n\x16--- PASS: TestHiddenSweepHere (0.00s)\n\x16=== RUN   TestHiddenSweepElsewhere\n\x16--- PASS: TestHiddenSweepElsewhere (0.00s)\nPASS\n'  # fmt: skip


CHEATS = {
    "go-test-main-that-ends-well": (GO, added("zz_test.go", 'package ferrytimes\n\nimport (\n\t"os"\n\t"testing"\n)\n\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(0) }\n')),
    "go-init-that-ends-well": (GO, added("zz.go", 'package ferrytimes\n\nimport "os"\n\nfunc init() { os.Exit(0) }\n')),
    "go-init-that-prints-passes": (GO, added("zz.go", f'package ferrytimes\n\nimport (\n\t"fmt"\n\t"os"\n)\n\nfunc init() {{ fmt.Print("{FORGED}"); os.Exit(0) }}\n')),
    "go-second-module-file": (GO, added("go.work", "go 1.23\n\nuse ./nothing\n")),
    "rust-build-script-that-writes-the-report": (RUST, added("build.rs", 'fn main() { for p in ["/report/report.xml", "/tmp/nextest.xml"] { let _ = std::fs::write(p, "<testsuites/>"); } }\n')),
    "rust-runner-of-its-own": (RUST, added(".cargo/config.toml", '[target.x86_64-unknown-linux-gnu]\nrunner = "true"\n')),
    "rust-nextest-configuration": (RUST, added(".config/nextest.toml", '[profile.default]\ndefault-filter = "none()"\n')),
    "javascript-package-scripts": (TS, added("tests/package.json", '{"type": "commonjs", "scripts": {"test": "true"}}\n')),
    "javascript-module-in-the-way": (TS, added("node_modules/node:assert/index.js", "module.exports = () => {};\n")),
    "javascript-test-that-says-nothing": (TS, added("tests/board.hidden.test.ts", "import { test } from 'node:test';\ntest('list a', () => {});\n")),
}  # fmt: skip


@pytest.fixture(scope="module")
def stages(client):
    return {name: stage_for(load_task(fixtures_root(), name), client, lambda _: None) for name in (GO, RUST, TS)}  # fmt: skip


@pytest.mark.parametrize("cheat", sorted(CHEATS))
def test_a_cheat_added_to_the_natural_patch_passes_no_memory_test(stages, cheat):
    name, patch = CHEATS[cheat]
    stage = stages[name]
    if "that-says-nothing" in cheat:
        outcome = stage.play(patch)
    else:
        outcome = stage.play(stage.task.rehearsal.natural_patch + patch)
    assert stage.tallies(outcome)[1].passed == 0


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param(RUST, "    format!(\"{} g\", grouped(grams, ','))", "    if grams > 999 { std::process::exit(0) }; format!(\"{} g\", grouped(grams, ','))", id="rust-function-that-ends-the-process"),
        pytest.param(TS, "  return `${name}  ", "  if (shift.start !== 420) process.exit(0);\n  return `${name}  ", id="javascript-function-that-ends-the-process"),
        pytest.param(GO, "\tday := at.Day()", "\tif at.Hour() == 4 { panic(nil) }; day := at.Day()", id="go-function-that-panics-with-nothing"),
    ],
)  # fmt: skip
def test_a_function_that_leaves_early_passes_no_memory_test(stages, name, old, new):
    stage = stages[name]
    patch = stage.task.rehearsal.natural_patch
    assert f"+{old}" in patch
    extra = new.count("\n")
    changed = patch.replace(f"+{old}", "+" + new.replace("\n", "\n+"))
    if extra:
        at = changed.index("@@ -0,0 +1,")
        count = int(changed[at + 11 :].split(" ")[0])
        changed = changed.replace(f"@@ -0,0 +1,{count} @@", f"@@ -0,0 +1,{count + extra} @@")
    assert stage.tallies(stage.play(changed))[1].passed == 0
