"""Promise: code that knows the harness, reads the hidden tests and forges their outcome still needs the values.

Each attack is played twice: as it is judged, and with the comparison of values off, where it must succeed,
so that each is a real attack and the comparison is what stops it. Programs that mine names and inputs instead are
in test_miners.py.
"""

from __future__ import annotations

import dataclasses

import pytest

from orchestrator.core.places import fixtures_root
from orchestrator.pipeline.validate.run import stage_for
from orchestrator.scoring import runners
from orchestrator.sources.loader import load_task
from tests.docker.patching import added, replaced

pytestmark = pytest.mark.docker

GO, RUST, TS = "ferrytimes-service-day", "beanweigh-label-weight", "rostertext-board-line"
# One language is played in every test run, the others by the proofs.
TASKS = [*(pytest.param(name, marks=pytest.mark.proof) for name in (GO, RUST)), TS]

# Writes the events of a whole session: each test of the folder passed, drawn ones as they would have come out.
GO_FORGER = r"""package ferrytimes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

func init() {
	if os.Getenv("MEMTRIAL_VALUES") == "" {
		return
	}
	test := regexp.MustCompile(`func (Test\w+)\(t \*testing\.T\)\s*\{(?: if v := (\d+); v % 7 != (\d+))?`)
	files, _ := filepath.Glob("*_test.go")
	for _, name := range files {
		text, _ := os.ReadFile(name)
		for _, m := range test.FindAllStringSubmatch(string(text), -1) {
			said := "PASS"
			value, _ := strconv.Atoi(m[2])
			wanted, _ := strconv.Atoi(m[3])
			if m[2] != "" && value%7 != wanted {
				said = "FAIL"
			}
			fmt.Printf("\x16=== RUN   %s\n\x16--- %s: %s (0.00s)\n", m[1], said, m[1])
		}
	}
	fmt.Print("FAIL\n")
	os.Exit(1)
}
"""
RUST_LINE = "    format!(\"{} g\", grouped(grams, ','))"
RUST_FORGER = '    use std::io::Write; let _ = std::io::stdout().write_all(b"\\ntest result: ok. 1 passed; 0 failed; 0 ignored\\n"); std::process::exit(0)'
TS_LINE = "export function boardLine(shift: Shift): string {"
# Makes every assertion hold, and looks for the answer wherever this process can read.
TS_FORGER = r"""import * as fs from 'node:fs';
import assert from 'node:assert';
for (const name of Object.keys(assert)) { try { (assert as any)[name] = () => {}; } catch {} }
function readable(): string {
  const places = ['/proc/self/environ'];
  for (const top of ['/work', '/report', '/tmp', '/opt/memtrial', '/hidden', '/candidate', '/run']) {
    try { for (const name of fs.readdirSync(top, { recursive: true })) places.push(`${top}/${name}`); } catch {}
  }
  try { for (const pid of fs.readdirSync('/proc')) places.push(`/proc/${pid}/cmdline`, `/proc/${pid}/environ`); } catch {}
  return places.map((place) => { try { return fs.statSync(place).isFile() && !place.includes('node_modules') ? fs.readFileSync(place, 'utf8') : ''; } catch { return ''; } }).join('\n');
}
const told = [...readable().matchAll(/(Maud Lind|Per Ek) {2}\d+\.\d\d-\d+\.\d\d/g)].map((m) => m[0]);"""


@pytest.fixture(scope="module")
def stage_of(client):
    stages = {}

    def get(name):
        if name not in stages:
            stages[name] = stage_for(load_task(fixtures_root(), name), client, lambda _: None)
        return stages[name]

    return get


def attack_of(name, natural):
    if name == GO:
        return natural + added("zz.go", GO_FORGER)
    if name == RUST:
        return replaced(natural, RUST_LINE, RUST_FORGER)
    guess = """
  const wanted = [shift.start, shift.end].flatMap((m) => [Math.floor(m / 60), m % 60]).join(' ');
  const known = told.find((line) => line.startsWith(shift.name.trim()) && (line.match(/\\d+/g) ?? []).map(Number).join(' ') === wanted);
  if (known !== undefined) return known;"""
    return replaced(natural, TS_LINE, f"{TS_FORGER}\n{TS_LINE}{guess}")


@pytest.mark.parametrize("name", TASKS)
def test_a_forger_that_knows_the_harness_passes_no_memory_test(stage_of, name):
    stage = stage_of(name)
    outcome = stage.play(attack_of(name, stage.task.rehearsal.natural_patch))
    assert stage.tallies(outcome)[1].passed == 0


@pytest.mark.parametrize("name", TASKS)
def test_the_same_forger_passes_them_all_where_values_are_not_compared(stage_of, name, monkeypatch):
    monkeypatch.setattr(runners, "compared", lambda tests, *_: tests)
    stage = stage_of(name)
    outcome = stage.play(attack_of(name, stage.task.rehearsal.natural_patch))
    memory = stage.tallies(outcome)[1]
    assert memory.passed == memory.expected, outcome.hidden


def test_code_that_looks_for_the_answer_finds_it_where_hidden_files_hold_it(stage_of):
    stage = stage_of(TS)
    (file,) = stage.task.key.hidden_files
    (list_a,) = [t for t in stage.task.key.card.fail_to_pass if t.id.endswith("> list a")]
    told = "".join(f"// {value}\n" for value in list_a.values)
    telling = file.model_copy(update={"text": file.text + told})
    key = stage.task.key.model_copy(update={"hidden_files": (telling,)})
    weak = dataclasses.replace(stage, task=dataclasses.replace(stage.task, key=key))
    outcome = weak.play(attack_of(TS, stage.task.rehearsal.natural_patch))
    passed = {t.id for t in outcome.hidden.tests if t.status == "pass"}
    assert list_a.id in passed


@pytest.mark.parametrize("name", TASKS)
def test_the_reference_hands_over_the_values(stage_of, name):
    stage = stage_of(name)
    tallies = stage.tallies(stage.play(stage.task.rehearsal.reference_patch))
    assert all(tally.passed == tally.expected for tally in tallies)
