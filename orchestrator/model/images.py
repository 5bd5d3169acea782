"""Image locks: what each image is made of and the ids that making it must give."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.model.base import Closed, Document, ImageId, Sha256, Slug, Text

# The image of a task's language; TypeScript runs where JavaScript does.
IMAGE_OF = {
    "python": "python",
    "javascript": "javascript",
    "typescript": "javascript",
    "go": "go",
    "rust": "rust",
}


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


class WheelPart(Closed):
    """A folder of a pinned wheel, laid into the image. No code of the wheel is run to make it."""

    project: Text
    suffix: Text
    sha256: Sha256
    root: str
    to: Text
    exclude: tuple[Text, ...] = ()
    executable: tuple[Text, ...] = ()


class Linked(Closed):
    """A symbolic link of the image."""

    path: Text
    target: Text


class Written(Closed):
    """A small text file of the image."""

    path: Text
    text: str
    executable: bool = False


class Compiled(Closed):
    """A command run once in a container without network, and the folder of its output that is kept."""

    argv: tuple[Text, ...] = Field(min_length=1)
    folder: Text


class ToolchainRecipe(Document):
    """`images/<language>/recipe.json`: what the toolchain layers of a language are made of."""

    language: Slug
    architecture: Literal["amd64"]
    wheels: tuple[WheelPart, ...] = ()
    packages: bool = False
    exclude: tuple[Text, ...] = ()
    links: tuple[Linked, ...] = ()
    files: tuple[Written, ...] = ()
    compiled: Compiled | None = None


class PinnedPackage(Closed):
    """A package of a toolchain by hash: an npm tarball with its place, or a Debian package."""

    name: Text
    version: Text
    sha256: Sha256
    path: Text | None = None
    architecture: Literal["all", "amd64", "arm64"] | None = None
    suite: Text | None = None


class PackageLock(Document):
    """`images/<language>/packages.lock.json`, written by `tools/relock.py`."""

    packages: tuple[PinnedPackage, ...] = Field(min_length=1)
