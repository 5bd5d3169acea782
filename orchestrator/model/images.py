"""Image locks: what each image is made of and the ids that making it must give."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.model.base import Closed, Document, ImageId, Sha256, Slug, Text


class LockedPackage(Closed):
    """A distribution package of the base image."""

    name: Text
    version: Text


class LockedImage(Closed):
    """An image: recipe hash, layers (base first), id and size of all layers, in bytes."""

    name: Slug
    recipe_sha256: Sha256
    diff_ids: tuple[ImageId, ...] = Field(min_length=1)
    image_id: ImageId
    bytes: int = Field(gt=0)


class ImageLock(Document):
    """`images/lock.json`: base and shared images for one architecture."""

    architecture: Literal["amd64", "arm64"]
    base_origin: Text
    packages: tuple[LockedPackage, ...]
    images: tuple[LockedImage, ...] = Field(min_length=1)
