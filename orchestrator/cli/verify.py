"""Verifies a run's evidence offline: signatures, record, plan, verdicts, statements, report.

PATH is a run id, a folder or an archive of `memtrial export`. Without --keyid or --root, from outside the
bundle, the answer can only be `self-consistent, not authenticated`. Exit 0 yes, 1 a check says no, 6 the
bytes are not the recorded ones. Writes nothing.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import render
from orchestrator.core.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.audit.trust import Trust
    from orchestrator.model.verification import Verification

_BUNDLE = ("bundle.json", "ledger.jsonl")
_MARKS = {
    "ok": "ok     ",
    "failed": "NO     ",
    "partly": "partly ",
    "not_checked": "left   ",
    "not_run": "not run",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "path", metavar="PATH", nargs="?", default="latest", help="run id, folder, or archive"
    )
    parser.add_argument(
        "--keyid", metavar="SHA256", help="key id that the publisher printed outside the bundle"
    )
    parser.add_argument(
        "--root",
        type=Path,
        metavar="FILE",
        help="trusted keys with their times (trusted-keys.json)",
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a checkpoint that you kept: shows records that were cut or replaced (repeatable)",
    )
    parser.add_argument(
        "--allow-withheld",
        action="store_true",
        help="this is a public copy that leaves files out: verify the rest, and say so",
    )
    parser.add_argument(
        "--approver",
        action="append",
        default=[],
        metavar="SHA256",
        help="key id of someone who may approve a live run, from outside the bundle (repeatable)",
    )
    parser.add_argument(
        "--sigstore-identity",
        nargs=2,
        metavar=("IDENTITY", "ISSUER"),
        help="whose certificates sigstore bundles of the public instance must bear",
    )


def trust_from(arguments: argparse.Namespace) -> Trust:
    """Turns the options into what the verifier trusts."""
    import re

    from orchestrator.audit.trust import Trust
    from orchestrator.core.clock import utc_now_text
    from orchestrator.model.bundle import TrustedKeys

    keyid = arguments.keyid.lower() if arguments.keyid is not None else None
    approvers = [keyid.lower() for keyid in arguments.approver]
    for option, given in (("--keyid", keyid), *(("--approver", found) for found in approvers)):
        if given is not None and not re.fullmatch(r"[0-9a-f]{64}", given):
            raise UsageError(
                "keyid-malformed",
                f"expected 64 hexadecimal digits as {option}, found {given!r}",
                hint="copy the whole key id: `openssl pkey -pubin -in KEY -outform DER | sha256sum`",
            )
    keys = None
    if arguments.root is not None:
        keys = TrustedKeys.parse(_read(arguments.root), where=arguments.root.name)
    remembered = tuple((path.name, _read(path)) for path in arguments.checkpoint)
    return Trust(
        now=utc_now_text(),
        keyid=keyid,
        keys=keys,
        remembered=remembered,
        allow_withheld=arguments.allow_withheld,
        sigstore_identity=tuple(arguments.sigstore_identity)
        if arguments.sigstore_identity
        else None,
        approvers=frozenset(approvers),
    )


def given_words(arguments: argparse.Namespace, *, authenticated: bool = True) -> str:
    """Returns the options that were given, as they are typed, so that a next command answers as this one did.

    Args:
        arguments: of the verb.
        authenticated: whether a key was given; if not, the next command asks for one.
    """
    words: list[str] = []
    if arguments.keyid is not None:
        words += ["--keyid", arguments.keyid]
    if arguments.root is not None:
        words += ["--root", str(arguments.root)]
    words += [] if authenticated else ["--keyid", "KEYID"]
    for path in arguments.checkpoint:
        words += ["--checkpoint", str(path)]
    words += ["--allow-withheld"] if arguments.allow_withheld else []
    for keyid in arguments.approver:
        words += ["--approver", keyid]
    if arguments.sigstore_identity:
        words += ["--sigstore-identity", *arguments.sigstore_identity]
    return shlex.join(words)


def following(verb: str, path: Path | str, options: str) -> str:
    """Returns a command over a bundle with the options that were given."""
    return " ".join(filter(None, (f"memtrial {verb} {shlex.quote(str(path))}", options)))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            "file-missing",
            f"expected a file at {path}, found {error.strerror}",
            hint="check the path",
        ) from error


def bundle_path(name: str) -> Path:
    """Returns a bundle's folder or archive: the path as given if one lies there, else the run of that id.

    Raises:
        UsageError: there is neither.
    """
    from orchestrator.core.places import results_root
    from orchestrator.pipeline.find import find_run

    given, inside = Path(name), results_root() / name
    for path in (given, inside):
        if path.is_file() or any((path / part).is_file() for part in _BUNDLE):
            return path
    return given if given.is_dir() else find_run(results_root(), name)


def run(arguments: argparse.Namespace) -> int:
    """Verifies and prints every check."""
    from orchestrator.audit.verify import verify_bundle
    from orchestrator.audit.view import open_view

    trust = trust_from(arguments)
    path = bundle_path(arguments.path)
    view, archive = open_view(path)
    try:
        answer = verify_bundle(view, trust, name=path.resolve().name)
    finally:
        if archive is not None:
            archive.close()
    if arguments.json:
        render.document(answer.model_dump(mode="json"))
    else:
        render.text(told(answer, path, given_words(arguments, authenticated=trust.authenticates)))
    return answer.exit_code


def _counted(answer: Verification, name: str) -> int:
    return next((check.count for check in answer.checks if check.name == name), 0)


def told(answer: Verification, path: Path, options: str) -> str:
    """Returns the answer as text; its last line names the next command, with the options that were given."""
    lines = []
    for check in answer.checks:
        lines.append(
            f"{check.number:>2} {_MARKS[check.status]} {check.name:<17} {check.count:>6}  {check.detail}".rstrip()
        )
        if check.status == "failed":
            lines.append(f"{'':>30} ({check.reference}) {check.hint}")
    lines += [f"   withheld {name}" for name in answer.withheld]
    standing = {
        "authentic": f"AUTHENTIC: sealed {answer.sealed_at} by key {answer.keyid} ({answer.key_label}), and everything checked follows from the record",
        "authentic_in_part": f"AUTHENTIC IN PART: sealed {answer.sealed_at} by key {answer.keyid} ({answer.key_label}); {len(answer.withheld)} files are withheld by a list that bears no signature, {_counted(answer, 'verdicts')} verdicts were recomputed",
        "self_consistent": f"self-consistent, not authenticated: it names key {answer.keyid}, but no --keyid or --root said that this is the publisher's",
        "refused": f"NO: {len(answer.failed)} checks failed",
    }
    lines.append(f"result: {standing[answer.standing]}")
    after = {
        "authentic": following("audit", path, options),
        "authentic_in_part": f"{following('audit', path, options)}, or ask the publisher for what is withheld",
        "self_consistent": following("verify", path, options),
        "refused": "get the bundle again from its source, or ask its publisher",
    }
    lines.append(f"next: {after[answer.standing]}")
    return "\n".join(lines)
