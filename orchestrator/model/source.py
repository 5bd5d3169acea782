"""Where a task's repository comes from, pinned by archive, tree and commit.

The tree id covers `exclude` and `overlay`; it can be recomputed without git.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, RootModel

from orchestrator.model.base import Closed, Document, GitId, Sha256, Slug, Text


class Expected(Closed):
    """What materialising the source must give."""

    tree: GitId
    commit: GitId
    files: int = Field(gt=0)
    bytes: int = Field(ge=0)


class Overlay(Closed):
    """A text file that is laid over the archive's own files."""

    path: Text
    text: str


class _Source(Document):
    id: Slug
    licence: Text
    licence_files: tuple[Text, ...] = Field(min_length=1)
    exclude: tuple[Text, ...] = ()
    overlay: tuple[Overlay, ...] = ()
    expect: Expected


class VendoredSource(_Source):
    """A mini-repository that this project wrote and ships."""

    kind: Literal["vendored"]
    path: Text


class PypiSdistSource(_Source):
    """A source distribution of the Python package index, by name and hash."""

    kind: Literal["pypi-sdist"]
    name: Text
    version: Text
    filename: Text
    archive_sha256: Sha256
    strip_components: int = Field(default=1, ge=0, le=4)


Source = VendoredSource | PypiSdistSource


class SourceDocument(RootModel[Annotated[Source, Field(discriminator="kind")]]):
    """The document form of the union; `kind` decides."""
