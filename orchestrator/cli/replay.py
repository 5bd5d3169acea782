"""Plays a recorded run again, offline: same plan, same containers, recorded model answers.

Exit 0 when every trial came to the same verdict, 1 when one did not; it says at which call and where in
the request a trial left its recording.
"""

from __future__ import annotations

import argparse

from orchestrator.cli import render
from orchestrator.cli.command import shown_path
from orchestrator.cli.live import Progress
from orchestrator.cli.session import add_workers, write_report
from orchestrator.core.errors import Negative
from orchestrator.model.gateway import ReplayedTrial


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "run", metavar="RUN", nargs="?", default="latest", help="run id, folder, or latest"
    )
    add_workers(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replays the run and prints the comparison."""
    from orchestrator.core.places import results_root
    from orchestrator.pipeline.find import find_run
    from orchestrator.pipeline.replay import replay_run

    folder = find_run(results_root(), arguments.run)
    with Progress() as progress:
        made, report = replay_run(folder, watch=progress, workers=arguments.workers)
    write_report(made)
    if arguments.json:
        render.document(report.model_dump(mode="json"))
    else:
        for trial in report.trials:
            render.text(_line(trial))
        render.text(f"comparison: {shown_path(made / 'replay.json')}")
    if not report.same:
        differing = sum(not trial.same for trial in report.trials)
        raise Negative(
            "replay-differs",
            f"expected the verdicts of {report.recorded_run} again, found {differing} of {len(report.trials)} trials that differ",
            hint=f"read {shown_path(made / 'replay.json')}",
        )
    if not arguments.json:
        render.text(f"next: memtrial report {report.replayed_run}")
    return 0


def _line(trial: ReplayedTrial) -> str:
    calls = f"{trial.exact} exact, {trial.normalised} normalised"
    left = trial.divergence
    if left is None:
        return f"{trial.trial:<64} {'same' if trial.same else 'DIFFERENT'} verdict, {calls}"
    return (
        f"{trial.trial:<64} LEFT ITS RECORDING at call {left.ordinal} of {left.api} ({left.role}), {left.pointer or '/'}; {calls}\n"
        f"  recorded: {left.recorded!r}\n  found:    {left.found!r}"
    )
