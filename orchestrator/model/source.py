"""Where a task's repository comes from, pinned by archive, tree and commit.

The tree id covers `exclude` and `overlay`; it can be recomputed without git.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from orchestrator.model.base import Closed, Document, GitId, Sha256, Slug, Text, parse_one_of


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


class NpmTarballSource(_Source):
    """A package tarball of the npm registry, by name and hash. Its scripts are never run."""

    kind: Literal["npm-tarball"]
    name: Text
    version: Text
    filename: Text
    archive_sha256: Sha256
    strip_components: int = Field(default=1, ge=0, le=4)
    subdir: Text | None = None


class Carried(Closed):
    """A file of the archive outside `subdir` that comes along, such as the evidence of a licence."""

    path: Text
    to: Text


class DebSource(_Source):
    """A Debian binary package; the repository is the folder `subdir` inside it."""

    kind: Literal["deb"]
    name: Text
    version: Text
    architecture: Literal["all", "amd64", "arm64"]
    suite: Text
    archive_sha256: Sha256
    subdir: Text
    carry: tuple[Carried, ...] = ()


class GitSource(_Source):
    """The tree of one upstream commit. Only the tree is taken: no history, no refs, no remote."""

    kind: Literal["git"]
    url: Text
    upstream_commit: GitId
    subdir: Text | None = None


Source = VendoredSource | PypiSdistSource | NpmTarballSource | DebSource | GitSource


SOURCE: TypeAdapter[Source] = TypeAdapter(Annotated[Source, Field(discriminator="kind")])


def parse_source(data: bytes, *, where: str) -> Source:
    """Parses one source pin; `kind` decides which.

    Raises:
        DocumentError: not strict JSON, or no known kind of source.
    """
    return parse_one_of(SOURCE, data, where=where, what="source pin", schema="source")
