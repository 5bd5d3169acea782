"""Gets layers of an image back out of the engine, so that what is scanned is what the engine holds.

Format: Docker Image Specification v1.2, as `docker save` writes it: manifest.json names config and layers.
Writes temporary files only; every layer is hashed before it is handed out.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker
from docker.errors import DockerException
from pydantic import BaseModel, TypeAdapter, ValidationError
from requests import RequestException

from orchestrator.core.errors import EnvironmentMissing, IntegrityError
from orchestrator.sandbox.layers import PIECE_BYTES, Layer, layer_of_file


class _Saved(BaseModel):
    Layers: list[str]


_MANIFEST = TypeAdapter(list[_Saved])


def saved_layers(
    client: docker.DockerClient, image_id: str, diff_ids: tuple[str, ...], wanted: frozenset[str]
) -> Iterator[Layer]:
    """Yields the wanted layers of an image; each is gone when the next one comes.

    Args:
        client: the engine.
        image_id: the image.
        diff_ids: its layers, base first.
        wanted: diff ids of the layers to give.

    Raises:
        EnvironmentMissing: the engine does not hold the image, or cannot save it.
        IntegrityError: a saved layer has not the hash that names it.
    """
    with tempfile.TemporaryDirectory(prefix="memtrial-saved-") as name:
        archive_path = Path(name) / "image.tar"
        _save(client, image_id, archive_path)
        with tarfile.open(archive_path, mode="r:") as archive:
            members = _layer_names(archive, image_id)
            for diff_id, member in zip(diff_ids, members, strict=True):
                if diff_id not in wanted:
                    continue
                path = Path(name) / "layer.tar"
                _extract(archive, member, path)
                layer = layer_of_file(path)
                if layer.diff_id != diff_id:
                    raise IntegrityError(
                        "layer-changed",
                        f"image {image_id}: expected layer {diff_id}, the engine saved {layer.diff_id}",
                        hint="remove the image from the engine, then run `memtrial images`",
                    )
                yield layer
                path.unlink()


def _save(client: docker.DockerClient, image_id: str, path: Path) -> None:
    try:
        with path.open("wb") as out:
            for piece in client.api.get_image(image_id, chunk_size=PIECE_BYTES):
                out.write(piece)
    except (DockerException, RequestException) as error:
        raise EnvironmentMissing(
            "image-not-saved",
            f"expected the engine to give image {image_id} back for the leak scan, found {error}",
            hint="run `memtrial images`",
        ) from error


def _layer_names(archive: tarfile.TarFile, image_id: str) -> list[str]:
    try:
        stream = archive.extractfile("manifest.json")
        manifest = _MANIFEST.validate_json(stream.read() if stream else b"")
    except (KeyError, ValidationError) as error:
        raise IntegrityError(
            "image-not-saved",
            f"image {image_id}: expected a manifest in what the engine saved, found none",
            hint="run `memtrial doctor`",
        ) from error
    return manifest[0].Layers


def _extract(archive: tarfile.TarFile, name: str, target: Path) -> None:
    member = archive.getmember(name)
    if member.issym():
        # Old engines write equal layers once and link to them.
        member = archive.getmember(str(Path(name).parent / member.linkname).replace("/../", "/"))
    stream = archive.extractfile(member)
    with target.open("wb") as out:
        while stream is not None and (piece := stream.read(PIECE_BYTES)):
            out.write(piece)
