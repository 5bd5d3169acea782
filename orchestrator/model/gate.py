"""What the gate reads besides the approval, and what it writes: configuration, manifest, answer, report.

The report of a validation can say nothing but that nothing was authorised. Reads and writes nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

from orchestrator.model.approval import (
    LAST_SECOND,
    Branch,
    EpochSeconds,
    Nonce,
    Repository,
)
from orchestrator.model.base import Closed, Document, Sha256, Slug, Text, UtcTime


def _inside(path: str) -> str:
    """Refuses a path that could leave its folder."""
    if any(part in {".", ".."} for part in path.split("/")):
        raise ValueError("a path has no . and no .. in it")
    return path


ANSWER_TYPE = "application/vnd.memtrial.supervisor-answer.v1+json"
# Distributions have files such as `https%3A%2F%2Fexample.org` and `script (dev).tmpl`; visible ASCII alone, for a
# manifest is read by people.
RelativePath = Annotated[
    str,
    StringConstraints(pattern=r"^[ !-.0-\[\]-~]+(/[ !-.0-\[\]-~]+)*$", max_length=1024),
    AfterValidator(_inside),
]
LinkTarget = Annotated[
    str,
    StringConstraints(pattern=r"^(\.\./)*[ !-.0-\[\]-~]+(/[ !-.0-\[\]-~]+)*$", max_length=1024),
]


AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/[ -~]{1,300}$")]


class GateConfig(Document):
    """What this machine was provisioned with, in the system folder that root alone can write.

    `supervisor_state` is a folder of the supervisor's own user: nonce book and what was seen of the root.
    """

    name: Slug
    repository: Repository
    default_branch: Branch
    root_sha256: Sha256
    supervisor_identity: Slug
    supervisor_uid: int = Field(ge=0)
    supervisor_keyid: Sha256
    supervisor_prefix: AbsolutePath
    supervisor_state: AbsolutePath
    ledger_origin: Repository


class RootSeen(Document):
    """The versions of the trust root that were accepted last, and the latest time: nothing older may come.

    `timestamp_sha256` is of the metadata of `timestamp_version`, which binds all other; `withdrawn` are approvals
    with a note. What earlier versions wrote has neither, and no field.
    """

    root_version: int = Field(default=1, ge=1)
    targets_version: int = Field(default=1, ge=1)
    snapshot_version: int = Field(default=1, ge=1)
    timestamp_version: int = Field(default=1, ge=1)
    approvals_version: int = Field(default=1, ge=1)
    high_water_s: int = Field(default=0, ge=0, le=LAST_SECOND)
    timestamp_sha256: Sha256 | None = None
    # Metadata of half a megabyte has no room for more: a target in it takes over 64 bytes.
    withdrawn: tuple[Slug, ...] = Field(default=(), max_length=8192)

    @model_serializer(mode="wrap")
    def _as_it_was_written(self, make: SerializerFunctionWrapHandler) -> dict[str, object]:
        found: dict[str, object] = make(self)
        for name in ("timestamp_sha256", "withdrawn"):
            if not found[name]:
                del found[name]
        return found


class ManifestFile(Closed):
    """One installed file."""

    path: RelativePath
    bytes: int = Field(ge=0)
    sha256: Sha256


class ManifestLink(Closed):
    """One symbolic link, such as the `lib64` of a virtual environment: from below the prefix to below it."""

    path: RelativePath
    target: LinkTarget

    @model_validator(mode="after")
    def _stays(self) -> Self:
        ups = self.target.count("../") if self.target.startswith("../") else 0
        plain = self.target[3 * ups :].split("/")
        if any(part in {".", ".."} for part in plain) or ups > self.path.count("/"):
            raise ValueError("a link leads to a place below its prefix")
        return self


class Manifest(Document):
    """Every file and every link below a prefix, sorted by path."""

    files: tuple[ManifestFile, ...] = Field(min_length=1, max_length=100_000)
    links: tuple[ManifestLink, ...] = Field(default=(), max_length=1000)

    @model_validator(mode="after")
    def _sorted(self) -> Self:
        for items in (self.files, self.links):
            names = [item.path for item in items]
            if names != sorted(set(names)):
                raise ValueError("files and links must be sorted by path, each once")
        return self


class SupervisorQuestion(Closed):
    """What the gate asks: a nonce of its own, and the digests that the answer must bind."""

    challenge: Nonce
    approval_sha256: Sha256
    plan_sha256: Sha256


class SupervisorAnswer(Document):
    """What the supervisor signs when it is asked: the question's nonce, and whom and what it serves.

    `asserted` are claims that nobody else can check; they are reported as such and decide nothing.
    """

    challenge: Nonce
    approval_sha256: Sha256
    plan_sha256: Sha256
    identity: Slug
    uid: int = Field(ge=0)
    manifest_sha256: Sha256
    answered_s: EpochSeconds
    asserted: tuple[Slug, ...] = ()


class StepResult(Closed):
    """One step of the gate."""

    number: int = Field(ge=0, le=16)
    name: Slug
    status: Literal["ok", "refused", "not_run"]
    code: str | None = None
    detail: Text | None = None


class NamedDigest(Closed):
    """Something that the gate read, by digest."""

    name: Text
    sha256: Sha256


class GateReport(Document):
    """The report of a validation. It authorises nothing, and no value of it can say otherwise."""

    gate_scope: Literal["local_gate_only"] = "local_gate_only"
    dispatch_authorized: Literal[False] = False
    provider_or_agent_calls: Literal[0] = 0
    approval_id: str
    at: UtcTime
    result: Literal["pass", "refused"]
    steps: tuple[StepResult, ...] = Field(min_length=17, max_length=17)
    inputs: tuple[NamedDigest, ...]
    asserted: tuple[Slug, ...]
