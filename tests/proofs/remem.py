"""Proof: every task of a public remem pack loads, and its own hidden tests fail before and pass after a reference.

    .venv/bin/python tests/proofs/remem.py PATH-TO-TASKS.JSON

Imports the pack, writes the reference below (ours) as each task's rehearsal patch, and plays no-op and
reference in containers. Prints one JSON document and writes it to results/proofs/remem-DATE.json.
"""

from __future__ import annotations

import difflib
import sys
import tempfile
from pathlib import Path

from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.clock import run_stamp
from orchestrator.core.files import write_atomic
from orchestrator.pipeline.authoring.imports import import_tasks
from orchestrator.pipeline.validate.run import stage_for
from orchestrator.sandbox.engine import connect
from orchestrator.scoring.patch import pattern_violations
from orchestrator.sources.loader import load_task

REFERENCE = {
    "memory_demo/tickets.py": """import re


def normalize_ticket_key(value):
    parts = re.split(r"[\\s_-]+", str(value).strip().lstrip("#").strip())
    if len(parts) == 1 and parts[0].isdigit():
        return f"MEM-{parts[0]}"
    return "-".join(parts).upper()
""",
    "memory_demo/retention.py": """DAYS = {"audit_log": 365, "ephemeral": 7, "disabled": 0}


def retention_days(policy_name):
    return DAYS.get(policy_name, 30)
""",
    "memory_demo/slug.py": """import re


def normalize_slug(value):
    slug = re.sub(r"[^a-z0-9]+", "-", str(value).lower()).strip("-")
    return slug[:32].strip("-") or "untitled"
""",
    "memory_demo/duration.py": """UNITS = (("ms", 1), ("s", 1000), ("m", 60000))


def parse_duration_ms(value):
    text = "" if value is None else str(value).strip()
    for suffix, factor in UNITS:
        if text.endswith(suffix):
            return int(float(text[: -len(suffix)]) * factor)
    return int(text or 0)
""",
    "memory_demo/api.py": """def current_api_endpoint():
    return "/api/v2"
""",
    "memory_demo/storage.py": """def default_storage_driver():
    return "sqlcipher"
""",
    "memory_demo/session.py": """def render_session_footer(title, budget_label):
    return f"{title}\\nBudget: {budget_label}" if budget_label.strip() else title
""",
    "memory_demo/markdown.py": """def render_markdown_cell(value):
    return str(value).replace("|", "\\\\|").replace("\\n", "<br>")
""",
    "memory_demo/workstream.py": """def canonical_workstream_title(title):
    text = "-".join(title.strip().lower().replace("_", " ").replace("-", " ").split())
    if text.startswith("current-memory-contracts"):
        return "current-memory-contracts"
    return title.strip().lower()


def next_workstream_status(current_status, latest_signal):
    return latest_signal.strip() or current_status
""",
    "memory_demo/routing.py": """OWNERS = {"retention-v2": "memory-runtime"}
PAGERS = {"memory-runtime": "pager-memory"}
CHANNELS = {("codex-plugin", "release"): "#remem-release", ("codex-plugin", "incident"): "#remem-incident"}


def feature_flag_pager(feature_name):
    return PAGERS.get(OWNERS.get(feature_name), "pager-platform")


def notification_channel(project, severity):
    return CHANNELS.get((project, severity), "#general")
""",
    "memory_demo/user_prefs.py": """def format_due_date(year, month, day):
    return f"{day:02d}/{month:02d}/{year:04d}"


def format_status_line(subject, state, detail):
    return f"{subject}: {state}"
""",
    "memory_demo/conflicts.py": """def choose_current_endpoint(candidates):
    live = [c for c in candidates if c.get("active") and not c.get("stale")]
    return max(live, key=lambda c: c["event_time"])["endpoint"] if live else None


def resolve_single_owner(candidates):
    named = set(c for c in candidates if c)
    return named.pop() if len(named) == 1 else None
""",
}


def patch_of(folder: Path, paths: tuple[str, ...]) -> str:
    """Returns the reference's change of some files, as a diff."""
    out = ""
    for path in paths:
        if path in REFERENCE:
            old = (folder / path).read_text(encoding="utf-8").splitlines(keepends=True)
            new = REFERENCE[path].splitlines(keepends=True)
            diff = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
            out += f"diff --git a/{path} b/{path}\n" + "".join(diff)
    return out


def main() -> int:
    """Imports, plays, prints."""
    client = connect()
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        pack = Path(name) / "pack"
        report = import_tasks("remem-pack", Path(sys.argv[1]), pack)
        for entry in report.tasks:
            if entry.refused:
                results.append({"id": entry.id, "refused": entry.refused[0]})
                continue
            task = load_task(pack, entry.id)
            folder = pack / "vendored" / "remem-inline"
            patch = patch_of(folder, task.brief.allowed_paths)
            (pack / "tasks" / entry.id / "rehearsal" / "reference.patch").write_text(patch)
            stage = stage_for(load_task(pack, entry.id), client, lambda _: None)
            before, after = stage.tallies(stage.play("")), stage.tallies(stage.play(patch))
            results.append(
                {
                    "id": entry.id,
                    "before": before[1].passed,
                    "after": after[1].passed,
                    "of": after[1].expected,
                    "base": [after[2].passed, after[2].expected],
                    "patterns": [v.rule for v in pattern_violations(patch.encode(), task.key)],
                    "ok": before[1].passed == 0
                    and after[1].passed == after[1].expected
                    and after[2].passed == after[2].expected
                    and not pattern_violations(patch.encode(), task.key),
                }
            )
            sys.stderr.write(f"{results[-1]}\n")
    good = sum(bool(r.get("ok")) for r in results)
    document = canonical_bytes({"tasks": results, "ok": good, "of": len(results)}) + b"\n"
    out = Path(__file__).resolve().parents[2] / "results" / "proofs" / f"remem-{run_stamp()}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, document)
    sys.stdout.write(document.decode())
    return 0 if good == len(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
