"""Reads JUnit XML of runners other than pytest: nested suites, each test with file, output and status.

No document type is accepted, so no entity can be declared. Read as a stream, no tree is kept; beyond a
bound or out of shape it gives nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from xml.etree import ElementTree

from orchestrator.scoring.suites.form import MAX_REPORT_BYTES, MAX_TESTS, Status

MAX_DEPTH = 64
MAX_ELEMENTS = 500_000
_PIECE_BYTES = 64 * 1024
_MARKUP = re.compile(rb"<!\s*(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_ENCODING = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([^\"']*)")
_CHILDREN: Final[dict[str, Status]] = {
    "failure": "fail",
    "error": "error",
    "skipped": "skip",
    "properties": "pass",
    "property": "pass",
    "system-out": "pass",
    "system-err": "pass",
}
_RANK: Final[dict[Status, int]] = {"pass": 0, "skip": 1, "fail": 2, "error": 3}


@dataclass(slots=True)
class Case:
    """One testcase element."""

    suites: tuple[str, ...]
    name: str
    classname: str
    file: str
    status: Status = "pass"
    output: str = ""


class _ShapeError(ValueError):
    """The report has a shape that no runner writes."""


@dataclass(slots=True)
class _Collector:
    cases: list[Case] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    suites: list[str] = field(default_factory=list)
    elements: int = 0
    case: Case | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.elements += 1
        depth = len(self.open)
        if (
            self.elements > MAX_ELEMENTS
            or depth >= MAX_DEPTH
            or (depth == 0) != (tag == "testsuites")
        ):
            raise _ShapeError(tag)
        self.open.append(tag)
        if self.case is not None:
            status = _CHILDREN.get(tag, "error")
            self.case.status = max(self.case.status, status, key=_RANK.__getitem__)
        elif tag == "testsuite":
            self.suites.append(attributes.get("name", ""))
        elif tag == "testcase":
            self.case = Case(
                suites=tuple(self.suites),
                name=attributes.get("name", ""),
                classname=attributes.get("classname", ""),
                file=attributes.get("file", ""),
            )
        elif depth > 0 and tag not in _CHILDREN:
            raise _ShapeError(tag)

    def data(self, text: str) -> None:
        if self.case is not None and self.open[-1] == "system-out":
            self.case.output += text

    def end(self, tag: str) -> None:
        self.open.pop()
        if tag == "testcase" and self.case is not None:
            self.cases.append(self.case)
            self.case = None
            if len(self.cases) > MAX_TESTS:
                raise _ShapeError(tag)
        elif tag == "testsuite" and self.case is None:
            self.suites.pop()

    def close(self) -> None:
        """Ends the document."""


def parse_cases(data: bytes | None) -> list[Case]:
    """Returns all testcases in order; none if the report is not plain JUnit XML in UTF-8."""
    if not data or len(data) > MAX_REPORT_BYTES or b"\0" in data or _MARKUP.search(data):
        return []
    encoding = _ENCODING.search(data[:400])
    if encoding is not None and encoding[1].lower() not in {b"utf-8", b"us-ascii"}:
        return []
    collector = _Collector()
    parser = ElementTree.XMLParser(target=collector)  # noqa: S314 - no document type gets here
    try:
        for start in range(0, len(data), _PIECE_BYTES):
            parser.feed(data[start : start + _PIECE_BYTES])
        parser.close()
    except (ElementTree.ParseError, ValueError, LookupError):
        return []
    return collector.cases
