"""What in a run's record a reviewer should look at first, also where every check says yes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.audit.rules import clock_back
from orchestrator.ledger.history import TrialRecord
from orchestrator.model.outcome import Outcome
from orchestrator.pipeline.dossier import Dossier


def anomalies(dossier: Dossier) -> Iterator[tuple[str, str, str]]:
    """Yields kind, subject and what happened: dropped blocks, misconduct, further attempts, trials without end."""
    dropped: dict[tuple[str, int], str] = {}
    rows: list[tuple[str, str, str]] = []
    for trial in dossier.plan.trials:
        record = dossier.run.trial(trial.key)
        for attempt in record.attempts:
            ended = attempt.ended
            if ended is not None and ended.outcome is Outcome.INADMISSIBLE:
                said = f"attempt {attempt.number} of {trial.key}: {ended.error_reference or 'no reason'}"
                dropped.setdefault((trial.task_id, trial.epoch), said)
            elif ended is not None and ended.outcome is Outcome.MISCONDUCT:
                rows.append(("misconduct", trial.key, ended.error_reference or "no reason"))
        if len(record.attempts) > 1:
            rows.append(("attempts", trial.key, _told(record)))
        if record.final is None:
            rows.append(("no end", trial.key, _told(record)))
    for (task_id, epoch), said in dropped.items():
        yield "dropped block", f"{task_id}, epoch {epoch}, in every arm", said
    yield from rows
    if dossier.run.resumed:
        yield "resumed", dossier.run_id, f"taken up again {dossier.run.resumed} times"
    back = clock_back(dossier.content.entries)
    if back:
        yield "clock", dossier.run_id, f"went back {back} times"


def _told(record: TrialRecord) -> str:
    ends = [
        f"{a.number} {a.ended.outcome.value}"
        + (f" ({a.ended.error_reference})" if a.ended.error_reference else "")
        if a.ended
        else f"{a.number} not ended"
        for a in record.attempts
    ]
    return ", ".join(ends) or "never begun"
