"""The gate of phases smoke and official: sixteen numbered steps and a zeroth, in order; the first failure stops.

Starts no container, opens no socket, asks no provider; opens fixtures in step 10 and not before. A
validation writes a report that authorises nothing. A dispatch repeats every step in its own process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import utc_text_of
from orchestrator.core.errors import ApprovalRefused, MemtrialError
from orchestrator.core.files import write_atomic
from orchestrator.model.approval import ApprovedCaps
from orchestrator.model.gate import GateReport, NamedDigest, RootSeen, StepResult
from orchestrator.model.permit import Permit
from orchestrator.model.usage import Quota
from orchestrator.trust.gate.asked import GateAsked, Governed, State, known
from orchestrator.trust.gate.before import (
    SEEN,
    check_head,
    check_host,
    check_repository,
    check_root,
    compare_worktree,
    read_blobs,
    state_of,
)
from orchestrator.trust.gate.bindings import check_caps, check_not_expired, check_plan, check_time
from orchestrator.trust.gate.documents import (
    check_commit,
    check_roles,
    check_root_meant,
    check_signatures,
    read_document,
)
from orchestrator.trust.gate.issue import issue_permit
from orchestrator.trust.gate.machine import (
    NONCES,
    check_book,
    check_supervisor_answer,
    check_supervisor_files,
    use_of,
)
from orchestrator.trust.nonces import NonceBook
from orchestrator.trust.roles import TrustedRoles
from orchestrator.trust.root.client import RootState, latest

Step = Callable[[State], None]


def _report(state: State) -> None:
    """Step 16: everything that the report must name is there."""
    for value in (state.root, state.roles, state.approval, state.plan):
        known(value)


def _nothing(*_: object) -> None:
    return


# The number of a step is its place; names and codes are stable.
STEPS: tuple[tuple[str, Step], ...] = (
    ("host", check_host),
    ("repository", check_repository),
    ("head", check_head),
    ("blobs", read_blobs),
    ("worktree", compare_worktree),
    ("trust-root", check_root),
    ("roles", check_roles),
    ("signatures", check_signatures),
    ("document", read_document),
    ("ancestry", check_commit),
    ("plan", check_plan),
    ("time", check_time),
    ("supervisor-files", check_supervisor_files),
    ("supervisor-answer", check_supervisor_answer),
    ("caps", check_caps),
    ("single-use", check_book),
    ("report", _report),
)


# Of all dispatches of this process, which is the only one that writes there.
_REMEMBERING = threading.Lock()
PLACES = {name: number for number, (name, _) in enumerate(STEPS)}
# What says whether an approval still holds, with root and window after it; none of it opens a fixture or asks anybody.
HOLDING = STEPS[: PLACES["document"] + 1]
# Whoever updates the clone meanwhile is waited for: so many looks, so many seconds apart.
LOOKS = 5
AGAIN_S = 1.0
MAKE_ROOM = "make room there, or give the folder back to the supervisor's user, then "


@dataclass(frozen=True, slots=True)
class Validation:
    """What a validation found: its report, and the refusal if there was one."""

    report: GateReport
    refusal: ApprovalRefused | None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Leave to dispatch: the permit, and the approval that it rests on, used up by now."""

    permit: Permit
    approval: Governed
    approval_sha256: str
    envelope: bytes
    roles_data: bytes
    signers: tuple[str, ...]
    asserted: tuple[str, ...]


def validate(asked: GateAsked) -> Validation:
    """Runs every step and reports; authorises nothing and reserves nothing."""
    state = State(asked)
    refusal = _run(state, STEPS)
    return Validation(_write(state, refusal), refusal)


def dispatch(
    asked: GateAsked, ready: Callable[[Governed, TrustedRoles], object] = _nothing
) -> Dispatch:
    """Runs every step, then writes what was seen of the root and the use of the approval down, durably.

    Args:
        asked: the question to the gate.
        ready: refuses, by a MemtrialError, a run that could not begin; gets approval and roles, called when
            every step has passed and nothing is used up yet.

    Raises:
        ApprovalRefused: the first step that failed, with its number, or nothing could be written down.
        MemtrialError: the run could not begin.
    """
    state = State(asked)
    refusal = _run(state, STEPS)
    if refusal is not None:
        # A withdrawal that was seen here stays so.
        _note_root(state, "nothing was dispatched", "dispatch again")
        raise refusal
    approval = state.approved()
    ready(approval, known(state.roles))
    with _as_step("time", ", after all was measured"):
        # Step 11 was before that.
        check_not_expired(approval, asked.clock())
    # Versions seen only grow, so this comes first: once the approval is used up nothing can fail any more.
    _note_root(state, "nothing was dispatched", "dispatch again")
    own = Path(known(state.config).supervisor_state)
    with _written(own, "the use of the approval", "nothing was dispatched", "dispatch again"):
        NonceBook(own / NONCES).reserve(use_of(state), now_s=asked.clock())
    permit = issue_permit(
        plan_sha256=approval.plan_sha256,
        max_usd_micros=approval.caps.max_cost_usd_micros,
        expires_s=approval.window.expires_s,
        models=(approval.runner.model,),
        upstreams=(approval.runner.upstream,),
        quota=_quota(approval.caps),
    )
    return Dispatch(
        permit=permit,
        approval=approval,
        approval_sha256=sha256_hex(state.envelope),
        envelope=state.envelope,
        roles_data=known(state.root).roles_data,
        signers=state.signers,
        asserted=state.asserted,
    )


def check_holds(ask: Callable[[], GateAsked], envelope: bytes) -> None:
    """Refuses to go on with a dispatched run whose approval does not hold in the repository as it is now.

    Args:
        ask: the question to the gate as it was asked at the dispatch, at the present time.
        envelope: the approval that was used up.

    Raises:
        ApprovalRefused: it was withdrawn or replaced, has expired, or was signed by who may not any more or
            under another trust root; or the root was rolled back, cannot be read for longer than an update
            takes, or what was seen of it cannot be written down.
    """
    looks = 0
    while True:
        looks += 1
        try:
            _look(State(ask()), envelope)
        except ApprovalRefused as error:
            # What a sound trust root says is final; what is no step's refusal is no update under way.
            if looks == LOOKS or error.check is None or error.check >= PLACES["signatures"]:
                raise
        else:
            return
        time.sleep(AGAIN_S)


def _look(state: State, envelope: bytes) -> None:
    refusal = _run(state, HOLDING)
    # Also when it refuses: what was withdrawn here must not hold again under an older root.
    _note_root(state, "no attempt was opened", "`memtrial resume RUN`")
    if refusal is not None:
        raise refusal
    if state.envelope != envelope:
        raise ApprovalRefused(
            "approval-not-listed",
            f"expected the approval {state.asked.approval_id} that this run began under, found another of its name",
            hint="see `memtrial approve status`",
            check=PLACES["signatures"],
        )
    with _as_step("ancestry"):
        check_root_meant(state)
    with _as_step("time"):
        check_not_expired(state.approved(), state.asked.now_s)


def _note_root(state: State, outcome: str, then: str) -> None:
    """Writes down what was seen of the root, if it was sound; what came of that and what to do is told otherwise."""
    if state.root is not None:
        own = Path(known(state.config).supervisor_state)
        with _written(own, "what was seen of the trust root", outcome, then):
            _remember(own / SEEN, state.root.state)


@contextmanager
def _as_step(name: str, when: str = "") -> Iterator[None]:
    """Gives refusals the number of the step whose matter they are."""
    try:
        yield
    except ApprovalRefused as error:
        raise ApprovalRefused(
            error.reference, error.message + when, hint=error.hint, check=PLACES[name]
        ) from error


@contextmanager
def _written(own: Path, what: str, outcome: str, then: str) -> Iterator[None]:
    """Tells of a state that cannot be written."""
    try:
        yield
    except OSError as error:
        raise ApprovalRefused(
            "state-not-written",
            f"{own}: expected to write {what} down, found {error.strerror or error}; {outcome}",
            hint=MAKE_ROOM + then,
        ) from error


def _remember(path: Path, found: RootState) -> None:
    """Writes down what was seen of the root, unless another dispatch saw a later one meanwhile.

    Raises:
        ApprovalRefused: it did; what was withdrawn there does not hold here.
    """
    with _REMEMBERING:
        before = RootSeen.parse_canonical(path.read_bytes(), where=path.name)
        with _as_step("trust-root"):
            seen = RootSeen(**asdict(latest(found, state_of(before))))
        write_atomic(path, seen.canonical(), mode=0o600)


def _quota(caps: ApprovedCaps) -> Quota:
    return Quota(
        agent_calls=caps.max_agent_calls,
        provider_calls=caps.max_provider_calls,
        input_tokens=caps.max_input_tokens,
        output_tokens=caps.max_output_tokens,
    )


def _run(state: State, steps: Sequence[tuple[str, Step]]) -> ApprovalRefused | None:
    """Runs steps from the first on, in order; returns the first refusal, with its number."""
    number = 0
    try:
        for number, (_, step) in enumerate(steps):  # noqa: B007 - the number that a refusal bears
            step(state)
    except MemtrialError as error:
        return ApprovalRefused(error.reference, error.message, hint=error.hint, check=number)
    except OSError as error:
        return ApprovalRefused(
            "file-not-readable",
            f"expected files that can be read, found {error.strerror or error}",
            hint="run the gate as the user who may read them",
            check=number,
        )
    finally:
        state.close()
    return None


def _write(state: State, refusal: ApprovalRefused | None) -> GateReport:
    stopped = len(STEPS) if refusal is None else refusal.check or 0
    steps = []
    for number, (name, _) in enumerate(STEPS):
        if refusal is not None and number == stopped:
            result = StepResult(
                number=number,
                name=name,
                status="refused",
                code=refusal.reference,
                detail=refusal.message,
            )
        else:
            result = StepResult(
                number=number, name=name, status="ok" if number < stopped else "not_run"
            )
        steps.append(result)
    return GateReport(
        approval_id=state.asked.approval_id,
        at=utc_text_of(state.asked.now_s),
        result="pass" if refusal is None else "refused",
        steps=tuple(steps),
        inputs=tuple(
            NamedDigest(name=name, sha256=digest) for name, digest in sorted(state.digests.items())
        ),
        asserted=state.asserted,
    )
