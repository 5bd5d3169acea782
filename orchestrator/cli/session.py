"""What `run`, `resume`, `report` and `smoke` share: working trials off, writing the report,
saying where it is."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrator.cli import render
from orchestrator.cli.command import shown_path
from orchestrator.cli.live import Progress
from orchestrator.core.errors import (
    ApprovalRefused,
    BudgetExhausted,
    Incomplete,
    Negative,
    UsageError,
)
from orchestrator.core.words import counted
from orchestrator.model.report import RunReport
from orchestrator.pipeline.options import PlanRequest

if TYPE_CHECKING:
    from orchestrator.pipeline.seal import SealOutcome
    from orchestrator.pipeline.watch import Watch


Unexpected = Callable[[RunReport], list[str]]


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Adds the one option of everything that works trials off."""
    parser.add_argument(
        "--workers",
        type=int,
        default=0,
        metavar="N",
        help="trials at a time (default, and 0: one per core); fewer where memory does not allow it",
    )


def work(
    do: Callable[[Watch, int], Path], arguments: argparse.Namespace, *, named: str | None = None
) -> RunReport:
    """Works trials off under the eyes of a progress display, then prints the report.

    Args:
        do: gets the display and the number of workers, and returns the run's folder.
        arguments: with `workers` and `json`.
        named: how the user named the run, if so.

    Raises:
        UsageError: a negative number of workers.
        Incomplete: trials without a verdict are left.
    """
    if arguments.workers < 0:
        raise UsageError(
            "workers-negative",
            f"expected --workers of 0 or more, found {arguments.workers}",
            hint="leave --workers out for one per core",
        )
    with Progress() as progress:
        folder = do(progress, arguments.workers)
    return finish(folder, as_json=arguments.json, named=named)


def work_request(
    request: PlanRequest, arguments: argparse.Namespace, *, unexpected: Unexpected, reference: str
) -> int:
    """Plans a request, runs it, and checks that its report shows what it must.

    Args:
        request: what is planned and run; an engine and images are set up for it.
        arguments: with `workers` and `json`.
        unexpected: returns what the report shows and must not, one text each.
        reference: name of the negative answer.

    Raises:
        Negative: the report shows something unexpected.
    """
    from orchestrator.core.files import require_writable
    from orchestrator.core.places import results_root
    from orchestrator.pipeline.setup import make_plan, start_run

    require_writable(results_root(), "runs are written to it")

    def everything(watch: Watch, workers: int) -> Path:
        plan = make_plan(request, watch.say, install=True)
        return start_run(plan, watch=watch, workers=workers)

    report = work(everything, arguments)
    wrong = unexpected(report)
    if wrong:
        raise Negative(
            reference,
            "the run does not show what it must: " + "; ".join(wrong),
            hint=f"read {shown_path(results_root() / report.run_id / 'report.json')}",
        )
    return 0


def made_reports(folder: Path) -> tuple[RunReport, dict[str, bytes]]:
    """Rebuilds the report from the record; returns it, and its files by name."""
    from orchestrator.report.build import build_report
    from orchestrator.report.terminal import render_report

    report = build_report(folder)
    return report, {
        "report.json": report.canonical() + b"\n",
        "report.txt": render_report(report).encode(),
    }


def write_report(folder: Path, *, over_seal: bool = False) -> tuple[RunReport, str | None]:
    """Rebuilds the report from the record and stores report.json and report.txt beside it.

    Args:
        folder: of the run.
        over_seal: the folder is about to be sealed anew; without it a sealed report stays as it is.

    Returns:
        The report, and why it was not stored (a read-only copy, or the seal of another wording), if so.
    """
    from orchestrator.attest.layout import SEAL
    from orchestrator.core.files import write_atomic

    report, files = made_reports(folder)
    try:
        stored = {name: _stored(folder / name) for name in files}
        others = [n for n, data in stored.items() if data is not None and data != files[n]]
        if others and not over_seal and (folder / SEAL).is_file():
            return report, "the run is sealed, with a report in the words of another memtrial"
        for name in files:
            if stored[name] != files[name]:
                write_atomic(folder / name, files[name])
    except OSError as error:
        return report, error.strerror or str(error)
    return report, None


def _stored(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def seal_folder(
    folder: Path,
    *,
    key: Path | None = None,
    sigstore: Literal["project", "public"] | None = None,
    instance: Path | None = None,
    reports: dict[str, bytes] | None = None,
) -> SealOutcome:
    """Seals a run's folder with a key file, or with a key that is made for this once.

    Args:
        folder: the run.
        key: private key in PEM; without one the key is ephemeral and labelled so.
        sigstore: whose sigstore bundles to make beside the statements, if any.
        instance: private folder of the project's own sigstore instance.
        reports: the report's files by name, where they are not written yet.
    """
    from orchestrator.core.keys import SigningKey
    from orchestrator.core.places import fixtures_root, images_root, local_lock_path
    from orchestrator.pipeline.seal import Inputs, Signer, seal_run

    signing = SigningKey.load(key) if key else SigningKey.generate()
    bundles = None
    if sigstore is not None:
        from orchestrator.attest.sigstore_sign import signer_of

        bundles = signer_of(sigstore, instance)
    locks = [path for path in (local_lock_path(), images_root() / "lock.json") if path.is_file()]
    lock = locks[0].read_bytes().rstrip(b"\n") if locks else None
    return seal_run(
        folder,
        Signer(signing, "operator" if key else "ephemeral-local", bundles),
        Inputs(fixtures_root(), images_root(), lock),
        reports=reports,
    )


def told_seal(outcome: SealOutcome) -> str:
    """Returns the line that names who sealed; its key id is what a verifier needs from outside."""
    kind = (
        "a key made for this seal and thrown away (local run)"
        if outcome.label == "ephemeral-local"
        else "the operator's key"
    )
    return f"sealed {outcome.files} files, {outcome.statements} statements, {outcome.records} records by {kind}\nkey id: {outcome.keyid}"


def finish(
    folder: Path, *, as_json: bool, after: str = "", named: str | None = None, seal: bool = True
) -> RunReport:
    """Writes and prints the report, and seals the folder into an evidence bundle.

    Args:
        folder: of the run.
        as_json: print the document instead of the table.
        after: the command to name next once the run is whole; by default the one that verifies it.
        named: how the user named the run, for commands that need its name.
        seal: sign what the folder holds; a report that is only shown again changes no seal.

    Raises:
        Incomplete: trials without a verdict are left.
        BudgetExhausted: some of them because a cap of their condition or of the run is used up.
    """
    from orchestrator.report.terminal import render_report

    report, not_stored = write_report(folder, over_seal=seal)
    name = run_name(folder, named)
    key = os.environ.get("MEMTRIAL_SIGNING_KEY")
    sealed = seal_folder(folder, key=Path(key) if key else None) if seal else None
    if as_json:
        render.document(report.model_dump(mode="json"))
    else:
        render.row(render_report(report, render.columns()))
        if not_stored is None:
            render.text(f"report: {shown_path(folder / 'report.json')}")
    if sealed is not None:
        (render.note if as_json else render.text)(told_seal(sealed))
    if not_stored is not None:
        render.note(f"the report was not stored in {shown_path(folder)}: {not_stored}")
    if not report.complete:
        left = sum(trial.verdict_sha256 is None for trial in report.trials) - sum(
            trial.outcome == "inadmissible" for trial in report.trials
        )
        raise incomplete(report, left, how=_how_to_go_on(folder, name))
    if not as_json:
        keyid = f" --keyid {sealed.keyid}" if sealed else ""
        render.text(f"next: {after or f'memtrial verify {name}{keyid}'}")
    return report


def incomplete(report: RunReport, left: int, *, how: str) -> Incomplete | BudgetExhausted:
    """Returns the error of a run with open trials: what failed, and what helps.

    A trial whose last attempt is an infrastructure error has used up its retry policy; going on without
    mending the cause would only repeat it.

    Args:
        report: of the run.
        left: how many trials have no verdict.
        how: the command that goes on, as a hint.
    """
    failed = [trial for trial in report.trials if trial.outcome == "infra_error"]
    capped = [t for t in report.trials if t.outcome == "budget" and t.verdict_sha256 is None]
    said = f"{left} of {counted(len(report.trials), 'trial')} {'has' if left == 1 else 'have'} no verdict"
    if capped:
        return BudgetExhausted(
            "caps-used-up",
            f"{said}; {len(capped)} of them met a cap that trials share, first {capped[0].trial}: {capped[0].why}",
            hint="a call must fit with the most that it may cost, not with what calls cost so far: make a plan with higher --cap values; `memtrial resume` would meet the same cap",
        )
    refused = [t for t in report.trials if t.why.startswith(f"{ApprovalRefused.__name__}: ")]
    if refused:
        return Incomplete(
            "approval-not-held",
            f"{said}; the run was stopped at {refused[0].trial}: {refused[0].why}",
            hint=f"see `memtrial approve status`; while the approval holds, {how}",
        )
    if not failed:
        return Incomplete("run-incomplete", said, hint=how)
    first = failed[0]
    return Incomplete(
        "attempts-used-up",
        f"{said}; {len(failed)} of them used up the plan's attempts, first {first.trial} after {first.attempts}: {first.why}",
        hint=f"mend the cause, then {how}, which gives these trials the plan's attempts anew; if it cannot be mended here, start a new run of the plan",
    )


def _how_to_go_on(folder: Path, name: str) -> str:
    from orchestrator.ledger.lock import is_worked_on

    if is_worked_on(folder / "ledger.jsonl"):
        return f"another process works on it: `memtrial report {name}` shows later how far it is"
    return f"run `memtrial resume {name}`"


def run_name(folder: Path, named: str | None = None) -> str:
    """Returns a name by which every verb finds the run from here: its id, or else the path as given."""
    from orchestrator.core.places import results_root

    if (results_root() / folder.name).resolve() == folder.resolve():
        return shlex.quote(folder.name)
    return shlex.quote(named or shown_path(folder))
