"""One trial, top to bottom: prepare, remember, inject, isolate, act, harvest, screen, grade, seal.

Each line takes frozen documents and gives one; it is written down before the next line runs. Nothing
here knows Docker, SQLite or pytest.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from orchestrator.core.errors import Misconduct
from orchestrator.model.isolation import Isolation, Screening
from orchestrator.model.memory import Injection, Remembered
from orchestrator.model.outcome import Outcome, outcome_of_trial
from orchestrator.model.record import Prepared, Sealed, Stage
from orchestrator.model.verdict import Acted, Harvest, Verdict
from orchestrator.pipeline import stages
from orchestrator.pipeline.bench import Bench
from orchestrator.pipeline.breaches import require_clean, require_isolated, require_runtime
from orchestrator.pipeline.journal import Journal


def run_trial(bench: Bench, journal: Journal) -> tuple[Verdict, Outcome]:
    """Runs one attempt of a trial to its verdict; recorded stages are not run again.

    Misconduct, at whatever stage after the injection it is seen, is a failed trial with a verdict; one that
    is on record stands, whatever happened after it.

    Raises:
        MemtrialError: there is no verdict; the error's class says what the attempt came to.
    """
    verdict = journal.recorded(Stage.GRADE, Verdict)
    if verdict is None or not verdict.misconduct:
        try:
            verdict = _stages(bench, journal)
        except Misconduct as seen:
            condemn = partial(stages.condemn, bench, journal, seen)
            verdict = journal.step(Stage.GRADE, Verdict, condemn)
    return verdict, outcome_of_trial(journal.recorded(Stage.ACT, Acted), verdict)


def _stages(bench: Bench, journal: Journal) -> Verdict:
    with ExitStack() as containers:
        prepared = journal.step(
            Stage.PREPARE, Prepared, lambda: stages.prepare(bench, journal, containers)
        )
        require_runtime(bench.plan.runtime, prepared)
        remembered = journal.step(
            Stage.REMEMBER, Remembered, lambda: stages.remember(bench, journal)
        )
        injection = journal.step(Stage.INJECT, Injection, lambda: stages.inject(bench, remembered))
        proof = journal.step(
            Stage.ISOLATE, Isolation, lambda: stages.isolate(bench, journal, injection)
        )
        require_isolated(proof)
        acted = journal.step(Stage.ACT, Acted, lambda: stages.act(bench, journal, injection))
        harvest = journal.step(Stage.HARVEST, Harvest, lambda: stages.harvest(bench, journal))
    screening = journal.step(
        Stage.SCREEN, Screening, lambda: stages.screen(bench, journal, injection, harvest)
    )
    require_clean(screening)
    verdict = journal.step(
        Stage.GRADE, Verdict, lambda: stages.grade(bench, journal, injection, acted, harvest)
    )
    journal.step(Stage.SEAL, Sealed, lambda: stages.seal(bench, journal, verdict))
    return verdict
