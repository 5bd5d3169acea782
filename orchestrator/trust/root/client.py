"""Reads a trust root from bytes that are in memory: TUF's own client, and the checks that it lacks.

Before the client sees a file it must be strict JSON, and its keys sound, named by themselves and different:
the client takes duplicate keys in JSON, small-order points, and one key under two names as two people.
Opens no socket and reads no file but those of a folder that it makes and removes.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlparse

from tuf.api.exceptions import (
    DownloadError,
    DownloadHTTPError,
    DownloadLengthMismatchError,
    ExpiredMetadataError,
    RepositoryError,
)
from tuf.ngclient import FetcherInterface, Updater, UpdaterConfig

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.clock import utc_seconds, utc_text_of
from orchestrator.core.errors import ApprovalRefused
from orchestrator.model.base import SLUG
from orchestrator.trust.root.make import APPROVAL_PATHS, APPROVALS, NOTE, ROLES_TARGET
from orchestrator.trust.root.shape import MAX_BYTES, Shaped, check_shape

MAX_ROOTS = 64
# `timestamp.json` has no number; a root's number is its version.
METADATA = re.compile(
    r"timestamp\.json|([1-9][0-9]{0,8})\.(?:root|targets|snapshot|approvals)\.json", re.ASCII
)
# A target's file under consistent snapshots: its digest before its name.
NOTE_FILE = re.compile(
    rf"targets/{APPROVALS}/(?:[0-9a-f]{{64}}\.)?(.*{re.escape(NOTE)})", re.DOTALL
)
HINT = "get the trust root again from the repository, or have its owners publish it again"

UNDONE = "bring approvals/tuf back to a commit that has the note (`git log -- approvals/tuf`), then repeat there what was done since"
FORKED = "two ceremonies began from one commit: take origin's side below approvals/tuf, and repeat the other ceremony on top of it"
EXPIRED = "a curator runs `memtrial trust refresh --curator FILE` and pushes; where root or targets ended, two owners sign too: add `--owner FILE --owner FILE`"


@dataclass(frozen=True, slots=True)
class RootState:
    """What was seen of a trust root before: nothing older may come again. Kept by the supervisor.

    `timestamp_sha256` is of the timestamp's bytes, `withdrawn` are ids of approvals with a note, sorted.
    """

    root_version: int = 1
    targets_version: int = 1
    snapshot_version: int = 1
    timestamp_version: int = 1
    approvals_version: int = 1
    high_water_s: int = 0
    timestamp_sha256: str | None = None
    withdrawn: tuple[str, ...] = ()


VERSIONS = tuple(f.name for f in fields(RootState) if f.name.endswith("_version"))


@dataclass(frozen=True, slots=True)
class TrustRoot:
    """A trust root that verified: the roles document, the approvals that hold, and what was seen.

    `approvals` are those listed, by path; `notes` say of which approvals, by id, that they were withdrawn.
    """

    root_version: int
    root_sha256: str
    owners: frozenset[bytes]
    curators: frozenset[bytes]
    roles_data: bytes
    approvals: Mapping[str, bytes]
    notes: Mapping[str, bytes]
    expires_s: int
    state: RootState


class _Fetcher(FetcherInterface):
    """Gives the client bytes that are in memory."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def _fetch(self, url: str) -> Iterator[bytes]:
        parts = urlparse(url)
        data = self._files.get(unquote(parts.path).lstrip("/"))
        if parts.scheme != "memory" or parts.netloc:
            raise DownloadError("not an address of this root")
        if data is None:
            raise DownloadHTTPError("not in this root", 404)
        return iter((data,))


def read_root(
    files: Mapping[str, bytes],
    *,
    bootstrap: bytes,
    seen: RootState,
    now_s: int,
    lapsed: bool = False,
) -> TrustRoot:
    """Verifies a trust root and returns what it says.

    Args:
        files: bytes by path below the root's folder: `metadata/...` and `targets/...`.
        bootstrap: the root that this machine was provisioned with.
        seen: what was seen before.
        now_s: the present time in seconds since 1970.
        lapsed: take what has expired too, for those who renew it; never to rely on it.

    Raises:
        ApprovalRefused: anything that does not hold.
    """
    if now_s + 1 < seen.high_water_s:
        raise _refuse(
            "clock-set-back", f"a time from {utc_text_of(seen.high_water_s)} on", utc_text_of(now_s)
        )
    shapes = _shapes(files)
    check_shape(bootstrap, where="bootstrap root")
    _check_chain(shapes)
    verified, roles_data, listed = _ask_client(files, bootstrap, lapsed=lapsed)
    notes = {
        path.removeprefix(f"{APPROVALS}/").removesuffix(NOTE): data
        for path, data in listed.items()
        if path.endswith(NOTE)
    }
    state = _state(verified, notes, seen, now_s)
    _check_people(verified)
    _check_notes(files, shapes, listed)
    _check_bootstrap(files, bootstrap)
    root_data, root = verified["root"]
    return TrustRoot(
        root_version=root.version,
        root_sha256=sha256_hex(root_data),
        owners=root.owners,
        curators=root.curators,
        roles_data=roles_data,
        approvals={path: data for path, data in listed.items() if not path.endswith(NOTE)},
        notes=notes,
        expires_s=_expiry_s(verified, 0 if lapsed else now_s),
        state=state,
    )


def _shapes(files: Mapping[str, bytes]) -> dict[str, Shaped]:
    """Returns every file of metadata, checked, by its name; there is nothing else among them."""
    shapes = {}
    for path, data in files.items():
        if not path.startswith("metadata/"):
            continue
        name = path.removeprefix("metadata/")
        if not METADATA.fullmatch(name):
            raise _refuse("metadata-of-no-role", "names of the five roles alone", repr(name[:80]))
        shapes[name] = check_shape(data, where=path)
    return shapes


Verified = Mapping[str, tuple[bytes, Shaped]]


def _ask_client(
    files: Mapping[str, bytes], bootstrap: bytes, *, lapsed: bool
) -> tuple[Verified, bytes, dict[str, bytes]]:
    """Returns what TUF's client verified: metadata by role, the roles document, the approvals."""
    with tempfile.TemporaryDirectory(prefix="memtrial-root-") as folder:
        try:
            updater = _updater(Path(folder), files, bootstrap)
            if lapsed:
                # The client takes the system's time once, here; at this one nothing has expired.
                updater._trusted_set.reference_time = datetime.fromtimestamp(0, UTC)  # noqa: SLF001
            updater.refresh()
            # Asking for any name of theirs makes the client verify the delegated role.
            updater.get_targetinfo(f"{APPROVALS}/none")
            verified = _verified(Path(folder) / "metadata")
            roles_data = _target(updater, ROLES_TARGET)
            approvals = {path: _target(updater, path) for path in _listed(verified)}
        except ExpiredMetadataError as error:
            raise _expired("metadata that holds now", _told(error)) from error
        except (RepositoryError, DownloadLengthMismatchError) as error:
            raise _refuse(
                "trust-root-refused", "metadata that the client accepts", _told(error)
            ) from error
        except DownloadError as error:
            raise _refuse(
                "trust-root-incomplete", "every file of the trust root", _told(error)
            ) from error
    return verified, roles_data, approvals


def _verified(folder: Path) -> Verified:
    """Returns what the client verified and kept, by role."""
    found = {}
    for role in ("root", "timestamp", "snapshot", "targets", APPROVALS):
        path = folder / f"{role}.json"
        if not path.is_file():
            raise _refuse("trust-root-incomplete", f"metadata of {role}", "none")
        data = path.read_bytes()
        found[role] = (data, check_shape(data, where=path.name))
    return found


def _updater(folder: Path, files: Mapping[str, bytes], bootstrap: bytes) -> Updater:
    (folder / "targets").mkdir()
    return Updater(
        str(folder / "metadata"),
        "memory:///metadata/",
        str(folder / "targets"),
        "memory:///targets/",
        fetcher=_Fetcher(files),
        config=UpdaterConfig(
            max_root_rotations=MAX_ROOTS, max_delegations=2, root_max_length=MAX_BYTES
        ),
        bootstrap=bootstrap,
    )


def _target(updater: Updater, path: str) -> bytes:
    info = updater.get_targetinfo(path)
    if info is None:
        raise _refuse("target-not-listed", f"{path} in the role that may list it", "none")
    return Path(updater.download_target(info)).read_bytes()


def _check_chain(shapes: Mapping[str, Shaped]) -> None:
    """Roots must be there without a gap: a withheld one would leave the client on an old one."""
    roots = sorted(int(n.split(".")[0]) for n in shapes if n.endswith(".root.json"))
    if roots != list(range(1, len(roots) + 1)) or not roots:
        raise _refuse("root-chain-broken", "roots from 1 on without a gap", str(roots[:8]))
    for name, shaped in shapes.items():
        number = name.split(".")[0]
        if number != "timestamp" and int(number) != shaped.version:
            raise _refuse("version-not-of-name", f"version {number} in {name}", str(shaped.version))


def _listed(verified: Verified) -> tuple[str, ...]:
    """Returns the approvals that their role lists."""
    listed = verified[APPROVALS][1].targets
    outside = [path for path in listed if not path.startswith(APPROVAL_PATHS.removesuffix("*"))]
    if outside:
        raise _refuse("target-outside-delegation", f"only {APPROVAL_PATHS}", outside[0])
    return listed


def _check_notes(
    files: Mapping[str, bytes], shapes: Mapping[str, Shaped], listed: Mapping[str, bytes]
) -> None:
    """What any metadata here lists as withdrawn, or any note's file says, must be listed so still.

    Otherwise a curator alone could drop the note, or a merge of two curators' ceremonies lose it.
    """
    known = {path for shaped in shapes.values() for path in shaped.targets if path.endswith(NOTE)}
    found = {f"{APPROVALS}/{m[1]}" for m in map(NOTE_FILE.fullmatch, files) if m}
    dropped = sorted((known | found) - listed.keys())
    if dropped:
        raise _undone(dropped[0], "earlier metadata or a file among the targets has it")


def _state(
    verified: Verified, notes: Mapping[str, bytes], seen: RootState, now_s: int
) -> RootState:
    versions = {f"{role}_version": shaped.version for role, (_, shaped) in verified.items()}
    found = RootState(
        **versions,
        high_water_s=now_s,
        timestamp_sha256=sha256_hex(verified["timestamp"][0]),
        # No approval has another name.
        withdrawn=tuple(sorted(name for name in notes if re.fullmatch(SLUG, name))),
    )
    return latest(found, seen)


def latest(found: RootState, seen: RootState) -> RootState:
    """Returns what is seen of a root now, at the latest time of both.

    Raises:
        ApprovalRefused: a version is older than one that was seen before, or the same with other bytes; or an
            approval that was seen withdrawn is so no more.
    """
    for name in VERSIONS:
        version, before = getattr(found, name), getattr(seen, name)
        if version < before:
            raise _refuse(
                "trust-root-rolled-back", f"{name} {before} or later", f"version {version}"
            )
    undone = [name for name in seen.withdrawn if name not in found.withdrawn]
    if undone:
        raise _undone(f"{APPROVALS}/{undone[0]}{NOTE}", "it was seen here before")
    if (
        found.timestamp_version == seen.timestamp_version
        and seen.timestamp_sha256 is not None
        and found.timestamp_sha256 != seen.timestamp_sha256
    ):
        raise _refuse(
            "trust-root-forked",
            f"timestamp {seen.timestamp_version} as it was seen before, {seen.timestamp_sha256[:16]}",
            f"the same version with other bytes, {str(found.timestamp_sha256)[:16]}",
            hint=FORKED,
        )
    return replace(found, high_water_s=max(found.high_water_s, seen.high_water_s))


def _expiry_s(verified: Verified, now_s: int) -> int:
    ends = {role: int(utc_seconds(shaped.expires)) for role, (_, shaped) in verified.items()}
    first = min(ends, key=lambda role: ends[role])
    if now_s >= ends[first]:
        raise _expired(
            f"metadata that holds at {utc_text_of(now_s)}",
            f"{first} that held until {utc_text_of(ends[first])}",
        )
    return ends[first]


def _check_people(verified: Verified) -> None:
    root = verified["root"][1]
    if root.owners & root.curators:
        raise _refuse("key-in-two-places", "owners who are no curators", "a key in both roles")
    if verified["targets"][1].delegates != root.curators:
        raise _refuse("curators-differ", "one set of curators in root and delegation", "two")
    if verified[APPROVALS][1].delegates:
        raise _refuse("delegation-of-delegation", "approvals that delegate to nobody", "more")


def _check_bootstrap(files: Mapping[str, bytes], bootstrap: bytes) -> None:
    """The provisioned root must be one of the published ones, byte for byte; a target is none of them."""
    published = (
        data
        for name, data in files.items()
        if name.startswith("metadata/") and name.endswith(".root.json")
    )
    if bootstrap not in published:
        raise _refuse(
            "bootstrap-not-published",
            f"the provisioned root {sha256_hex(bootstrap)[:16]} among the published ones",
            "none like it",
        )


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _undone(path: str, why: str) -> ApprovalRefused:
    return _refuse("withdrawal-undone", f"{path} listed, for {why}", "none", hint=UNDONE)


def _expired(expected: str, found: str) -> ApprovalRefused:
    return _refuse("trust-root-expired", expected, found, hint=EXPIRED)


def _refuse(reference: str, expected: str, found: str, *, hint: str = HINT) -> ApprovalRefused:
    return ApprovalRefused(reference, f"trust root: expected {expected}, found {found}", hint=hint)
