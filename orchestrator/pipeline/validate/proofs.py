"""The checks that run the task's suite in containers: base suite, live source, no-op, reference, guesses, time."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from orchestrator.core.errors import IntegrityError
from orchestrator.core.gittree import FileEntry
from orchestrator.core.pathglob import matches_any
from orchestrator.model.validation import Check
from orchestrator.model.verdict import Tally
from orchestrator.pipeline.validate.paper import check
from orchestrator.pipeline.validate.rehearse import Outcome, Stage

MAX_SUITE_MS = 20_000
MAX_SAID_CHARS = 300
# Beyond this others had a part of the time; a validation itself keeps about one process for each core busy.
MAX_LOAD_PER_CORE = 1.5
# A line that breaks a source file of a language wherever it is put at the end of one.
PROBES = {
    ".py": 'raise RuntimeError("probe")\n',
    ".go": 'func init() { panic("probe") }\n',
    ".rs": 'compile_error!("probe");\n',
    ".js": 'throw new Error("probe");\n',
    ".mjs": 'throw new Error("probe");\n',
    ".cjs": 'throw new Error("probe");\n',
    ".ts": 'throw new Error("probe");\n',
    ".mts": 'throw new Error("probe");\n',
}


def base_suite(stage: Stage, plays: Sequence[Outcome]) -> Check:
    """V2: the pinned base suite, no more and no less, passes each time and alike."""
    problems = []
    pinned = {t.id: t.n for t in stage.task.key.pass_to_pass}
    found = {t.id: t.n for t in plays[0].base.tests if t.status == "pass"}
    problems += [
        f"{name} is pinned and does not pass: pin what the suite has"
        for name in sorted(set(pinned) - set(found))[:3]
    ]
    problems += [
        f"{name} occurs {found[name]} times, pinned are {pinned[name]}"
        for name in sorted(pinned)
        if found.get(name, pinned[name]) != pinned[name]
    ][:3]
    lost = stage.tallies(plays[0])[2]
    problems += [
        f"{name} is pinned to pass apart and does not: run `memtrial tasks pin {stage.task.card.id}`"
        for name in sorted({*lost.failed, *lost.missing} & set(stage.task.key.apart) & set(found))
    ][:3]
    problems += _faults(plays)
    if any(play.statuses() != plays[0].statuses() for play in plays):
        problems.append(f"the suite gives other results when it is repeated: {_unstable(plays)}")
    apart = f", {len(stage.task.key.apart)} of them apart from the code under test as well"
    return check(
        "v2-base-suite",
        problems,
        f"{len(pinned)} tests pass, alike in {len(plays)} runs{apart if stage.task.key.apart else ''}",
    )


def no_op(stage: Stage, play: Outcome) -> Check:
    """V4: without a change every hidden test fails and the base suite passes."""
    capability, memory, base = stage.tallies(play)
    problems = []
    if capability.passed or memory.passed:
        problems.append(
            f"{capability.passed + memory.passed} hidden tests pass without any change: {_passing(stage, play)}"
        )
    problems += _not_whole("base suite", base)
    return check(
        "v4-no-op",
        problems,
        f"F2P 0 of {capability.expected + memory.expected}, P2P {base.passed} of {base.expected}",
    )


def live_source(stage: Stage, entries: Sequence[FileEntry]) -> Check:
    """V3: the suite tests the files of the source roots and no other copy of them."""
    runner = stage.task.card.runner
    problems, seen = [], []
    for root in runner.source_roots:
        files = [e for e in entries if _is_source(e, root, stage)]
        if not files:
            problems.append(
                f"{root} holds no source file that a probe could break: mend source_roots"
            )
            continue
        play = stage.play("".join(_broken(entry) for entry in files))
        tally = stage.tallies(play)[2]
        seen.append(
            f"{root}: {tally.expected - tally.passed} of {tally.expected} tests fail with {len(files)} files broken"
        )
        if tally.passed == tally.expected:
            problems.append(
                f"all tests pass with every file of {root} broken: they test another copy; exclude or uninstall it"
            )
    return check("v3-live-source", problems, "; ".join(seen) or "no source root")


def reference(stage: Stage, plays: Sequence[Outcome], slow: Outcome) -> Check:
    """V5: the reference passes everything, each time alike, also with half the processor time."""
    problems = []
    for what, tally in zip(
        ("capability tests", "memory tests", "base suite"), stage.tallies(plays[0]), strict=True
    ):
        problems += _not_whole(what, tally)
    if plays[0].hidden.compile_error:
        said = " ".join(plays[0].hidden.compile_error.split())[:MAX_SAID_CHARS]
        problems.insert(0, f"the hidden tests do not build with the reference: {said}")
    problems += _faults(plays)
    if any(play.statuses() != plays[0].statuses() for play in (*plays, slow)):
        problems.append(
            f"the reference gives other results when it is repeated: {_unstable([*plays, slow])}"
        )
    return check(
        "v5-reference", problems, f"all tests pass, alike in {len(plays)} runs and at half speed"
    )


def guesses(stage: Stage, natural: Outcome, overeager: Outcome) -> Check:
    """V6: who does the job without the fact fails a memory test; who overdoes it breaks the base suite."""
    problems = []
    capability, memory, base = stage.tallies(natural)
    if not natural.base.compiled:
        problems.append("natural.patch does not build: make it one that an engineer would send")
    if memory.passed == memory.expected:
        problems.append(
            "natural.patch passes every memory test: the fact can be guessed; choose another, or test it harder"
        )
    problems += _not_whole("capability tests under natural.patch", capability)
    problems += _not_whole("base suite under natural.patch", base)
    over = stage.tallies(overeager)[2]
    if not overeager.base.compiled:
        problems.append("overeager.patch does not build: make it one that an engineer would send")
    elif over.passed == over.expected:
        problems.append(
            "overeager.patch breaks no test of the base suite: nothing guards the scope of the fact"
        )
    return check(
        "v6-guesses",
        problems,
        f"natural fails {memory.expected - memory.passed} of {memory.expected} memory tests; overeager breaks {over.expected - over.passed} of {over.expected}",
    )


def in_time(plays: Sequence[Outcome], load_per_core: float = 0.0) -> Check:
    """V11: a warm run of the suite, container and all, keeps within its time.

    It is wall time, so a machine with more to do than it has cores lengthens it: the evidence then says so.
    """
    best_ms = min(play.container_ms for play in plays)
    advice = "choose fewer test_paths"
    if load_per_core > MAX_LOAD_PER_CORE:
        advice = f"the machine was busy (load {load_per_core:.1f} for each core), so validate again when it is not"
    found = f"expected at most {MAX_SUITE_MS / 1000:.0f} s, found {best_ms / 1000:.1f} s"
    problems = [] if best_ms <= MAX_SUITE_MS else [f"{found}: {advice}"]
    return check("v11-time", problems, f"{best_ms / 1000:.1f} s, best of {len(plays)}")


def _not_whole(what: str, tally: Tally) -> list[str]:
    lost = [*tally.failed, *tally.missing]
    return [f"{what}: {len(lost)} of {tally.expected} do not pass, first {lost[0]}"] if lost else []


def _faults(plays: Sequence[Outcome]) -> list[str]:
    faults = [f for play in plays for report in (play.base, play.hidden) for f in report.faults]
    timed_out = [r.phase for play in plays for r in (play.base, play.hidden) if r.timed_out]
    return [f"the report is not believed: {f.kind}: {f.detail}" for f in faults[:1]] + [
        f"{phase} ran out of time: raise timeout_s or lower test_paths" for phase in timed_out[:1]
    ]


def _passing(stage: Stage, play: Outcome) -> str:
    wanted = {t.id for t in stage.task.key.card.fail_to_pass}
    return ", ".join([t.id for t in play.hidden.tests if t.id in wanted and t.status == "pass"][:3])


def _unstable(plays: Sequence[Outcome]) -> str:
    seen = [play.statuses() for play in plays]
    names = sorted({name for one in seen for name in one})
    return ", ".join([n for n in names if len({one.get(n) for one in seen}) > 1][:3])


def _is_source(entry: FileEntry, root: str, stage: Stage) -> bool:
    suffix = "." + entry.path.rpartition(".")[2]
    inside = root == "." or entry.path.startswith(f"{root}/")
    brief = stage.task.brief
    barred = entry.path.endswith("_test.go") or not matches_any(entry.path, brief.allowed_paths)
    whole = entry.data.endswith(b"\n") and entry.mode != "120000"
    return inside and whole and suffix in PROBES and not barred


def _broken(entry: FileEntry) -> str:
    """Returns a patch that puts the probe at the end of a file.

    Raises:
        IntegrityError: the file is not text.
    """
    try:
        old = entry.data.decode("utf-8").splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise IntegrityError(
            "source-not-utf8", f"{entry.path}: expected UTF-8, found other bytes", hint="exclude it"
        ) from error
    new = [*old, PROBES["." + entry.path.rpartition(".")[2]]]
    lines = difflib.unified_diff(old, new, f"a/{entry.path}", f"b/{entry.path}")
    return f"diff --git a/{entry.path} b/{entry.path}\n" + "".join(lines)
