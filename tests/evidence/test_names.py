"""Promise: each file of a bundle is one that memtrial writes, or is told by its name."""

from __future__ import annotations

from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import MemoryView
from tests.evidence.tamper import Files, reseal_list


def handouts(sealed, more: Files):
    files = reseal_list({**sealed.files, **more}, sealed.key)
    answer = verify_bundle(MemoryView(files), sealed.trust, name="x")
    return answer, next(check for check in answer.checks if check.name == "handouts")


def test_a_bundle_as_it_was_sealed_has_no_strange_file(tiny, chatting):
    for sealed in (tiny, chatting):
        answer, check = handouts(sealed, {})
        assert (answer.exit_code, check.status, check.detail) == (0, "ok", "")


def test_files_that_memtrial_did_not_write_are_told_by_name(tiny):
    more = {
        "report.html": b"<h1>resolved 100%</h1>",
        "evil.sh": b"rm",
        "notes/today.md": b"",
        "gate-report.json": b"{}",
    }
    answer, check = handouts(tiny, more)
    assert answer.exit_code == 0
    assert check.status == "partly"
    assert check.detail == (
        "not of memtrial, by digest alone: evil.sh, gate-report.json, notes/today.md, report.html"
    )
    _, many = handouts(tiny, {f"note-{n}.md": b"" for n in range(8)})
    assert many.detail.endswith("note-4.md and 3 more")
