"""Validates tasks: all paper checks, then the proofs in containers, and one report bound to the tasks' files.

A check that cannot be made because an earlier one failed says so. Reads fixtures; writes only where the
caller puts the report.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.core.errors import DocumentError, IntegrityError, MemtrialError
from orchestrator.core.places import cache_root
from orchestrator.model.plan import TaskPin
from orchestrator.model.validation import (
    Check,
    CheckName,
    TaskValidation,
    ValidationReport,
    task_sha256,
)
from orchestrator.pipeline.imaging import languages_of, shared_images
from orchestrator.pipeline.validate import paper, proofs
from orchestrator.pipeline.validate.rehearse import Outcome, Stage
from orchestrator.sandbox.adapter import DockerSandbox, EngineClient
from orchestrator.sandbox.identity import installation_id
from orchestrator.sandbox.images import ensure_loaded, pin
from orchestrator.sandbox.layers import ImageSpec
from orchestrator.sources.checkout import Checkout
from orchestrator.sources.loader import LoadedTask

Say = Callable[[str], None]
REPORT = "validation.json"
BASE_REPEATS = 3
PROOFS: tuple[CheckName, ...] = (
    "v2-base-suite",
    "v3-live-source",
    "v4-no-op",
    "v5-reference",
    "v6-guesses",
    "v11-time",
)


def validate(
    tasks: Sequence[LoadedTask], client: EngineClient | None, say: Say, *, repeats: int
) -> ValidationReport:
    """Validates tasks; without an engine only what paper tells, and no task is then valid.

    Args:
        tasks: the loaded tasks.
        client: an engine, or None.
        say: progress lines.
        repeats: how often the reference is played.
    """
    return ValidationReport(
        repeats=repeats, tasks=tuple(_validate_one(task, client, say, repeats) for task in tasks)
    )


def _validate_one(
    task: LoadedTask, client: EngineClient | None, say: Say, repeats: int
) -> TaskValidation:
    say(f"validate {task.card.id}: reading")
    v1, checkout = paper.pins(task)
    specs = _images(task, client, say) if client is not None and checkout is not None else None
    made = {
        v1.name: v1,
        **{c.name: c for c in (paper.hidden_tests(task), paper.overlap(task, checkout))},
        **{c.name: c for c in (paper.history(task), paper.redaction(task))},
        "v9-leaks": paper.leaks(task, checkout, _own_layers(specs)),
    }
    if client is None or checkout is None or specs is None:
        why = "run with an engine" if client is None else "mend v1-pins first"
        made |= {name: Check(name=name, ok=False, evidence=f"not made: {why}") for name in PROOFS}
    else:
        made |= {c.name: c for c in _proofs(_stage(task, client, specs), checkout, say, repeats)}
    checks = tuple(made[name] for name in sorted(made, key=_number))
    return TaskValidation(
        id=task.card.id,
        task_sha256=task_sha256(task.digests),
        ok=all(c.ok for c in checks),
        checks=checks,
        difficulty=paper.difficulty(task),
    )


def _number(name: str) -> int:
    return int(name.removeprefix("v").partition("-")[0])


def _images(task: LoadedTask, client: EngineClient, say: Say) -> tuple[ImageSpec, ImageSpec]:
    specs = shared_images(client, languages_of([task]), say).of_task(task)
    for role, spec in zip(("agent", "verifier"), specs, strict=True):
        ensure_loaded(client, f"{task.card.id}-{role}", spec, say)
    return specs


def _own_layers(specs: tuple[ImageSpec, ImageSpec] | None) -> list[bytes]:
    """Returns the layers that are made with a task at hand: our programs and the checkout."""
    layers = {layer.diff_id: layer.data for spec in specs or () for layer in spec.layers}
    return [data for data in layers.values() if isinstance(data, bytes)]


def stage_for(task: LoadedTask, client: EngineClient, say: Say) -> Stage:
    """Returns a task with its images made, ready to be played."""
    return _stage(task, client, _images(task, client, say))


def _stage(task: LoadedTask, client: EngineClient, specs: tuple[ImageSpec, ImageSpec]) -> Stage:
    task_pin = TaskPin(
        digests=task.digests,
        tree=task.source.expect.tree,
        commit=task.source.expect.commit,
        limits=task.brief.limits,
        agent_image=pin(specs[0]),
        verifier_image=pin(specs[1]),
    )
    return Stage(DockerSandbox(client, installation_id(cache_root())), task, task_pin)


def _proofs(stage: Stage, checkout: Checkout, say: Say, repeats: int) -> list[Check]:
    """Makes every proof; a patch that does not apply fails the check that needs it."""
    name = stage.task.card.id
    rehearsal = stage.task.rehearsal
    say(f"validate {name}: base suite, {BASE_REPEATS} times")
    idle = [stage.play("") for _ in range(BASE_REPEATS)]
    checks = [proofs.base_suite(stage, idle), proofs.no_op(stage, idle[0])]
    say(f"validate {name}: broken sources, guesses")
    checks.append(_tried("v3-live-source", lambda: proofs.live_source(stage, checkout.entries)))
    checks.append(
        _tried(
            "v6-guesses",
            lambda: proofs.guesses(
                stage, stage.play(rehearsal.natural_patch), stage.play(rehearsal.overeager_patch)
            ),
        )
    )
    say(f"validate {name}: reference, {repeats} times")
    plays: list[Outcome] = []
    checks.append(_tried("v5-reference", lambda: _reference(stage, repeats, plays)))
    load_per_core = os.getloadavg()[1] / (os.cpu_count() or 1)
    return [*checks, proofs.in_time([*idle, *plays], load_per_core)]


def _reference(stage: Stage, repeats: int, plays: list[Outcome]) -> Check:
    """Plays the reference; the plays at full speed are put into `plays`."""
    patch = stage.task.rehearsal.reference_patch
    if not patch:
        return Check(
            name="v5-reference", ok=False, evidence="rehearsal/reference.patch is empty: write it"
        )
    plays += [stage.play(patch) for _ in range(repeats)]
    limits = stage.task.brief.limits
    half = limits.model_copy(update={"cpus_milli": max(100, limits.cpus_milli // 2)})
    return proofs.reference(stage, plays, stage.play(patch, limits=half))


def _tried(name: CheckName, make: Callable[[], Check]) -> Check:
    try:
        return make()
    except IntegrityError as error:
        return Check(name=name, ok=False, evidence=f"{error.message}; {error.hint}")


def read_report(fixtures: Path) -> ValidationReport | None:
    """Reads the recorded report of a fixtures folder; None without one."""
    path = fixtures / REPORT
    return ValidationReport.parse(path.read_bytes(), where=REPORT) if path.is_file() else None


def merged_report(old: ValidationReport | None, new: ValidationReport) -> ValidationReport:
    """Returns the new report with the old entries of tasks that were not validated now."""
    fresh = {task.id for task in new.tasks}
    kept = [task for task in (old.tasks if old else ()) if task.id not in fresh]
    tasks = tuple(sorted([*kept, *new.tasks], key=lambda task: task.id))
    return ValidationReport(
        repeats=min(new.repeats, old.repeats if old and kept else new.repeats), tasks=tasks
    )


def check_valid(task: LoadedTask, report: ValidationReport | None, *, official: bool) -> str | None:
    """Returns the digest of a task's recorded validation; None where none was recorded for these files.

    Raises:
        DocumentError: a check failed, or an official plan asks for a task that was not validated.
    """
    entry = next((t for t in report.tasks if t.id == task.card.id), None) if report else None
    same = entry is not None and entry.task_sha256 == task_sha256(task.digests)
    if entry is None or not same:
        if official:
            raise _refused(task, "expected a validation of exactly these files, found none")
        return None
    failed = [c for c in entry.checks if not c.ok]
    if failed:
        raise _refused(
            task, f"expected every check to hold, found {failed[0].name}: {failed[0].evidence}"
        )
    return entry.digest_sha256()


def _refused(task: LoadedTask, message: str) -> MemtrialError:
    return DocumentError(
        "task-not-valid",
        f"task {task.card.id}: {message}",
        hint=f"run `memtrial tasks validate {task.card.id} --write`",
    )
