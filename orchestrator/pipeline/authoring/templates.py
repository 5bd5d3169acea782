"""What a scaffold puts into a hidden test file: a capability test and a memory test of the language's runner.

Outside Python the tests hand over values (scoring/suites/values.py), and each template brings the few lines
that do so. Constants only.
"""

from __future__ import annotations

from typing import Final

_PYTHON = '''"""FILL IN: import the function that the prompt names, and call it in both tests."""


def test_hidden_capability():
    assert "FILL IN: what anyone who did the job gets right" == ""


def test_hidden_memory():
    assert "FILL IN: what needs the fact" == ""
'''
_JAVASCRIPT = """import fs from 'node:fs';
import { test } from 'node:test';
// FILL IN: import the function that the prompt names, and show what it gives.

// Hands values over to the grader; `values` in key.json says what is right, and nothing here may.
function show(test, ...values) {
  const hex = (text) => Buffer.from(String(text)).toString('hex');
  for (const value of values) {
    fs.appendFileSync(process.env.MEMTRIAL_VALUES, `${hex(test)} ${hex(value)}\\n`);
  }
}

test('hidden capability', () => show('hidden capability', 'FILL IN'));
test('hidden memory', () => show('hidden memory', 'FILL IN'));
"""
_TYPESCRIPT = (
    _JAVASCRIPT.replace(
        "function show(test, ...values) {",
        "function show(test: string, ...values: unknown[]): void {",
    )
    .replace("(text) =>", "(text: unknown) =>")
    .replace("process.env.MEMTRIAL_VALUES", "process.env.MEMTRIAL_VALUES ?? ''")
)
_GO = """package FILL_IN

import (
	"fmt"
	"os"
	"testing"
)

// hiddenShow hands a value over to the grader; values in key.json says what is right, and nothing here may.
func hiddenShow(t *testing.T, value interface{}) {
	t.Helper()
	file, err := os.OpenFile(os.Getenv("MEMTRIAL_VALUES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "%x %x\\n", t.Name(), fmt.Sprint(value)); err != nil {
		t.Fatal(err)
	}
}

func TestHiddenCapability(t *testing.T) { hiddenShow(t, "FILL IN: what the function gives") }
func TestHiddenMemory(t *testing.T)     { hiddenShow(t, "FILL IN: what the function gives") }
"""
_RUST = """// FILL IN: use the function that the prompt names.
use std::fs::OpenOptions;
use std::io::Write;

/// Hands a value over to the grader; `values` in key.json says what is right, and nothing here may.
fn show(test: &str, value: &str) {
    let hex = |text: &str| text.bytes().map(|b| format!("{:02x}", b)).collect::<String>();
    let path = std::env::var("MEMTRIAL_VALUES").unwrap();
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{} {}\\n", hex(test), hex(value)).as_bytes()).unwrap();
}

#[test]
fn hidden_capability() {
    show("hidden_capability", "FILL IN: what the function gives");
}

#[test]
fn hidden_memory() {
    show("hidden_memory", "FILL IN: what the function gives");
}
"""
HIDDEN_TEXT: Final = {
    "python": _PYTHON,
    "javascript": _JAVASCRIPT,
    "typescript": _TYPESCRIPT,
    "go": _GO,
    "rust": _RUST,
}
# The ids of the two tests, as the runner reports them; {} is the hidden file's path, module or name.
HIDDEN_IDS: Final = {
    "python": ("{}::test_hidden_capability", "{}::test_hidden_memory"),
    "javascript": ("{}::hidden capability", "{}::hidden memory"),
    "typescript": ("{}::hidden capability", "{}::hidden memory"),
    "go": (
        "FILL IN the module path::TestHiddenCapability",
        "FILL IN the module path::TestHiddenMemory",
    ),
    "rust": ("FILL IN the crate::{}::hidden_capability", "FILL IN the crate::{}::hidden_memory"),
}
