"""Steps 12, 13 and 15: the supervisor's files, its signed answer, and the book of used approvals.

Reads the supervisor's prefix and the nonce book; asks the supervisor once. Reserves nothing.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import utc_text_of
from orchestrator.core.errors import DocumentError
from orchestrator.core.merkle import MerkleTree, leaf_hash
from orchestrator.model.gate import ANSWER_TYPE, Manifest, SupervisorAnswer
from orchestrator.trust.envelope import open_signed
from orchestrator.trust.gate.asked import State, known, refuse
from orchestrator.trust.manifest import first_difference, manifest_of
from orchestrator.trust.nonces import NonceBook, Use
from orchestrator.trust.roles import role_of
from orchestrator.trust.strict import read_signed
from orchestrator.trust.trusted import read_trusted

MANIFEST = "supervisor.manifest.json"
NONCES = "nonces"
MAX_MANIFEST_BYTES = 32 * 1024 * 1024
# Clocks of one machine agree to the second.
CLOCK_STEP_S = 1


def check_supervisor_files(state: State) -> None:
    """Step 12."""
    asked, config, approval = state.asked, known(state.config), state.approved()
    data = read_trusted(
        asked.system / MANIFEST, owner_uid=asked.owner_uid, max_bytes=MAX_MANIFEST_BYTES
    )
    found = sha256_hex(data)
    state.digests["supervisor/manifest"] = found
    if found != approval.supervisor.manifest_sha256:
        raise refuse(
            "manifest-not-the-approved-one", approval.supervisor.manifest_sha256[:16], found[:16]
        )
    try:
        expected = Manifest.parse_canonical(data, where=MANIFEST, max_bytes=MAX_MANIFEST_BYTES)
    except DocumentError as error:
        raise refuse("manifest-invalid", "a manifest", error.message) from error
    present = manifest_of(Path(config.supervisor_prefix), owner_uid=asked.owner_uid)
    where = first_difference(expected, present)
    if where is not None:
        raise refuse("supervisor-changed", "the supervisor's files as in its manifest", where)
    state.manifest_sha256 = found


def check_supervisor_answer(state: State) -> None:
    """Step 13."""
    approval, config, roles = state.approved(), known(state.config), known(state.roles)
    role = role_of(roles, "supervisor", where="roles")
    if approval.supervisor.keyid not in role.keys:
        raise refuse("supervisor-key-unknown", "a key of the role", approval.supervisor.keyid[:16])
    pins = (approval.supervisor.identity, approval.supervisor.uid, approval.supervisor.keyid)
    here = (config.supervisor_identity, config.supervisor_uid, config.supervisor_keyid)
    if pins != here:
        raise refuse(
            "another-supervisor", f"{here[0]} of uid {here[1]}", f"{pins[0]} of uid {pins[1]}"
        )
    challenge = secrets.token_hex(32)
    approval_sha256 = sha256_hex(state.envelope)
    # Measured from the challenge: step 10 may have taken minutes since the gate began.
    asked_s = state.asked.clock()
    data = state.asked.challenge(challenge, approval_sha256, approval.plan_sha256)
    came_s = state.asked.clock()
    found = open_signed(data, role, payload_type=ANSWER_TYPE, where="supervisor's answer")
    if found.signers != (approval.supervisor.keyid,):
        raise refuse("another-supervisor", approval.supervisor.keyid[:16], found.signers[0][:16])
    read_signed(found.payload, where="supervisor's answer")
    try:
        answer = SupervisorAnswer.parse_canonical(found.payload, where="supervisor's answer")
    except DocumentError as error:
        raise refuse("answer-invalid", "an answer", error.message) from error
    wanted = SupervisorAnswer(
        challenge=challenge,
        approval_sha256=approval_sha256,
        plan_sha256=approval.plan_sha256,
        identity=approval.supervisor.identity,
        uid=approval.supervisor.uid,
        manifest_sha256=approval.supervisor.manifest_sha256,
        answered_s=answer.answered_s,
        asserted=answer.asserted,
    )
    if answer != wanted:
        differing = [
            name
            for name in SupervisorAnswer.model_fields
            if getattr(answer, name) != getattr(wanted, name)
        ]
        raise refuse("answer-to-another-question", "an answer to this question", differing[0])
    if not asked_s - CLOCK_STEP_S <= answer.answered_s <= came_s + CLOCK_STEP_S:
        raise refuse(
            "answer-stale",
            f"an answer from {utc_text_of(asked_s)} to {utc_text_of(came_s)}",
            utc_text_of(answer.answered_s),
        )
    state.asserted = answer.asserted


def use_of(state: State) -> Use:
    """Returns what a dispatch would write into the nonce book."""
    approval = state.approved()
    return Use(
        nonce=approval.nonce,
        approval_sha256=sha256_hex(state.envelope),
        plan_sha256=approval.plan_sha256,
        run_id=state.asked.run_id,
    )


def check_book(state: State) -> None:
    """Step 15: the book has grown from what the signers saw, and this approval was not used."""
    approval, config = state.approved(), known(state.config)
    book = NonceBook(Path(config.supervisor_state) / NONCES)
    # The present, and not when the gate began: another run may have used its approval meanwhile.
    lines = book.check(use_of(state), now_s=state.asked.clock()).lines
    if approval.ledger.origin != config.ledger_origin:
        raise refuse("ledger-of-another-origin", config.ledger_origin, approval.ledger.origin)
    size = approval.ledger.size
    if size > len(lines):
        raise refuse("ledger-shorter", f"at least {size} uses of approvals", f"{len(lines)}")
    root = root_of([line.canonical() for line in lines[:size]])
    if root != approval.ledger.root_sha256:
        raise refuse("ledger-not-the-approved-one", approval.ledger.root_sha256[:16], root[:16])
    state.book = lines


def root_of(lines: list[bytes]) -> str:
    """Returns the RFC 6962 root over the lines of a nonce book, in hexadecimal."""
    tree = MerkleTree(leaf_hash(line) for line in lines)
    return tree.root().hex()
