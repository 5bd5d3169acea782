"""Reads pytest's JUnit XML from an untrusted container.

No document type is accepted, so no entity can be declared and the standard parser is safe here. The
report is read as a stream, no tree is built. Whatever pytest would not have written yields no tests: a
candidate can spoil its own report, never the grader.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal
from xml.etree import ElementTree

from orchestrator.model.verdict import TestStatus

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 16
MAX_TESTS = 100_000
MAX_ID_CHARS = 4_000
MAX_ELEMENTS = 500_000
_PIECE_BYTES = 64 * 1024
_MARKUP = re.compile(rb"<!\s*(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_ENCODING = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([^\"']*)")
_SUITE: Final = ["testsuites", "testsuite"]
_FIGURES: Final = ("tests", "failures", "errors", "skipped")
Status = Literal["pass", "skip", "fail", "error"]
_RANK: dict[Status, int] = {"pass": 0, "skip": 1, "fail": 2, "error": 3}
# What pytest writes below a testcase and what it says; anything else there is an error.
_CHILDREN: dict[str, Status] = {
    "failure": "fail",
    "skipped": "skip",
    "properties": "pass",
    "system-out": "pass",
    "system-err": "pass",
}


class _NotPytestError(ValueError):
    """The report has a shape that pytest never writes."""


class _Collector:
    """Parser target: keeps the tests of `testsuites/testsuite/testcase` and nothing else."""

    def __init__(self) -> None:
        self.merged: dict[str, tuple[Status, int]] = {}
        self._open: list[str] = []
        self._suites = 0
        self._elements = 0
        self._name = ""
        self._status: Status = "pass"
        self._claimed: dict[str, str] = {}
        self._counted = dict.fromkeys(("testcase", "failure", "error", "skipped"), 0)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Notes an opened element."""
        depth = len(self._open)
        self._elements += 1
        if self._elements > MAX_ELEMENTS or depth >= MAX_DEPTH:
            raise _NotPytestError(tag)
        if depth < len(_SUITE) and tag != _SUITE[depth]:
            raise _NotPytestError(tag)
        if depth == 1:
            self._suites += 1
            self._claimed = attributes
        if (tag == "testcase") != (depth == 2 and tag != "properties") or self._suites > 1:
            raise _NotPytestError(tag)
        if tag in self._counted and depth in {2, 3}:
            self._counted[tag] += 1
        if depth == 2:
            self._name = normal_id(attributes.get("classname", ""), attributes.get("name", ""))
            self._status = "pass"
        elif depth == 3 and self._open[2] == "testcase":
            self._status = _worse(self._status, _CHILDREN.get(tag, "error"))
        self._open.append(tag)

    def end(self, tag: str) -> None:
        """Merges a closed testcase into what is known of its id."""
        self._open.pop()
        if tag == "testcase":
            status, n = self.merged.get(self._name, ("pass", 0))
            self.merged[self._name] = (_worse(status, self._status), n + 1)
            if len(self.merged) > MAX_TESTS or len(self._name) > MAX_ID_CHARS:
                raise _NotPytestError(tag)

    def close(self) -> None:
        """Ends the document; the suite's own figures must be those of its elements.

        pytest writes a test that fails and then cannot be torn down as two elements, but one of `tests`.
        """
        claimed = {name: self._claimed.get(name, "") for name in _FIGURES}
        if not all(re.fullmatch(r"[0-9]{1,9}", value) for value in claimed.values()):
            raise _NotPytestError("testsuite")
        tests, failures, errors, skipped = (int(claimed[name]) for name in _FIGURES)
        found = self._counted
        if (failures, errors, skipped) != (found["failure"], found["error"], found["skipped"]):
            raise _NotPytestError("testsuite")
        if not tests <= found["testcase"] <= tests + errors:
            raise _NotPytestError("testsuite")


def parse_junit(data: bytes) -> tuple[TestStatus, ...]:
    """Returns the normalised tests, sorted by id; equal ids are merged and the worst status wins."""
    # Other encodings than UTF-8 could hide a document type from the check.
    if len(data) > MAX_BYTES or b"\0" in data or _MARKUP.search(data) or not _says_utf8(data):
        return ()
    collector = _Collector()
    parser = ElementTree.XMLParser(target=collector)  # noqa: S314 - no document type gets here
    try:
        # A refusal only ends the parser between two pieces, so the pieces are small.
        for start in range(0, len(data), _PIECE_BYTES):
            parser.feed(data[start : start + _PIECE_BYTES])
        parser.close()
    except (ElementTree.ParseError, ValueError, LookupError):
        return ()
    return tuple(
        TestStatus(id=name, status=status, n=n)
        for name, (status, n) in sorted(collector.merged.items())
    )


def normal_id(classname: str, name: str) -> str:
    """Returns `classname::name` in NFC, stripped, with runs of white space made one space."""
    return " ".join(unicodedata.normalize("NFC", f"{classname.strip()}::{name.strip()}").split())


def _says_utf8(data: bytes) -> bool:
    found = _ENCODING.search(data[:400])
    return found is None or found[1].lower() in {b"utf-8", b"us-ascii"}


def _worse(one: Status, other: Status) -> Status:
    return max(one, other, key=_RANK.__getitem__)
