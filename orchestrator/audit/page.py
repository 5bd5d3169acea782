"""One static HTML page for a security reviewer: anomalies first, then the chain of custody, then every check.

Self-contained: no script, no request, no style from elsewhere. Every value from a bundle is escaped; the
page is made from a verification and the same bundle, and is never part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from orchestrator.attest import layout
from orchestrator.audit.anomalies import anomalies
from orchestrator.audit.opening import Opened
from orchestrator.audit.whatis import described_files
from orchestrator.core.words import counted
from orchestrator.model.verification import CheckResult, Standing, Verification
from orchestrator.pipeline.dossier import Dossier

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid #d0d7de;padding-bottom:.2rem}
code,pre{font:13px/1.45 ui-monospace,monospace;background:#f3f5f7;border-radius:4px}code{padding:.05rem .3rem;overflow-wrap:anywhere}
pre{padding:.8rem;overflow-x:auto}table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #e4e8ec}
td.n{text-align:right}.ok{color:#116329}.no{color:#a40e26;font-weight:600}.part{color:#7a4b00}.verdict{padding:.8rem 1rem;border-left:.4rem solid;background:#f6f8fa}
@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}code,pre,.verdict{background:#161b22}th,td{border-color:#30363d}.ok{color:#56d364}.no{color:#ff7b72}.part{color:#e3b341}}
"""
_CLASS = {"ok": "ok", "failed": "no", "partly": "part", "not_checked": "part", "not_run": "no"}
_WORD = {
    "ok": "ok",
    "failed": "NO",
    "partly": "partly",
    "not_checked": "not checked",
    "not_run": "not run",
}


# What shows a check by other means than memtrial. KEYID is the key's; all others are asked of memtrial.
_COMMANDS = {
    "plain files": "find . ! -type f ! -type d",
    "signer": "openssl pkey -pubin -in keys/ledger.pub.pem -outform DER | sha256sum",
    "seal": "sh verify.sh KEYID",
    "contents": "sha256sum -c SHA256SUMS",
    "ledger": 'while read -r line; do printf %s "$line" | sha256sum; done < ledger.jsonl; grep -o \'"prev_sha256":"[0-9a-f]*"\' ledger.jsonl',
    "checkpoint": "cat checkpoint && sh verify.sh KEYID",
    "witness": "memtrial verify . --keyid KEYID --checkpoint FILE",
    "blobs": "find blobs -name '*.gz' -exec sh -c 'for f; do gzip -dc \"$f\" | sha256sum; echo \"$f\"; done' sh {} +",
    "statements": 'sed -n \'s/.*"payload":"\\([^"]*\\)".*/\\1/p\' attestations/run.intoto.jsonl | base64 -d',
    "approval": "memtrial verify . --keyid KEYID --approver KEYID-OF-AN-APPROVER",
    "sigstore": "memtrial verify . --keyid KEYID --sigstore-identity IDENTITY ISSUER",
}


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the chain of custody."""

    what: str
    said: str
    sha256: str
    signer: str
    command: str


def render_page(answer: Verification, opened: Opened | None, dossier: Dossier | None) -> str:
    """Returns the page."""
    title = f"Audit of {answer.run_id or answer.bundle}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        _standing(answer),
        "<h2>Anomalies, and what was left unchecked</h2>",
        _anomalies(answer, dossier),
    ]
    if opened is not None and dossier is not None:
        parts += [
            "<h2>Chain of custody, from approval to claim</h2>",
            _chain(custody(opened, dossier, answer)),
            "<h2>Trials</h2>",
            _trials(dossier),
        ]
    parts += [
        "<h2>Every check</h2>",
        _checks(answer),
        "<h2>Check it yourself</h2>",
        _yourself(answer),
    ]
    if opened is not None:
        parts += ["<h2>Every file</h2>", _files(opened, dossier)]
    return "\n".join([*parts, "</body></html>", ""])


def command_of(check: str, answer: Verification) -> str:
    """Returns a command that shows a check; for what only memtrial recomputes, the one that asks it."""
    command = _COMMANDS.get(check, "memtrial verify . --keyid KEYID")
    if answer.withheld and command.startswith("memtrial verify"):
        command += " --allow-withheld"
    return re.sub(r"KEYID(?!-)", answer.keyid or "KEYID", command)


def custody(opened: Opened, dossier: Dossier, answer: Verification) -> tuple[Link, ...]:
    """Returns the links from approval to claim, each with its digest, signer and command, and what its check said."""
    keyid, plan, checkpoint = opened.key.keyid, dossier.plan, dossier.checkpoint()
    key = keyid[:16]
    plan_sha256 = plan.digest_sha256()
    begun = f"run {dossier.run_id} began with this plan"
    size = checkpoint.size
    return (
        _approval(opened, dossier),
        Link(
            "plan",
            f"{len(plan.trials)} trials, phase {plan.phase}, source {plan.source_revision}",
            plan_sha256,
            key,
            "sha256sum plan.json",
        ),
        Link("dispatch", begun, plan_sha256, key, "head -1 ledger.jsonl"),
        _link(opened, "record", f"{size} records, each with the digest of the last", layout.LEDGER),
        Link(
            "checkpoint",
            f"root over {size} records",
            checkpoint.root.hex(),
            key,
            f"sh verify.sh {keyid}",
        ),
        _link(opened, "statements", _found(answer, "statements"), layout.SUMMARY),
        _link(opened, "report", _found(answer, "report"), layout.REPORT),
        _link(opened, "claims", _found(answer, "claims"), layout.CLAIMS),
    )


def _found(answer: Verification, name: str) -> str:
    """Returns what a check of that name came to, in its own words."""
    check = next(check for check in answer.checks if check.name == name)
    return f"{_WORD[check.status]}, {check.count} checked" + (
        f": {check.detail}" if check.detail else ""
    )


def _approval(opened: Opened, dossier: Dossier) -> Link:
    """Returns the link of the approval, which its approvers signed; the seal's key only covers its bytes."""
    phase, entry = f"phase {dossier.plan.phase}", dossier.run.approved
    if not opened.files.has(layout.APPROVAL) or entry is None:
        return _link(opened, "approval", phase, layout.APPROVAL)
    known = " ".join(f"--approver {keyid}" for keyid in entry.signers)
    return Link(
        "approval",
        f"{phase}: {entry.approval_id}, {entry.standing}, at most {entry.max_usd_micros} micro-USD",
        opened.files.digest(layout.APPROVAL),
        "by the ledger: " + ", ".join(keyid[:16] for keyid in entry.signers),
        f"memtrial verify . --keyid {opened.key.keyid} {known}",
    )


def _link(opened: Opened, what: str, said: str, name: str) -> Link:
    """Returns the link of a file, which the seal covers; a file that is not there is said."""
    if not opened.files.has(name):
        return Link(what, f"{said}: none", "", "nobody", "")
    signer = opened.key.keyid[:16]
    return Link(what, said, opened.files.digest(name), signer, f"sha256sum {name}")


def _standing(answer: Verification) -> str:
    text: dict[Standing, tuple[str, str]] = {
        "authentic": ("ok", "Authentic: the key given from outside signed this bundle."),
        "authentic_in_part": (
            "part",
            f"Authentic in part: the key given from outside signed this bundle; withheld by a list without a signature: {counted(len(answer.withheld), 'file')}.",
        ),
        "self_consistent": (
            "part",
            "Self-consistent, not authenticated: no key from outside was given.",
        ),
        "refused": ("no", f"Refused: {counted(len(answer.failed), 'check')} said no."),
    }
    css, words = text[answer.standing]
    key = (
        f"key <code>{escape(answer.keyid)}</code> ({escape(answer.key_label or '')}), sealed {escape(answer.sealed_at or '')}"
        if answer.keyid
        else "signer unknown"
    )
    return f'<p class="verdict {css}">{escape(words)}<br>{key}</p>'


def _anomalies(answer: Verification, dossier: Dossier | None) -> str:
    rows = [
        (
            f'<span class="{_CLASS[check.status]}">{_WORD[check.status]}</span>',
            escape(check.name),
            escape(check.detail) + (f"<br>next: {escape(check.hint)}" if check.hint else ""),
        )
        for check in sorted(answer.checks, key=_gravity)
        if check.status != "ok"
    ]
    rows += [
        (escape(kind), f"<code>{escape(subject)}</code>", escape(said))
        for kind, subject, said in (anomalies(dossier) if dossier is not None else ())
    ]
    rows += [
        ("withheld", f"<code>{escape(name)}</code>", "left out of this copy")
        for name in answer.withheld
    ]
    return (
        _table(("", "check or subject", "what"), rows)
        if rows
        else "<p>None: every check ran and said yes, and every trial ended in its first attempt.</p>"
    )


def _gravity(check: CheckResult) -> int:
    return ("failed", "not_run", "partly", "not_checked", "ok").index(check.status)


def _chain(links: Iterable[Link]) -> str:
    rows = [
        (
            escape(link.what),
            escape(link.said),
            f"<code>{escape(link.sha256)}</code>" if link.sha256 else "",
            f"<code>{escape(link.signer)}</code>",
            f"<code>{escape(link.command)}</code>" if link.command else "",
        )
        for link in links
    ]
    return _table(("link", "what it says", "SHA-256", "signed by", "command"), rows)


def _trials(dossier: Dossier) -> str:
    rows = []
    for trial in dossier.plan.trials:
        record = dossier.run.trial(trial.key)
        ended = record.graded.ended if record.graded else None
        rows.append(
            (
                str(trial.seq),
                escape(trial.key),
                str(len(record.attempts)),
                f"<code>{escape(ended.verdict_sha256 or '')}</code>" if ended else "no verdict",
                f"<code>sed -n 1p {layout.attestation_name(trial.seq)}</code>",
            )
        )
    return _table(("", "trial", "attempts", "verdict SHA-256", "statements"), rows)


def _checks(answer: Verification) -> str:
    rows = [
        (
            str(check.number),
            escape(check.name),
            f'<span class="{_CLASS[check.status]}">{_WORD[check.status]}</span>',
            str(check.count),
            escape(check.detail),
            f"<code>{escape(command_of(check.name, answer))}</code>",
        )
        for check in answer.checks
    ]
    where = "<p>Commands are for the bundle's own folder; unpack an archive with <code>tar -xf</code> first. Where only memtrial recomputes a check, its answer is the line of that number.</p>"
    return where + _table(("", "check", "answer", "how many", "remark", "command"), rows)


def _yourself(answer: Verification) -> str:
    keyid = answer.keyid or "KEYID"
    more = " --allow-withheld" if answer.withheld else ""
    return (
        "<p>The key id must come from its publisher, not from this page or the bundle.</p>"
        f"<pre>memtrial verify {escape(answer.bundle)} --keyid {escape(keyid)}{more}\n"
        f"sh verify.sh {escape(keyid)}        # openssl, sha256sum and base64 alone</pre>"
    )


def _files(opened: Opened, dossier: Dossier | None) -> str:
    rows = [
        (f"<code>{escape(name)}</code>", escape(said), f"<code>{escape(sha256)}</code>")
        for name, sha256, said in described_files(opened, dossier)
    ]
    note = "<p>The name of a blob is the digest of what it holds: <code>memtrial export --public --withhold DIGEST</code> leaves it out of a copy.</p>"
    return note + _table(("file", "what it is", "SHA-256 of the file"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
