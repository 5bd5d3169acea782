"""What image layers hold: literals found in them and the listing of their files, kept by diff id.

A layer's bytes never change, so each is searched once for each literal, whatever image or run it serves.
Reads layer tars; writes notes below the cache folder. Knows no engine: who needs a layer is told to bring it.
"""

from __future__ import annotations

import bisect
import io
import mmap
import stat
import tarfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.files import write_atomic
from orchestrator.model.isolation import Finding, LayerScan
from orchestrator.sandbox.harden import AGENT_UID
from orchestrator.sandbox.layers import Layer
from orchestrator.sandbox.leaks.scanner import SCANNER_VERSION, Hit, Literal, Scanner

LAYER_CONTENT_BYTES = 2 * 1024 * 1024 * 1024
MAX_NOTE_BYTES = 64 * 1024 * 1024
PLACES_OF_A_LITERAL = 20

BringLayers = Callable[[frozenset[str]], Iterable[Layer]]


@dataclass(frozen=True, slots=True)
class LayersKnown:
    """All that is known of an image's layers: findings, and the lines that our program must list."""

    findings: tuple[Finding, ...]
    listing: dict[str, str]


class LayerBook:
    """The notes on layers in one folder. Safe for threads; each layer is examined by one of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def know(
        self, diff_ids: tuple[str, ...], literals: Iterable[Literal], bring: BringLayers
    ) -> LayersKnown:
        """Returns what the layers hold, examining those that were never searched for these literals.

        Raises:
            MemtrialError: a layer is needed and cannot be brought.
        """
        literals = tuple(literals)
        with self._lock:
            missing = frozenset(
                diff_id for diff_id in diff_ids if self._unsearched(diff_id, literals)
            )
            for layer in bring(missing) if missing else ():
                if layer.diff_id in missing:
                    self._examine(layer, self._unsearched(layer.diff_id, literals))
            scans = [self._scan_of(diff_id) for diff_id in diff_ids]
            listing: dict[str, str] = {}
            for diff_id in diff_ids:
                for line in (
                    zlib.decompress(self._path(diff_id, "listing").read_bytes())
                    .decode()
                    .split("\n")
                ):
                    listing[line.partition("\t")[0]] = line
        wanted = {literal.sha256 for literal in literals}
        return LayersKnown(
            tuple(f for scan in scans for f in scan.findings if f.literal_sha256 in wanted), listing
        )

    def _path(self, diff_id: str, suffix: str) -> Path:
        return self._folder / f"{diff_id.removeprefix('sha256:')}.{suffix}"

    def _scan_of(self, diff_id: str) -> LayerScan:
        path = self._path(diff_id, "json")
        if path.exists() and self._path(diff_id, "listing").exists():
            scan = LayerScan.parse(path.read_bytes(), where=path.name, max_bytes=MAX_NOTE_BYTES)
            if scan.scanner_version == SCANNER_VERSION:
                return scan
        return LayerScan(diff_id=diff_id, scanner_version=SCANNER_VERSION, searched=(), findings=())

    def _unsearched(self, diff_id: str, literals: tuple[Literal, ...]) -> list[Literal]:
        searched = set(self._scan_of(diff_id).searched)
        return [literal for literal in literals if literal.sha256 not in searched]

    def _examine(self, layer: Layer, literals: list[Literal]) -> None:
        known = self._scan_of(layer.diff_id)
        with opened(layer) as data:
            findings, lines = examine(data, layer.diff_id, Scanner(literals))
        write_atomic(self._path(layer.diff_id, "listing"), zlib.compress("\n".join(lines).encode()))
        scan = known.model_copy(
            update={
                "searched": tuple(sorted({*known.searched, *(item.sha256 for item in literals)})),
                "findings": (*known.findings, *findings),
            }
        )
        write_atomic(self._path(layer.diff_id, "json"), scan.canonical())


@contextmanager
def opened(layer: Layer) -> Iterator[bytes | mmap.mmap]:
    """Gives a layer's bytes; a file is mapped, not read."""
    if isinstance(layer.data, bytes):
        yield layer.data
        return
    with (
        layer.data.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        yield data


def examine(
    data: bytes | mmap.mmap, diff_id: str, scanner: Scanner
) -> tuple[list[Finding], list[str]]:
    """Searches a layer tar; returns findings by file and the listing lines of its entries."""
    starts: list[int] = []
    names: list[str] = []
    lines: list[str] = []
    with tarfile.open(fileobj=_file_of(data), mode="r:") as archive:
        sizes: dict[str, int] = {}
        for member in archive:
            starts.append(member.offset)
            names.append(member.name.removeprefix("./"))
            sizes[member.name] = sizes.get(member.linkname, 0) if member.islnk() else member.size
            lines.append(_line(member, sizes[member.name]))
    found: dict[tuple[Literal, str], Hit] = {}
    times: dict[Literal, int] = {}
    scan = scanner.scan(data, diff_id, content_bytes=LAYER_CONTENT_BYTES, every=True)
    for hit in scan.hits:
        at = bisect.bisect_right(starts, hit.offset) - 1
        name = names[at] if at >= 0 else ""
        if (hit.literal, name) not in found and times.get(hit.literal, 0) < PLACES_OF_A_LITERAL:
            found[hit.literal, name] = hit
            times[hit.literal] = times.get(hit.literal, 0) + 1
    short = diff_id.removeprefix("sha256:")[:12]
    return [
        Finding(
            literal_kind=literal.kind,
            literal_sha256=literal.sha256,
            place=f"layer {short}: /{name}",
            encoding=hit.encoding,
            offset=hit.offset,
            caused_by="harness",
        )
        for (literal, name), hit in found.items()
    ], lines


def _file_of(data: bytes | mmap.mmap) -> io.BytesIO | mmap.mmap:
    if isinstance(data, bytes):
        return io.BytesIO(data)
    data.seek(0)
    return data


def _line(member: tarfile.TarInfo, size: int) -> str:
    """Returns the line that images/agent/stock.py prints for this entry."""
    name = "/" + ("" if member.name == "." else member.name.removeprefix("./").strip("/"))
    name = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    mode = member.mode
    if member.isdir():
        return f"{name}\t{stat.S_IFDIR | mode:o}\t0\t0\t\t{member.uid}"
    if member.issym():
        kind, size, link = stat.S_IFLNK | 0o777, len(member.linkname.encode()), member.linkname
        return f"{name}\t{kind:o}\t{size}\t{int(member.mtime)}\t{link}"
    kinds = {
        tarfile.CHRTYPE: stat.S_IFCHR,
        tarfile.BLKTYPE: stat.S_IFBLK,
        tarfile.FIFOTYPE: stat.S_IFIFO,
    }
    kind = kinds.get(member.type, stat.S_IFREG)
    return f"{name}\t{kind | mode:o}\t{size}\t{int(member.mtime)}\t"


def expected_listing(listing: dict[str, str], points: Iterable[str]) -> list[str]:
    """Returns the lines that our program must print in a container with these mount points.

    Left out are what a mount hides and what the agent's account cannot list.
    """
    hidden = tuple(f"{point}/" for point in points if point != "/")
    shut = tuple(f"{name}/" for name, line in listing.items() if _is_shut(line))
    names = set(points)
    kept = [
        "\t".join(line.split("\t")[:5])
        for name, line in listing.items()
        if name not in names and name != "/" and not name.startswith(hidden + shut)
    ]
    return sorted(kept)


def _is_shut(line: str) -> bool:
    fields = line.split("\t")
    mode = int(fields[1], 8)
    return stat.S_ISDIR(mode) and fields[-1] != str(AGENT_UID) and mode & 0o005 != 0o005


def listing_sha256(lines: list[str]) -> str:
    """Returns the digest of a listing, as images/agent/stock.py makes it."""
    return sha256_hex("\n".join(lines).encode())
