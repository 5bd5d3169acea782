"""What a bundle says in words and tables, made again: report, records, proofs, VERIFY.md and verify.sh.

Figures must follow from the record under every program. Words are the sealing program's: another one compares
the figures alone and says so.
"""

from __future__ import annotations

from orchestrator.attest import layout
from orchestrator.attest.program import program_sha256
from orchestrator.audit.names import strange_names, told_names
from orchestrator.audit.opening import Opened
from orchestrator.audit.recheck import Found
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError, Negative
from orchestrator.gateway.accounts import Accounts
from orchestrator.ledger.blobs import BlobWithheld
from orchestrator.model.report import RunReport
from orchestrator.pipeline.dossier import Composition, Dossier
from orchestrator.report.build import report_of
from orchestrator.report.terminal import render_report


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
    if made_by and _figures(opened.files.read(layout.REPORT)) == _figures(rebuilt[layout.REPORT]):
        return Found(
            1,
            f"every figure rebuilt; the words of {', '.join(others)} are those of {made_by}",
            whole=False,
        )
    raise Negative(
        "report-differs",
        f"{others[0]}: expected the bytes that the record gives, SHA-256 {sha256_hex(rebuilt[others[0]])[:16]}, found others",
        hint=f"the report does not follow from the record; it was made by {made_by or 'this very program'}",
    )


def _other_program(opened: Opened) -> str | None:
    """Returns the name of the program that sealed, if it is not this one."""
    if opened.card.program_sha256 == program_sha256():
        return None
    return f"memtrial {opened.card.memtrial_version} with source {opened.card.program_sha256[:16]}"


def _figures(data: bytes) -> bytes:
    """Returns a report without the sentences that a program chooses."""
    report = RunReport.parse(data, where=layout.REPORT)
    trials = tuple(trial.model_copy(update={"why": ""}) for trial in report.trials)
    blocks = tuple(
        block.model_copy(update={"because": ("",) * len(block.because)})
        for block in report.inadmissible_blocks
    )
    wordless = {"trials": trials, "inadmissible_blocks": blocks, "limitations": ()}
    return report.model_copy(update=wordless).canonical()


def check_handouts(opened: Opened, composed: Composition) -> Found:
    """Compares records, proofs, VERIFY.md and verify.sh with the ones that the record gives."""
    made_by = _other_program(opened)
    worded = []
    for name, data in composed.plain.items():
        if opened.files.read(name) == data:
            continue
        if made_by and name in (layout.GUIDE, layout.SCRIPT):
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
