"""Which artifacts each stage keeps, and what the isolation proof rests on. Pure over the blobs of one attempt."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.audit.attempts import Attempted
from orchestrator.audit.relive import ANSWERS
from orchestrator.audit.rules import CONDEMNED
from orchestrator.audit.searches import check_found_before
from orchestrator.model.isolation import DeclaredInventory, Inventory, Isolation
from orchestrator.model.lifecycle import Step
from orchestrator.model.memory import Remembered
from orchestrator.model.record import Stage
from orchestrator.model.toolcalls import TOOL_LOG
from orchestrator.model.trace import TRACE
from orchestrator.pipeline.isolation import MAX_DIFFERENCES
from orchestrator.pipeline.tracing import is_traced
from orchestrator.sandbox.declared import compare, declare

UNDECLARED = "attempt ended for a container not as declared"
_OF_A_PHASE = ("seal", "report", "log", "tests")


def check_artifacts(seen: Attempted) -> None:
    """Every recorded stage keeps its fixed set of artifacts, each once, and no other.

    Raises:
        MemtrialError: one is missing, comes twice, or is none of the stage.
    """
    for stage, done in seen.record.stages.items():
        expected = sorted(_names(seen, stage))
        found = sorted(item.name for item in done.artifacts)
        seen.require(f"artifacts of {stage.value}", expected, found)


def _names(seen: Attempted, stage: Stage) -> Iterator[str]:
    asks = seen.plan.agent(seen.trial.agent).model is not None
    if stage is Stage.REMEMBER:
        yield from _of_life(seen.document(stage, Remembered))
    elif stage is Stage.ISOLATE:
        yield "declared"
        # What holds a literal is not kept.
        yield from () if seen.document(stage, Isolation).findings else ("inventory",)
    elif stage is Stage.ACT:
        yield "output"
        yield from ("traffic", "injection-proof") if seen.plan.gateway else ()
        yield from ("transcript",) if asks else ()
        yield from (TOOL_LOG,) if seen.condition.gives_tools else ()
    elif stage is Stage.HARVEST:
        yield "diff"
    elif stage is Stage.GRADE:
        yield from _of_grade(seen, asks=asks)


def _of_life(said: Remembered) -> Iterator[str]:
    for record in said.steps:
        if record.answer_sha256 is not None and record.step in ANSWERS:
            yield ANSWERS[record.step]
            yield from ("dump", "store.tar") if record.step is Step.FREEZE else ()


def _of_grade(seen: Attempted, *, asks: bool) -> Iterator[str]:
    yield from (TRACE,) if is_traced(seen.condition) else ()
    if any(item.name == CONDEMNED for item in seen.record.stages[Stage.GRADE].artifacts):
        yield CONDEMNED
        return
    yield from ("reader-metrics",) if asks else ()
    for phase in ("pass-to-pass", "fail-to-pass"):
        yield from (f"{phase}-{part}" for part in _OF_A_PHASE)


def check_isolation(seen: Attempted) -> None:
    """The declaration is that of plan and arm, and the differences are those of declaration and inventory.

    The digest of the image's listing, what was found in its layers, and the inventory itself are the record's own
    word; an attempt that ended for what an inventory holds is counted.

    Raises:
        MemtrialError: declaration, differences, layers or literals are not what plan and inventory give.
    """
    if not seen.has(Stage.ISOLATE):
        return
    proof = seen.document(Stage.ISOLATE, Isolation)
    data = seen.artifact(Stage.ISOLATE, "declared")
    declared = DeclaredInventory.parse_canonical(data, where="declared inventory")
    pin = seen.plan.pin_of(seen.trial)
    gateway = seen.plan.gateway is not None
    again = declare(pin, seen.condition, declared.listing_sha256, gateway=gateway)
    wrong = [name for name, value in again if value != getattr(declared, name)]
    seen.require("parts of the declaration that differ from plan and arm", [], wrong)
    seen.require("digest of the declaration", declared.digest_sha256(), proof.declared_sha256)
    seen.require("condition", seen.condition.id, proof.condition_id)
    seen.require("layers", pin.agent_image.diff_ids, proof.layers)
    check_found_before(seen, proof)
    seen.own_word(UNDECLARED, bool(proof.differences))
    kept = seen.found(Stage.ISOLATE, "inventory")
    if kept is None:
        return
    inventory = Inventory.parse_canonical(kept, where="inventory")
    seen.require("digest of the inventory", inventory.digest_sha256(), proof.inventory_sha256)
    differences = compare(declared, inventory)[:MAX_DIFFERENCES]
    told = proof.differences[: len(differences)]
    # A subject that holds a literal is not written out; names of image files come behind.
    facts = [(d.what, d.how, d.expected_sha256, d.found_sha256) for d in differences]
    said = [(d.what, d.how, d.expected_sha256, d.found_sha256) for d in told]
    seen.require("differences of declaration and inventory", facts, said)
    if not differences:
        seen.require("further differences", (), proof.differences)
