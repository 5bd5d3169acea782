"""What the gateway adds to model calls: time to first byte, throughput at 32 streams, memory over many calls.

Three processes on this machine: a provider on loopback, a live gateway, and this client. Direct and
gatewayed rounds alternate; only ratios within one run are results. Two providers are imitated: one that
answers at once and as fast as it can (the worst case for a ratio), and one with the pace of a fast model.
`--only` measures one part (each takes less than three minutes); every part writes its figures to
results/proofs/gateway-PART-DATE.json. Exit 1 beyond the bounds, which are what a quiet machine measured
with room for noise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

ROUNDS = int(os.environ.get("MEMTRIAL_BENCH_ROUNDS", "6"))
CALLS = int(os.environ.get("MEMTRIAL_BENCH_CALLS", "10000"))
STREAMS = 32
EVENTS = {"at_once": 100, "fast_model": 50}
ALONE = {"at_once": 8, "fast_model": 2}
WARM_CALLS = max(CALLS // 10, 1)
# Figure, sign and bound of each part.
BOUNDS: dict[str, tuple[tuple[str, str, float], ...]] = {
    "at_once": (("throughput_32_streams_ratio", ">=", 0.08),),
    "fast_model": (
        ("ttfb_32_streams_ratio", "<=", 3.0),
        ("throughput_32_streams_ratio", ">=", 0.5),
    ),
    "memory": (("growth_ratio", "<=", 1.15),),
}
PACES = {"at_once": (0.0, 0.0), "fast_model": (0.3, 0.02)}
TEXT = "word " * 8


def event(data: dict[str, object]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


CHUNK = event(
    {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "model-1",
        "choices": [{"index": 0, "delta": {"content": TEXT}, "finish_reason": None}],
    }
)
LAST = (
    event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 100}})
    + b"data: [DONE]\n\n"
)


async def provide() -> None:
    """The provider: reads a request, waits, streams. The pace is in the request's header."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(
                    line.lower().split(": ", 1)
                    for line in head.decode().split("\r\n")
                    if ": " in line
                )
                await reader.readexactly(int(fields["content-length"]))
                first_s, gap_s = PACES[fields["x-pace"]]
                await asyncio.sleep(first_s)
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                )
                for piece in [CHUNK] * int(fields["x-events"]) + [LAST]:
                    writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    await writer.drain()
                    if gap_s:
                        await asyncio.sleep(gap_s)
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def guard(origin: str, folder: Path) -> None:
    """The live gateway; the permit is the one of the tests, for a provider on loopback only."""
    from orchestrator.gateway.gateway import Gateway
    from orchestrator.gateway.keys import ProviderKeys
    from orchestrator.gateway.live import LiveMode
    from orchestrator.gateway.secrets import Secrets
    from orchestrator.model.gateway import Bounds
    from tests.unit.gateway.support import PLAN_SHA256, PRICES, WIDE, mint_permit, place

    keys = ProviderKeys({"openai": "bench-key-of-no-provider"})
    gateway = Gateway(
        LiveMode(mint_permit(("openai", origin)), keys, plan_sha256=PLAN_SHA256),
        folder=folder / "record",
        sockets=folder / "s",
        prices=PRICES,
        caps=WIDE,
        bounds=Bounds(),
        secrets=Secrets(keys.values()),
    )
    opened = await gateway.open_trial(place())
    print(json.dumps([str(opened.folder / "gateway.sock"), opened.token("agent")]), flush=True)
    await asyncio.Event().wait()


@dataclass
class Way:
    """One way to the provider."""

    name: str
    address: Any
    token: str

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.address, str):
            return await asyncio.open_unix_connection(self.address)
        return await asyncio.open_connection("127.0.0.1", self.address)

    async def call(self, body: bytes, pace: str, events: int) -> tuple[float, float, int]:
        """Returns seconds to the first byte of the body, seconds in all, and bytes of the body."""
        began = time.perf_counter()
        reader, writer = await self.open()
        writer.write(
            (
                f"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {self.token}\r\n"
                f"x-pace: {pace}\r\nx-events: {events}\r\ncontent-length: {len(body)}\r\n\r\n"
            ).encode()
            + body
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head.split(b"\r\n", 1)[0], head
        size, first = 0, 0.0
        while length := int(await reader.readuntil(b"\r\n"), 16):
            await reader.readexactly(length + 2)
            first = first or time.perf_counter() - began
            size += length
        writer.close()
        return first, time.perf_counter() - began, size


def body_of(number: int, turns: int = 40) -> bytes:
    """A conversation of about 30 KB; the number makes it distinct."""
    messages = [
        {"role": "user", "content": f"{n}: " + "some text of a turn, " * 30} for n in range(turns)
    ]
    messages.append({"role": "user", "content": f"call {number}"})
    return json.dumps(
        {
            "model": "model-1",
            "messages": messages,
            "stream": True,
            "max_tokens": 1000,
            "stream_options": {"include_usage": True},
        }
    ).encode()


async def round_of(way: Way, pace: str, number: int) -> dict[str, float]:
    events = EVENTS[pace]
    alone = [await way.call(body_of(number * 1000 + n), pace, events) for n in range(ALONE[pace])]
    began = time.perf_counter()
    many = await asyncio.gather(
        *(way.call(body_of(number * 1000 + 100 + n), pace, events) for n in range(STREAMS))
    )
    wall = time.perf_counter() - began
    return {
        "ttfb_alone_s": statistics.median(first for first, _, _ in alone),
        "ttfb_32_s": statistics.median(first for first, _, _ in many),
        "bytes_per_s": sum(size for _, _, size in many) / wall,
    }


async def compare(ways: tuple[Way, Way], pace: str) -> dict[str, object]:
    found: dict[str, list[dict[str, float]]] = {way.name: [] for way in ways}
    for number in range(ROUNDS + 1):
        for way in ways:
            measured = await round_of(way, pace, number)
            if number:
                found[way.name].append(measured)
    direct, through = (found[way.name] for way in ways)

    def ratio(name: str) -> float:
        return round(
            statistics.median(t[name] / d[name] for d, t in zip(direct, through, strict=True)), 3
        )

    def added_ms(name: str) -> float:
        return round(
            1000
            * statistics.median(t[name] - d[name] for d, t in zip(direct, through, strict=True)),
            2,
        )

    return {
        "ttfb_alone_ratio": ratio("ttfb_alone_s"),
        "ttfb_alone_added_ms": added_ms("ttfb_alone_s"),
        "ttfb_32_streams_ratio": ratio("ttfb_32_s"),
        "ttfb_32_streams_added_ms": added_ms("ttfb_32_s"),
        "throughput_32_streams_ratio": ratio("bytes_per_s"),
        "throughput_mb_per_s": round(statistics.median(t["bytes_per_s"] for t in through) / 1e6, 2),
    }


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def soak(way: Way, pid: int) -> dict[str, object]:
    """Many distinct calls, eight at a time; memory after a tenth of them against memory at the end."""
    sizes: list[int] = []
    numbers = iter(range(CALLS))

    async def work() -> None:
        for number in numbers:
            await way.call(body_of(10**6 + number, turns=2), "at_once", 3)
            if number + 1 in {WARM_CALLS, CALLS // 2, CALLS}:
                sizes.append(resident_bytes(pid))

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(8)))
    return {
        "calls": CALLS,
        "calls_per_s": round(CALLS / (time.perf_counter() - began), 1),
        "resident_mb": [round(size / 2**20, 1) for size in sizes],
        "growth_ratio": round(sizes[-1] / sizes[0], 3),
    }


def start(*words: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, __file__, *words],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def measure(part: str) -> dict[str, Any]:
    """Starts provider and gateway, measures one part, and ends both."""
    with tempfile.TemporaryDirectory(prefix="memtrial-") as folder:
        provider, port = start("--role", "provider")
        gateway, told = start(
            "--role", "gateway", "--origin", f"http://127.0.0.1:{port}", "--folder", folder
        )
        try:
            socket, token = json.JSONDecoder().decode(told)
            ways = Way("direct", int(port), token), Way("gateway", socket, token)
            load_before = os.getloadavg()[0]
            found: dict[str, Any] = asyncio.run(
                soak(ways[1], gateway.pid) if part == "memory" else compare(ways, part)
            )
        finally:
            for process in (gateway, provider):
                process.terminate()
                process.wait()
    return found | {
        "part": part,
        "rounds": ROUNDS,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": [round(load_before, 2), round(os.getloadavg()[0], 2)],
        "bounds": {f"{name} {sign}": bound for name, sign, bound in BOUNDS[part]},
    }


def holds(found: dict[str, Any]) -> bool:
    return all(
        found[name] <= bound if sign == "<=" else found[name] >= bound
        for name, sign, bound in BOUNDS[found["part"]]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--role", choices=["provider", "gateway"])
    parser.add_argument("--origin", default="")
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--only", choices=[*BOUNDS], action="append")
    arguments = parser.parse_args()
    if arguments.role == "provider":
        asyncio.run(provide())
    if arguments.role == "gateway":
        asyncio.run(guard(arguments.origin, arguments.folder))
    good = True
    for part in arguments.only or BOUNDS:
        found = measure(part)
        print(json.dumps(found, indent=2), flush=True)
        folder = ROOT / "results" / "proofs"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"gateway-{part}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
        (folder / name).write_text(json.dumps(found, indent=2, sort_keys=True), encoding="utf-8")
        good = holds(found) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
