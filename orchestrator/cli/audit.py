"""Writes one static HTML page for a security reviewer: anomalies first, chain of custody, every check.

The page is no part of the bundle. Exit as `memtrial verify`: the page is written whatever the answer is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import render, verify
from orchestrator.cli.command import shown_path
from orchestrator.core.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    verify.configure(parser)
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="default: audit-RUN.html beside the run"
    )


def run(arguments: argparse.Namespace) -> int:
    """Verifies and writes the page."""
    from orchestrator.audit.page import render_page
    from orchestrator.audit.verify import examine
    from orchestrator.audit.view import open_view
    from orchestrator.core.files import write_atomic

    trust = verify.trust_from(arguments)
    path = verify.bundle_path(arguments.path).resolve()
    out = arguments.out or path.parent / f"audit-{path.name}.html"
    if out.resolve().is_relative_to(path):
        raise UsageError(
            "out-inside-bundle",
            f"expected a page outside the bundle, found {out}",
            hint="choose another --out; a new file would break the seal",
        )
    view, archive = open_view(path)
    try:
        examined = examine(view, trust, name=path.name)
        page = render_page(examined.answer, examined.opened, examined.dossier)
    finally:
        if archive is not None:
            archive.close()
    write_atomic(out, page.encode())
    answer = examined.answer
    if arguments.json:
        render.document({"page": str(out), **answer.model_dump(mode="json")})
    else:
        render.text(f"{answer.standing.replace('_', ' ')}: {len(answer.failed)} checks said no")
        render.text(f"page: {shown_path(out)}")
        options = verify.given_words(arguments, authenticated=trust.authenticates)
        render.text(f"next: {verify.following('verify', arguments.path, options)}")
    return answer.exit_code
