"""Proof of what the reference pipeline costs: ingest of 10,000 events, search over 100,000 memories.

Ingest runs in a process of its own, so that its peak of memory is its own; embedding is left out of it and
reported per note. Search is measured with the query's vectors made beforehand, which are reported apart.
Times lie on a shared machine; the ratios to the bars are what counts. Writes a dated JSON below results/proofs.
"""

from __future__ import annotations

import json
import platform
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

from orchestrator.core.clock import run_stamp
from orchestrator.memory.reference.adapter import ReferenceAdapter
from orchestrator.memory.reference.retrieve import Searcher
from orchestrator.memory.reference.store import open_store, reopen_frozen
from orchestrator.memory.reference.vectors import CachedEmbedder, installed_embedder
from orchestrator.memory.sessions import PROJECT, HistoryClock
from orchestrator.memory.sqlite.search import query_terms
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.lifecycle import Session
from orchestrator.model.task import Event, ToolCall
from orchestrator.protocols import MemoryPlace

ROOT = Path(__file__).resolve().parents[1]
EVENTS = 10_000
EVENTS_PER_SESSION = 20
MEMORIES = 100_000
DIMENSIONS = 384
QUERIES = 11
ROLES: tuple[Literal["user", "tool", "assistant"], ...] = ("user", "tool", "assistant")
INGEST_BAR_S, INGEST_BAR_MB, SEARCH_BAR_MS = 60.0, 500.0, 60.0
# Common and rare words of working conversations, drawn by a Zipf-like law; the long tail is numbered names.
COMMON = [
    "gateway",
    "port",
    "service",
    "customer",
    "invoice",
    "report",
    "export",
    "limit",
    "table",
    "cache",
    "key",
    "worker",
    "queue",
    "retry",
    "deploy",
    "branch",
    "test",
    "build",
    "release",
    "column",
    "currency",
    "weight",
    "label",
    "printer",
    "token",
    "upload",
    "schedule",
    "shift",
    "crew",
    "region",
    "account",
    "user",
    "order",
]
OPENINGS = (
    "We decided that the {} of the {} is {} from now on.",
    "Never let the {} touch the {} before {}, because it broke the {}.",
    "The {} must always have at most {} {} in the {}.",
    "I prefer the {} before the {} in every {}.",
    "The {} belongs to the {} crew, ask them about {}.",
)
CHATTER = (
    "Thanks, done.",
    "Does the {} still build?",
    "Please bump the {} version.",
    "Looks fine to me.",
)


def word(rng: random.Random) -> str:
    return (
        rng.choice(COMMON) if rng.random() < 0.6 else f"{rng.choice(COMMON)}{rng.randrange(5000)}"
    )


def line(rng: random.Random, forms: tuple[str, ...]) -> str:
    form = rng.choice(forms)
    return form.format(*(word(rng) for _ in range(form.count("{}"))))


def sessions() -> list[Session]:
    """10,000 events in sessions of 20: a third of them states something to last."""
    rng = random.Random(20261130)
    made = []
    for number in range(EVENTS // EVENTS_PER_SESSION):
        day = f"{2020 + number // 336}-{number // 28 % 12 + 1:02d}-{number % 28 + 1:02d}"
        events = []
        for n in range(EVENTS_PER_SESSION):
            role = ROLES[n % 3]
            text = line(rng, OPENINGS if rng.random() < 0.5 else CHATTER) if role == "user" else ""
            if role == "tool":
                text = "\n".join(line(rng, CHATTER) for _ in range(20))
            if role == "assistant":
                text = "Noted. " + line(rng, CHATTER)
            events.append(
                Event(
                    event_id=f"s{number:04d}-e{n:02d}",
                    at=f"{day}T09:{n:02d}:00Z",
                    role=role,
                    text=f"{text} ({number}.{n})",
                    tool=ToolCall(name="bash", input="run", exit_code=n % 2)
                    if role == "tool"
                    else None,
                )
            )
        made.append(
            Session(
                session_id=f"s{number:04d}",
                scope=PROJECT,
                started_at=events[0].at,
                events=tuple(events),
            )
        )
    return made


def ingest() -> dict[str, Any]:
    """Captures, extracts, decides and freezes; in a process of its own."""
    given = sessions()
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        clock = HistoryClock(given[0].started_at)
        adapter = ReferenceAdapter(TokenCounter(), embedder=None)
        began, cpu = time.perf_counter(), time.process_time()
        adapter.open(MemoryPlace(work, work, None, clock, None, 1))
        for session in given:
            adapter.ingest(session)
            clock.reach(session.events[-1].at)
        captured = time.perf_counter()
        report = adapter.settle(3600)
        settled = time.perf_counter()
        snapshot = adapter.freeze()
        ended = time.perf_counter()
        size = (work / "memory.sqlite").stat().st_size
        adapter.close()
        used = time.process_time() - cpu
    rules: dict[str, int] = {}
    for candidate in report.candidates:
        rules[candidate.rule] = rules.get(candidate.rule, 0) + 1
    return {
        "events": sum(len(s.events) for s in given),
        "candidates": len(report.candidates),
        "memories": snapshot.memories,
        "rules": rules,
        "wall_s": round(ended - began, 2),
        "cpu_s": round(used, 2),
        "capture_s": round(captured - began, 2),
        "extract_and_decide_s": round(settled - captured, 2),
        "freeze_s": round(ended - settled, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "peak_before_mb": round(before_mb, 1),
        "store_bytes": size,
    }


def search(embedder: CachedEmbedder) -> dict[str, Any]:
    """Fills a store with 100,000 memories and random vectors of length 1, then asks."""
    embedder.embed(
        "warm"
    )  # loads numpy as the pipeline does: before anything else, with one thread
    import numpy as np

    rng = random.Random(7)
    vectors = np.random.default_rng(7).standard_normal((MEMORIES, DIMENSIONS), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.sqlite"
        store = open_store(path)
        with store:
            store.execute("BEGIN")
            for n in range(MEMORIES):
                text = line(rng, OPENINGS)
                store.execute(
                    "INSERT INTO memories VALUES (?, ?, ?, 'decision', ?, '[]', '[]', ?, '[]', NULL, '[]', '2026', '2026')",
                    (n, f"m{n:05d}", f"c{n:05d}", text, PROJECT),
                )
                store.execute("INSERT INTO memory_text(rowid, text) VALUES (?, ?)", (n, text))
                store.execute(
                    "INSERT INTO vectors VALUES (?, ?, ?)",
                    (f"m{n:05d}", embedder.name, vectors[n].tobytes()),
                )
        store.execute("INSERT INTO memory_text(memory_text) VALUES ('optimize')")
        store.close()
        del vectors
        began = time.perf_counter()
        searcher = Searcher(reopen_frozen(path), PROJECT, embedder)
        opened_s = time.perf_counter() - began
        prompts = [
            f"Write the {word(rng)} of the {word(rng)}. It must keep the {word(rng)} as agreed with the {word(rng)} crew; "
            f"mind why the {word(rng)} broke in spring and which {word(rng)} limit came out of it."
            for _ in range(QUERIES)
        ]
        embed_ms: list[float] = []
        search_ms: list[float] = []
        search_cpu_ms: list[float] = []
        channels: dict[str, list[float]] = {}
        for prompt in prompts:
            began = time.perf_counter()
            searcher.nearest(prompt, 1)
            warm, cpu = time.perf_counter(), time.process_time()
            found = searcher.search(prompt, 12)
            ended = time.perf_counter()
            embed_ms.append((warm - began) * 1000)
            search_ms.append((ended - warm) * 1000)
            search_cpu_ms.append((time.process_time() - cpu) * 1000)
            began = time.perf_counter()
            searcher.nearest(prompt, 50)
            between = time.perf_counter()
            searcher.full_text(query_terms(prompt), 50)
            channels.setdefault("vector", []).append((between - began) * 1000)
            channels.setdefault("fts", []).append((time.perf_counter() - between) * 1000)
            if len(found) != 12:
                raise SystemExit("bench: expected 12 memories")
    return {
        "memories": MEMORIES,
        "queries": QUERIES,
        "open_s": round(opened_s, 2),
        "search_ms": spread(search_ms),
        "search_cpu_ms": spread(search_cpu_ms),
        "query_embedding_and_one_scan_ms": spread(embed_ms),
        "channel_ms": {name: spread(took) for name, took in channels.items()},
    }


def spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 1),
        "best": round(min(values), 1),
        "worst": round(max(values), 1),
    }


def embedding(embedder: CachedEmbedder) -> dict[str, float]:
    """What one note of working conversations costs to embed."""
    rng = random.Random(3)
    embedder.embed("warm")
    wall, cpu = time.perf_counter(), time.process_time()
    for n in range(50):
        embedder.embed(f"{line(rng, OPENINGS)} {n}")
    return {
        "wall_ms_per_note": round((time.perf_counter() - wall) * 20, 1),
        "cpu_ms_per_note": round((time.process_time() - cpu) * 20, 1),
    }


def main() -> int:
    if sys.argv[1:] == ["ingest"]:
        print(json.dumps(ingest()))
        return 0
    child = subprocess.run(
        [sys.executable, "-m", "bench.memory", "ingest"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    ingested = json.loads(child.stdout)
    embedder = installed_embedder()
    if embedder is None:
        print("bench: install requirements/embedding.lock first", file=sys.stderr)
        return 4
    searched, noted = search(embedder), embedding(embedder)
    bars = {
        "ingest_s": [ingested["wall_s"], INGEST_BAR_S],
        "ingest_peak_mb": [ingested["peak_mb"], INGEST_BAR_MB],
        "search_median_ms": [searched["search_ms"]["median"], SEARCH_BAR_MS],
    }
    document = {
        "made": run_stamp(),
        "host": {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version},
        "ingest": ingested,
        "search": searched,
        "embedding": noted,
        "bars": bars,
    }
    path = ROOT / "results" / "proofs" / f"memory-{document['made']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(json.dumps(document, indent=1))
    print(f"written: {path.relative_to(ROOT)}")
    return 0 if all(found <= bar for found, bar in bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
