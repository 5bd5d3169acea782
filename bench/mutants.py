"""Proof of the trust room's tests: changes its code one place at a time, and counts what the tests do not notice.

The unchanged tests run once, and must pass; what each executes decides which judge a place. A change inside a
function is given to loaded functions in a fork of a process that has collected the tests; any other, and one
that ran while tests were loaded, is imported anew in a fork that has loaded nothing of the room. Goes on where
it was interrupted: what was judged lies in results/proofs/mutants.partial, and counts while program and tests
are the same; a kill for as long as its module and the test that killed are. At the end it writes
results/proofs/mutants-DATE.json.

Exit 0: every place judged, every survivor explained. 1: not so. 2: places are left; the same command goes on.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bench.mutants_baseline import SUITES, arguments, learn
from bench.mutants_explained import ROOM, stale, why_unnoticed
from bench.mutants_forks import (
    Answer,
    Changed,
    die_with_parent,
    forked,
    run_fresh,
    run_loaded,
)
from bench.mutants_judge import NOTICED, Baseline, Outcome, judge
from bench.mutants_places import Place, places
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import run_stamp
from orchestrator.core.files import write_atomic

ROOT = Path(__file__).resolve().parents[1]
PARTIAL = ROOT / "results" / "proofs" / "mutants.partial"
BASELINE_TIMEOUT_S = 3600.0
# Heavy, and the same under every change: loaded once for all forks. None of them knows the room.
LOADED = (
    "orchestrator.model.plan",
    "orchestrator.model.gate",
    "orchestrator.model.schemas",
    "tuf.api.metadata",
)
FEW_S = 8.0


@dataclass(slots=True)
class Work:
    """The places to judge, what the tests do unchanged, and the digests that say whether an outcome still holds."""

    places: list[Place]
    baseline: Baseline
    source: str
    began_s: float
    seconds: float
    bound_s: float


def sources_of(room: str = ROOM) -> dict[str, str]:
    """Returns the text of each module of the room, by its path in the repository."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / room).rglob("*.py"))
    }


def source_sha256() -> str:
    """Returns a digest of all that decides an outcome: the program, the tests that judge, and how they judge."""
    folders = ("orchestrator", *SUITES)
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    files += [*(ROOT / "tests").glob("*.py"), *(ROOT / "bench").glob("mutants_*.py")]
    files.remove(ROOT / "bench" / "mutants_explained.py")
    return sha256_hex("".join(sha256_hex(path.read_bytes()) for path in sorted(files)).encode())


def baseline_of(source: str, sources: dict[str, str]) -> Baseline:
    """Returns what the unchanged tests do, from the file of an interrupted run of the same source, or anew."""
    kept = PARTIAL / "baseline.json"
    told: Any = json.loads(kept.read_bytes()) if kept.is_file() else {}
    if told.get("source") != source:
        print("running the tests unchanged, to learn what each executes", flush=True)
        found = forked(lambda: learn(ROOT, ROOM), timeout_s=BASELINE_TIMEOUT_S)
        check_baseline(found)
        assert isinstance(found, dict)
        told = {"source": source, **found}
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(kept, json.dumps(told).encode())
    return Baseline(told["seconds"], told["lines"], told["early"], sources)


def check_baseline(found: dict[str, Any] | str) -> None:
    """Raises SystemExit when the unchanged tests do not pass: they would call every change killed."""
    if isinstance(found, str):
        raise SystemExit(f"the tests gave no answer on unchanged code: {found}")
    if found["failed"] or not found["seconds"]:
        failed = "\n  ".join(found["failed"]) or "no test ran"
        raise SystemExit(f"the tests do not pass on unchanged code; mend them first:\n  {failed}")


def kept_outcomes(source: str, sources: dict[str, str]) -> dict[str, Outcome]:
    """Returns the outcomes of earlier runs that still hold."""
    found: dict[str, Outcome] = {}
    path = PARTIAL / "judged.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        told = json.loads(line)
        if holds(told, source, sources):
            found[told["place"]] = Outcome(**told["outcome"])
    return found


def holds(told: dict[str, Any], source: str, sources: dict[str, str]) -> bool:
    """Whether an outcome still counts: of the same source, or a kill whose module and test are the same."""
    if told["outcome"]["kind"] in {"unsteady", "unjudged"}:
        return False
    if told["source"] == source:
        return True
    module = sources.get(told["module"])
    test = str(told["outcome"]["by"]).split("::")[0]
    return (
        told["outcome"]["kind"] == "killed"
        and module is not None
        and told["module_sha256"] == sha256_hex(module.encode())
        and (ROOT / test).is_file()
        and told["test_sha256"] == sha256_hex((ROOT / test).read_bytes())
    )


def keep(place: Place, outcome: Outcome, work: Work) -> None:
    """Adds an outcome to those kept, in one write: several processes add to the file."""
    test = ROOT / str(outcome.by).split("::", maxsplit=1)[0]
    told = {
        "place": place.key,
        "module": place.module,
        "source": work.source,
        "module_sha256": sha256_hex(work.baseline.sources[place.module].encode()),
        "test_sha256": sha256_hex(test.read_bytes()) if test.is_file() else None,
        "outcome": asdict(outcome),
    }
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptor = os.open(PARTIAL / "judged.jsonl", flags, 0o644)
    os.write(descriptor, json.dumps(told).encode() + b"\n")
    os.close(descriptor)


def judge_all(
    work: Work, run: Callable[[Sequence[str], Changed | None], Answer], name: str
) -> None:
    """Judges places until all are or the time is over; tells each."""
    for number, place in enumerate(work.places, 1):
        if time.monotonic() - work.began_s > work.seconds:
            return
        outcome = judge(ROOT, place, work.baseline, run, work.bound_s)
        if outcome is None:
            continue
        keep(place, outcome, work)
        told = f"[{name} {number}/{len(work.places)} {time.monotonic() - work.began_s:.0f} s] {outcome.kind:<9}"
        change = f"{place.before!r:.60} -> {place.after!r:.60}"
        print(
            f"{told} {place.module}:{place.line} {change} {outcome.by or outcome.note or ''}",
            flush=True,
        )


def judge_loaded(work: Work, name: str) -> None:
    """Judges by changed functions, in a process that has collected the tests."""

    class Judge:
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            items = {item.nodeid: item for item in session.items}
            judge_all(
                work, lambda tests, module: run_loaded([items[t] for t in tests], module), name
            )
            return True

    pytest.main(arguments(ROOT), plugins=[Judge()])


def judge_fresh(work: Work, name: str) -> None:
    """Judges by fresh imports, in forks of a process that has loaded nothing of the room."""
    check_unloaded()
    judge_all(work, lambda tests, module: run_fresh(ROOT, tests, module), name)


def check_unloaded() -> None:
    """Raises SystemExit when a module of the room is loaded, or tests are: changes would not be in force."""
    prefixes = (ROOM.rstrip("/").replace("/", "."), "tests")
    loaded = [name for name in sys.modules if name.startswith(prefixes)]
    if loaded:
        raise SystemExit(f"loaded before they could be changed: {', '.join(sorted(loaded))}")


def in_shares(work: Work, judges: Callable[[Work, str], None], name: str, jobs: int) -> None:
    """Has so many processes judge a share each."""
    children = []
    for share in range(jobs):
        child = os.fork()
        if child == 0:
            die_with_parent()
            part = replace(work, places=work.places[share::jobs])
            status = 1
            try:
                judges(part, f"{name} {share + 1}")
                status = 0
            finally:
                sys.stdout.flush()
                os._exit(status)
        children.append(child)
    for child in children:
        _, status = os.waitpid(child, 0)
        if status != 0:
            raise SystemExit(
                f"a process that judged ended with {os.waitstatus_to_exitcode(status)}"
            )


# First every place by few tests, as different as can be; then what outlived these by all that execute it.
ROUNDS = (
    (judge_loaded, "loaded", FEW_S),
    (judge_fresh, "fresh", FEW_S),
    (judge_loaded, "loaded, all tests", math.inf),
    (judge_fresh, "fresh, all tests", math.inf),
)


def is_left(outcome: Outcome | None, bound_s: float) -> bool:
    """Whether a place is still to be judged by tests of so many seconds."""
    return outcome is None or (outcome.kind == "outlived" and bound_s == math.inf)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin no other change after that"
    )
    parser.add_argument("--jobs", type=int, default=2, choices=(1, 2))
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--module", action="append", default=[], help="only this file of the room")
    parser.add_argument("--text", action="append", default=[], help="only lines with this in them")
    parser.add_argument("--anew", action="store_true", help="forget what was judged before")
    return parser.parse_args()


def main() -> int:
    asked, began_s = parsed(), time.monotonic()
    source, sources = source_sha256(), sources_of()
    listed = [place for module, text in sources.items() for place in places(module, text)]
    if asked.anew:
        (PARTIAL / "judged.jsonl").unlink(missing_ok=True)
    for module in LOADED:
        importlib.import_module(module)
    check_unloaded()
    baseline = baseline_of(source, sources)
    chosen = [place for place in listed if _chosen(place, asked)]
    for judges, name, bound_s in ROUNDS:
        done = kept_outcomes(source, sources)
        left = [p for p in chosen if is_left(done.get(p.key), bound_s)]
        # What loaded functions do not bear is left for a fresh import.
        if judges is judge_loaded:
            left = [p for p in left if not baseline.is_early(p)]
        random.Random(asked.seed).shuffle(left)
        print(f"{len(done)} judged, {len(left)} to judge ({name})", flush=True)
        if left:
            work = Work(left, baseline, source, began_s, asked.seconds, bound_s)
            in_shares(work, judges, name, asked.jobs)
    return written(listed, kept_outcomes(source, sources), source, time.monotonic() - began_s)


def _chosen(place: Place, asked: argparse.Namespace) -> bool:
    named = not asked.module or any(place.module.endswith("/" + name) for name in asked.module)
    return named and (not asked.text or any(text in place.text for text in asked.text))


def written(listed: list[Place], outcomes: dict[str, Outcome], source: str, seconds: float) -> int:
    """Tells what was found; of a whole run it writes the dated file."""
    report = summary(listed, outcomes)
    for line in (*report["stale"], *report["needless"]):
        print(f"stale explanation: {line}")
    for one in report["unnoticed"]:
        if one["why"] is None:
            print(
                f"{one['outcome']['kind']}: {one['module']}:{one['line']} {one['scope']}: {one['before']!r} -> {one['after']!r}"
            )
    print(
        f"{report['judged']} of {report['places']} judged: {report['outcomes']}; {report['unexplained']} unexplained"
    )
    if report["judged"] < report["places"]:
        print("not finished: the same command goes on")
        return 2
    path = ROOT / "results" / "proofs" / f"mutants-{run_stamp()}.json"
    told = {"source_sha256": source, "seconds_of_last_run": round(seconds), **report}
    write_atomic(path, json.dumps(told, indent=2).encode() + b"\n")
    print(path)
    return 1 if report["unexplained"] or report["stale"] or report["needless"] else 0


def summary(listed: list[Place], outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """Returns the counts, and each change that was not noticed with why, if that is explained."""
    found = ((p, outcomes.get(p.key)) for p in listed)
    judged = [(p, o) for p, o in found if o is not None and o.kind != "outlived"]
    unnoticed = [
        {
            "module": place.module,
            "line": place.line,
            "scope": place.scope,
            "kind": place.kind,
            "text": place.text,
            "before": place.before,
            "after": place.after,
            "outcome": asdict(outcome),
            "why": why_unnoticed(place) if outcome.kind == "survived" else None,
        }
        for place, outcome in judged
        if outcome.kind not in NOTICED
    ]
    return {
        "room": ROOM,
        "places": len(listed),
        "judged": len(judged),
        "outcomes": dict(Counter(outcome.kind for _, outcome in judged)),
        "by_module": {
            module: dict(Counter(o.kind for p, o in judged if p.module == module))
            for module in sorted({p.module for p, _ in judged})
        },
        "timeouts": [f"{p.module}:{p.line} {p.after}" for p, o in judged if o.kind == "timeout"],
        "unnoticed": unnoticed,
        "unexplained": sum(one["why"] is None for one in unnoticed),
        "stale": stale(listed),
        "needless": [
            f"{p.module}:{p.line}: {p.before}: {o.by} notices it"
            for p, o in judged
            if o.kind in NOTICED and why_unnoticed(p)
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
