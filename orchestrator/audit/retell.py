"""What a bundle says in words and tables, made again: report, records, proofs, VERIFY.md and verify.sh.

Figures must follow from the record under every program, in words as in tables, and what a run does not show
must stand there as this program says it. All other words are the sealing program's: another one says so.
"""

from __future__ import annotations

import re
from collections import Counter

from orchestrator.attest import layout
from orchestrator.attest.program import program_sha256
from orchestrator.audit.names import strange_names, told_names
from orchestrator.audit.opening import Opened
from orchestrator.audit.recheck import Found
from orchestrator.audit.wording import figures, told_lines, untold, worded, wordless
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError, Negative
from orchestrator.gateway.accounts import Accounts
from orchestrator.ledger.blobs import BlobWithheld
from orchestrator.model.report import RunReport, report_bytes
from orchestrator.pipeline.dossier import Composition, Dossier
from orchestrator.report.build import report_of
from orchestrator.report.terminal import render_report

_DIGEST = re.compile(rb"[0-9a-fA-F]{16,}")


def check_report(opened: Opened, dossier: Dossier, accounts: Accounts | None) -> Found:
    """Builds report.json and report.txt again and compares them byte for byte."""
    try:
        report = report_of(
            dossier.plan, dossier.run, dossier.content.head_sha256, opened.files, accounts
        )
    except BlobWithheld:
        return Found(0, "not rebuilt: verdicts or injections are withheld", whole=False)
    rebuilt = {
        layout.REPORT: report.canonical() + b"\n",
        layout.REPORT_TEXT: render_report(report).encode(),
    }
    others = [name for name, data in rebuilt.items() if opened.files.read(name) != data]
    if not others:
        return Found(len(rebuilt), "rebuilt to the byte")
    made_by = _other_program(opened)
    if made_by:
        _check_told(opened, report)
        return Found(
            len(rebuilt) - len(others),
            f"every figure in {' and '.join(others)} follows, and every limitation stands there; all other words of theirs are those of {made_by}, by digest alone",
            whole=False,
        )
    raise _report_differs(
        others[0],
        f"the bytes that the record gives, SHA-256 {sha256_hex(rebuilt[others[0]])[:16]}",
        "it was made by this very program",
    )


def _check_told(opened: Opened, report: RunReport) -> None:
    """Compares a report that another program worded with the one that the record gives, but for its words.

    Raises:
        Negative: a figure that does not follow, or a limitation that is not told.
    """
    hint = f"the report does not follow from the record; it was made by {_other_program(opened)}"
    data, bound = opened.files.read(layout.REPORT), report_bytes(len(report.trials))
    said = RunReport.parse(data, where=layout.REPORT, max_bytes=bound)
    if wordless(said) != wordless(report):
        raise _report_differs(layout.REPORT, "the figures that the record gives", hint)
    missing = [text for text in report.limitations if text not in said.limitations]
    if missing:
        raise _report_differs(layout.REPORT, f"the limitation {missing[0]!r}", hint)
    text = opened.files.read(layout.REPORT_TEXT).decode("utf-8", "replace")
    known = Counter(figures(render_report(report)))
    for place, words, ours in worded(said, report):
        if Counter(figures(words)) - (known if ours is None else Counter(figures(ours))):
            raise _report_differs(place, "no figure in words that the record does not give", hint)
    if told_lines(text, report) != told_lines(render_report(said), report):
        expected = "the names and figures of report.json, line by line and under its headings"
        raise _report_differs(layout.REPORT_TEXT, expected, hint)
    if missing := untold(text, report):
        raise _report_differs(layout.REPORT_TEXT, f"the limitation {missing[0]!r}", hint)


def _report_differs(name: str, expected: str, hint: str) -> Negative:
    return Negative(
        "report-differs",
        f"{name}: expected {expected}, found others",
        hint=hint,
    )


def _other_program(opened: Opened) -> str | None:
    """Returns the name of the program that sealed, if it is not this one."""
    if opened.card.program_sha256 == program_sha256():
        return None
    return f"memtrial {opened.card.memtrial_version} with source {opened.card.program_sha256[:16]}"


def _names_as(opened: Opened, name: str, data: bytes) -> bool:
    """Whether a handout names no key, root or digest but those that ours names."""
    return not set(_DIGEST.findall(opened.files.read(name))) - set(_DIGEST.findall(data))


def check_handouts(opened: Opened, composed: Composition) -> Found:
    """Compares records, proofs, VERIFY.md and verify.sh with the ones that the record gives."""
    made_by = _other_program(opened)
    worded = []
    for name, data in composed.plain.items():
        if opened.files.read(name) == data:
            continue
        if made_by and name in (layout.GUIDE, layout.SCRIPT) and _names_as(opened, name, data):
            worded.append(name)
            continue
        raise IntegrityError(
            "handout-differs",
            f"{name}: expected the bytes that the record gives, found others",
            hint=f"it was changed before sealing, or made by another memtrial than {opened.card.memtrial_version}",
        )
    strange = strange_names(opened.files.names(), composed)
    told = [told_names(strange)] if strange else []
    told += [f"{', '.join(worded)} by digest alone, made by {made_by}"] if worded else []
    return Found(len(composed.plain) - len(worded), "; ".join(told), whole=not told)
