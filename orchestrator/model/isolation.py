"""What a container held before the agent, what it was allowed to hold, and what leaked before or after.

Public documents: a literal of an answer key, a canary or a host path is named by its SHA-256 and never
written out. Pure.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.model.base import Closed, Document, GitId, Sha256, Slug, Text


class FileSeen(Closed):
    """A file outside image and pinned tree. `sha256` is null for what is no readable regular file."""

    path: Text
    kind: Literal["file", "link", "folder", "device", "other"]
    bytes: int = Field(ge=0)
    sha256: Sha256 | None


class MountSeen(Closed):
    """A mount point with its file system; `writable` is the mount's own flag."""

    point: Text
    fs_type: Text
    writable: bool


class Variable(Closed):
    """One variable of an environment."""

    name: Text
    value: str


class ProcessSeen(Closed):
    """A process by its command line, and what its open descriptors lead to."""

    command: tuple[str, ...]
    descriptors: tuple[str, ...]


class Inventory(Document):
    """The container as the agent will find it, by our own program's account, before any agent code ran.

    `listing_sha256` covers name, kind, mode, size and time of every image file that the agent's account
    can reach; `files` are all others.
    """

    listing_sha256: Sha256
    listing_entries: int = Field(ge=0)
    work_tree: GitId
    files: tuple[FileSeen, ...]
    files_cut: bool
    environment: tuple[Variable, ...]
    mounts: tuple[MountSeen, ...]
    processes: tuple[ProcessSeen, ...]
    interfaces: tuple[str, ...]
    uid: int
    capabilities_effective: str
    hostname: str


class Additions(Closed):
    """What an arm may add to the container before the agent acts. Memory that travels in the prompt adds nothing."""

    files: tuple[FileSeen, ...] = ()
    environment: tuple[Variable, ...] = ()
    mounts: tuple[MountSeen, ...] = ()
    processes: tuple[ProcessSeen, ...] = ()


class DeclaredInventory(Document):
    """What the container of an arm must hold: image, pinned tree, profile, the arm's additions, no more."""

    condition_id: Slug
    listing_sha256: Sha256
    work_tree: GitId
    environment: tuple[Variable, ...]
    mounts: tuple[MountSeen, ...]
    processes: tuple[ProcessSeen, ...]
    interfaces: tuple[str, ...]
    uid: int
    hostname: str
    engine_files: tuple[Text, ...]
    engine_mounts: tuple[Text, ...]
    additions: Additions


class Difference(Closed):
    """One thing that is in the container and not declared, or declared and not there, or other than declared."""

    what: Literal[
        "file",
        "image_file",
        "work_tree",
        "environment",
        "mount",
        "process",
        "descriptor",
        "interface",
        "user",
        "hostname",
    ]
    how: Literal["undeclared", "missing", "different"]
    subject: Text
    expected_sha256: Sha256 | None
    found_sha256: Sha256 | None


class Finding(Closed):
    """A literal that was seen where it must not be: its digest, place, encoding and offset in bytes."""

    literal_kind: Literal["hidden", "fact", "reference", "canary", "host_path"]
    literal_sha256: Sha256
    place: Text
    encoding: Text
    offset: int = Field(ge=0)
    caused_by: Literal["harness", "agent"]


class LayerScan(Document):
    """What is known about one image layer: which literals it was searched for, and which it holds."""

    diff_id: Text
    scanner_version: int
    searched: tuple[Sha256, ...]
    findings: tuple[Finding, ...]


class Isolation(Document):
    """The proof made before `act`: the container equals its declaration, and no literal is in sight."""

    condition_id: Slug
    declared_sha256: Sha256
    inventory_sha256: Sha256
    layers: tuple[Text, ...]
    literals: int = Field(ge=0)
    common_literals: int = Field(ge=0)
    differences: tuple[Difference, ...]
    findings: tuple[Finding, ...]
    partial: bool


class Screening(Document):
    """The search made after harvest: output and diff, for canaries, hidden tests and host paths."""

    literals: int = Field(ge=0)
    places: tuple[Text, ...]
    findings: tuple[Finding, ...]
    partial: bool
