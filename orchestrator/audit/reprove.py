"""Proves again from the recorded calls what memory each attempt's model was shown, and compares with what was said.

Reads traffic record, bodies and blobs of an opened bundle; changes nothing. The checkout is not in a bundle,
so signs of its steering files are the record's own word; calls whose bodies were withheld are counted.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from orchestrator.agents.channels import SERVER
from orchestrator.agents.servers import stated_of
from orchestrator.audit.ends import NO_MODEL
from orchestrator.audit.opening import Opened
from orchestrator.audit.recheck import Found
from orchestrator.audit.respend import Spent, attempts_of, body_of
from orchestrator.core.errors import EnvironmentMissing, IntegrityError, MemtrialError, Negative
from orchestrator.gateway.accounts import BODIES_FILE
from orchestrator.gateway.bodies import PackReader
from orchestrator.gateway.recorded import RecordedCall, admitted, read_body
from orchestrator.gateway.shown import FILE_SIGN, LABELS, Expected, prove
from orchestrator.ledger.blobs import BlobWithheld
from orchestrator.ledger.history import AttemptRecord
from orchestrator.memory.compile import shown_text
from orchestrator.model.exchange import Exchange
from orchestrator.model.memory import Injection
from orchestrator.model.plan import Trial
from orchestrator.model.proof import PROOF, InjectionProof
from orchestrator.model.record import Stage
from orchestrator.model.task import Brief
from orchestrator.model.toolcalls import ToolLog, read_log
from orchestrator.pipeline.breaches import require_model
from orchestrator.pipeline.dossier import Dossier, stage_document
from orchestrator.pipeline.memory_audits import artifact_of

OWN_WORD = (
    *("steering", "more_steering", "files", "more_files"),
    *("noted_files", "more_noted_files"),
)
"""The parts of a proof that rest on the checkout."""


def check_injections(opened: Opened, dossier: Dossier, spent: Spent) -> Found:
    """Proves the memory of every attempt again.

    Raises:
        Negative: a proof does not follow from the calls, an attempt without one was graded, or one ended for
            a model that was there, or went on without one.
        IntegrityError: an attempt under a gateway has no proof, or a body has other bytes.
    """
    if spent.accounts is None:
        return Found(0, "no model was asked")
    pack = PackReader(io.BytesIO(opened.files.optional(BODIES_FILE) or b""), BODIES_FILE)
    proven = withheld = files = 0
    for trial, attempt in attempts_of(dossier):
        lines = spent.accounts.by_attempt.get((trial.key, attempt.number), ())
        exchanges = admitted((b for _, b in lines if isinstance(b, Exchange)), role="agent")
        _check_model(trial, attempt, exchanges)
        try:
            calls = tuple(_calls(exchanges, pack))
            said, again = _both(opened, dossier, trial, attempt, calls)
        except BlobWithheld:
            withheld += 1
            continue
        _compare(trial, said, again)
        if not said.holds and attempt.ended and attempt.ended.verdict_sha256:
            raise _differs(trial, "no verdict of an attempt whose memory is unproven", "one")
        proven += 1
        files += len(said.steering) + (said.more_steering.count if said.more_steering else 0)
    told = [f"{withheld} withheld"] if withheld else []
    told += [f"lines of {files} steering files are the record's own word"] if files else []
    return Found(proven, "; ".join(told) or "each from its recorded calls", not told)


def _check_model(trial: Trial, attempt: AttemptRecord, exchanges: tuple[Exchange, ...]) -> None:
    """Whether the model was taken away stands in the gateway's record, and ends an attempt exactly then."""
    try:
        require_model(exchanges)
    except EnvironmentMissing as gone:
        if Stage.HARVEST in attempt.stages:
            raise _model_differs(trial, f"no harvest: {gone.message}", "one") from gone
        return
    if attempt.ended is not None and attempt.ended.error_reference == NO_MODEL:
        raise _model_differs(trial, "another end: the last call was answered", NO_MODEL)


def _model_differs(trial: Trial, expected: str, found: str) -> MemtrialError:
    return Negative(
        "model-end-differs",
        f"{trial.key}: expected {expected}, found {found}",
        hint="the gateway's record says otherwise of the model: do not rely on this run",
    )


def _calls(exchanges: tuple[Exchange, ...], pack: PackReader) -> Iterator[RecordedCall]:
    for exchange in exchanges:
        data = body_of(pack, exchange.request)
        if data is None:
            raise BlobWithheld("body-withheld", "expected a body, found none", hint="ask for it")
        yield RecordedCall(exchange, read_body(exchange, data))


def _both(
    opened: Opened,
    dossier: Dossier,
    trial: Trial,
    attempt: AttemptRecord,
    calls: tuple[RecordedCall, ...],
) -> tuple[InjectionProof, InjectionProof]:
    """Returns the recorded proof, and the one that the calls give."""
    sha256 = artifact_of(attempt, Stage.ACT, PROOF)
    if sha256 is None:
        raise IntegrityError(
            "injection-proof-missing",
            f"{trial.key}: expected a proof of what memory its model was shown, found none",
            hint="no memtrial writes such a record: get the bundle again from its source",
        )
    said = InjectionProof.parse_canonical(opened.files.get(sha256), where=f"proof of {trial.key}")
    injection = stage_document(opened.files, attempt, Stage.INJECT, Injection)
    pins = dossier.plan.task(trial.task_id).digests
    brief = Brief.parse_canonical(opened.files.get(pins.brief_sha256), where="brief")
    log = _tool_log(opened, attempt)
    expected = Expected(
        trial=trial.key,
        attempt=attempt.number,
        condition_id=trial.condition_id,
        channel=injection.channel,
        text=shown_text(injection),
        label=LABELS.get(injection.channel, ""),
        log=log,
        stated=None if log is None else _stated(opened, trial, attempt),
        prompt=brief.prompt,
    )
    return said, prove(calls, expected)


def _tool_log(opened: Opened, attempt: AttemptRecord) -> ToolLog | None:
    def found(name: str) -> bytes | None:
        sha256 = artifact_of(attempt, Stage.ACT, name)
        return opened.files.get(sha256) if sha256 else None

    return read_log(found)


def _stated(opened: Opened, trial: Trial, attempt: AttemptRecord) -> str | None:
    """Reads again what the agent's client said of the arm's server."""
    sha256 = artifact_of(attempt, Stage.ACT, "output")
    return stated_of(trial.agent, opened.files.get(sha256) if sha256 else b"", SERVER)


def _compare(trial: Trial, said: InjectionProof, again: InjectionProof) -> None:
    """Everything must be equal but for the signs of files, which decide only where they are the only ones.

    A sign is of a file that the proof itself names as steering, and those are counted in the answer.
    """
    kept: dict[str, object] = {name: getattr(said, name) for name in OWN_WORD}
    if said.files and not again.foreign and again.result not in {"no_call", "unprompted"}:
        kept |= {"result": "foreign", "detail": said.files[0].told, "blame": None}
    expected = again.model_copy(update=kept)
    signs = {sign.sign for sign in (*said.files, *said.noted_files)}
    named = {f"{FILE_SIGN}{path}" for path in said.steering}
    beyond = {sign for sign in signs - named if not sign.startswith(FILE_SIGN)}
    if said != expected or (signs - named if said.more_steering is None else beyond):
        raise _differs(trial, f"the proof that its calls give ({expected.result})", said.result)


def _differs(trial: Trial, expected: str, found: str) -> MemtrialError:
    return Negative(
        "injection-proof-differs",
        f"{trial.key}: expected {expected}, found {found}",
        hint="what this model was shown does not follow from the record: do not rely on this run",
    )
