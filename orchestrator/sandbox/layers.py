"""Deterministic image layers and docker-archives, written by hand so that every id is known in advance.

Format: Docker Image Specification v1.2 ("combined image JSON + filesystem changeset"): one tar per layer
named by its diff id, a config JSON whose SHA-256 is the image id, and manifest.json. Writes nothing;
reads only the layer files that it is handed.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.core.gittree import FileEntry

MTIME_S = 946_684_800
PIECE_BYTES = 1 << 20
CREATED = "2000-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer tar: its diff id, size in bytes, and where the bytes are (in memory or in a file)."""

    diff_id: str
    size_bytes: int
    data: bytes | Path


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """An image: its layers (base first), config bytes and id."""

    layers: tuple[Layer, ...]
    config: bytes
    image_id: str

    @property
    def diff_ids(self) -> tuple[str, ...]:
        """The layers' diff ids, base first."""
        return tuple(layer.diff_id for layer in self.layers)


def make_layer(entries: Iterable[FileEntry], *, folders: Mapping[str, int] | None = None) -> Layer:
    """Packs files (paths relative to /) and empty folders with modes, owned by root, with one fixed time."""
    buffer = io.BytesIO()
    _pack(buffer, entries, folders or {})
    data = buffer.getvalue()
    return Layer(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data), data)


def write_layer(
    path: Path, entries: Iterable[FileEntry], *, folders: Mapping[str, int] | None = None
) -> Layer:
    """Packs likewise into a file: for layers too large to be held twice in memory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_suffix(".new")
    try:
        with made.open("wb") as stream:
            _pack(stream, entries, folders or {})
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)
    return layer_of_file(path)


def _pack(stream: IO[bytes], entries: Iterable[FileEntry], folders: Mapping[str, int]) -> None:
    files = {entry.path: entry for entry in entries}
    wanted = {*folders, *(parent for path in files for parent in _parents(path))}
    wanted |= {parent for folder in wanted for parent in _parents(folder)}
    # PAX writes plain ustar headers unless a name or a size does not fit into one.
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted({*wanted, *files}):
            member = tarfile.TarInfo(name)
            member.mtime = MTIME_S
            entry = files.get(name)
            if entry is None:
                member.type, member.mode = tarfile.DIRTYPE, folders.get(name, 0o755)
                archive.addfile(member)
            elif entry.mode == "120000":
                member.type, member.mode = tarfile.SYMTYPE, 0o777
                member.linkname = entry.data.decode()
                archive.addfile(member)
            else:
                member.mode = 0o755 if entry.mode == "100755" else 0o644
                member.size = len(entry.data)
                archive.addfile(member, io.BytesIO(entry.data))


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def layer_of_file(path: Path) -> Layer:
    """Returns the layer whose tar is a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(PIECE_BYTES):
            digest.update(piece)
    return Layer(f"sha256:{digest.hexdigest()}", path.stat().st_size, path)


def make_image(
    layers: tuple[Layer, ...], *, architecture: str, container: dict[str, object]
) -> ImageSpec:
    """Builds the config of an image; its SHA-256 is the image id."""
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "created": CREATED,
            "config": container,
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
            "history": [{"created": CREATED, "created_by": "memtrial"} for _ in layers],
        },
        sort_keys=True,
        separators=(",", ":"),
    ).encode()
    return ImageSpec(layers, config, f"sha256:{hashlib.sha256(config).hexdigest()}")


def archive_pieces(
    spec: ImageSpec, *, tag: str, without: frozenset[str] = frozenset()
) -> Iterator[bytes]:
    """Yields a docker-archive, piece by piece. Layers in `without` are declared, their bytes left out.

    Raises:
        EnvironmentMissing: the file of a layer is gone.
        IntegrityError: the file of a layer no longer has the layer's hash.
    """
    config_name = f"{spec.image_id.removeprefix('sha256:')}.json"
    names = [f"{layer.diff_id.removeprefix('sha256:')}.tar" for layer in spec.layers]
    manifest = json.dumps([{"Config": config_name, "RepoTags": [tag], "Layers": names}]).encode()
    yield from _member(config_name, len(spec.config), (spec.config,))
    for name, layer in zip(names, spec.layers, strict=True):
        if layer.diff_id not in without:
            yield from _member(name, layer.size_bytes, layer_pieces(layer))
    yield from _member("manifest.json", len(manifest), (manifest,))
    yield bytes(2 * tarfile.BLOCKSIZE)


def layer_pieces(layer: Layer) -> Iterator[bytes]:
    """Yields a layer's bytes; a file is hashed on the way, and its last piece comes only if it is right."""
    if isinstance(layer.data, bytes):
        yield layer.data
        return
    digest = hashlib.sha256()
    held = b""
    try:
        with layer.data.open("rb") as stream:
            while piece := stream.read(PIECE_BYTES):
                yield held
                digest.update(piece)
                held = piece
    except FileNotFoundError as error:
        raise EnvironmentMissing(
            "layer-missing",
            f"expected layer {layer.diff_id} in {layer.data}, found none",
            hint="remove the image memtrial/base from the engine, then run `memtrial images`",
        ) from error
    if f"sha256:{digest.hexdigest()}" != layer.diff_id:
        raise IntegrityError(
            "layer-changed",
            f"{layer.data}: expected SHA-256 {layer.diff_id.removeprefix('sha256:')}, found {digest.hexdigest()}",
            hint=f"delete {layer.data}, then run `memtrial images`",
        )
    yield held


def _member(name: str, size_bytes: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    header = tarfile.TarInfo(name)
    header.size, header.mtime = size_bytes, MTIME_S
    yield header.tobuf(format=tarfile.USTAR_FORMAT)
    yield from (piece for piece in pieces if piece)
    yield bytes(-size_bytes % tarfile.BLOCKSIZE)
