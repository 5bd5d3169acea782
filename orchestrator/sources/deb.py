"""Fetches pinned Debian binary packages and reads them in memory; no maintainer script ever runs.

apt works in a private tree with the machine's own mirrors and keyring, so the host's apt is not changed.
Format of a package: deb(5), an ar archive (ar(5)) whose member data.tar.* holds the files.
"""

from __future__ import annotations

import fnmatch
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.aptsources import debian_sources
from orchestrator.core.errors import DocumentError, EnvironmentMissing, IntegrityError
from orchestrator.core.files import safe_relative, write_atomic
from orchestrator.core.gittree import FileEntry
from orchestrator.sources.cache import cached, keep
from orchestrator.sources.clients import run_client

MAGIC = b"!<arch>\n"
HEADER_BYTES = 60
READABLE = ("data.tar", "data.tar.gz", "data.tar.xz", "data.tar.bz2")
HINT = (
    "use Debian or Ubuntu with a reachable mirror, or bring a cache with `memtrial sources import`"
)


@dataclass(frozen=True, slots=True)
class DebPin:
    """A binary package of a suite by name, version, architecture and hash."""

    suite: str
    name: str
    version: str
    architecture: str
    sha256: str

    @property
    def filename(self) -> str:
        """The name of the package's file; the epoch's colon is written as apt writes it."""
        version = self.version.replace(":", "%3a")
        return f"{self.name}_{version}_{self.architecture}.deb"


def fetch_debs(pins: Sequence[DebPin], cache: Path) -> list[Path]:
    """Returns the verified packages in the order of the pins, fetching those that the cache lacks.

    Raises:
        EnvironmentMissing: apt or a mirror cannot be reached, or no longer has the version.
        IntegrityError: the mirror gave other bytes.
    """
    missing = [pin for pin in pins if cached(cache, pin.sha256) is None]
    for suite in dict.fromkeys(pin.suite for pin in missing):
        _download([pin for pin in missing if pin.suite == suite], suite, cache)
    found = [cached(cache, pin.sha256) for pin in pins]
    return [path for path in found if path is not None]


def _download(pins: Sequence[DebPin], suite: str, cache: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="memtrial-apt-") as name:
        folder = Path(name)
        environment = {"APT_CONFIG": str(private_tree(folder, suite)), "LC_ALL": "C"}
        run_client(["apt-get", "update", "-q"], folder=folder, environment=environment, hint=HINT)
        wanted = [f"{pin.name}:{_wanted(pin)}={pin.version}" for pin in pins]
        run_client(
            ["apt-get", "download", "-q", *wanted],
            folder=folder,
            environment=environment,
            hint=f"the suite may have moved on: review and re-pin; or {HINT}",
        )
        for pin in pins:
            path = folder / pin.filename
            if not path.is_file():
                raise IntegrityError(
                    "archive-not-in-index",
                    f"{pin.name} {pin.version}: expected apt to bring {pin.filename}, found none",
                    hint="check name, version and architecture of the pin",
                )
            keep(cache, pin.sha256, pin.filename, path.read_bytes())


def _wanted(pin: DebPin) -> str:
    return "amd64" if pin.architecture == "all" else pin.architecture


def private_tree(folder: Path, suite: str) -> Path:
    """Writes an apt configuration whose every folder is private; returns its path."""
    lines = debian_sources(suite)
    if not lines:
        raise EnvironmentMissing(
            "debian-sources-missing",
            f"expected Debian package sources on this machine to fetch from {suite}, found none",
            hint=HINT,
        )
    for name in ("etc/sources.d", "etc/apt.conf.d", "etc/preferences.d", "lists/partial", "cache/archives/partial"):  # fmt: skip
        (folder / name).mkdir(parents=True)
    write_atomic(folder / "etc/sources.list", lines.encode())
    # An empty status: what the host has installed must not be a candidate.
    write_atomic(folder / "status", b"")
    settings = {
        "Dir::Etc": folder / "etc",
        "Dir::Etc::sourcelist": folder / "etc/sources.list",
        "Dir::Etc::sourceparts": folder / "etc/sources.d",
        "Dir::Etc::parts": folder / "etc/apt.conf.d",
        "Dir::Etc::preferencesparts": folder / "etc/preferences.d",
        "Dir::State": folder,
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
        "APT::Architecture": "amd64",
        # The sandbox user of apt could not write the private tree.
        **({"APT::Sandbox::User": "root"} if os.geteuid() == 0 else {}),
    }
    text = "".join(f'{name} "{value}";\n' for name, value in settings.items())
    write_atomic(folder / "apt.conf", text.encode())
    return folder / "apt.conf"


def data_archive(package: bytes, *, where: str) -> bytes:
    """Returns the bytes of a package's data.tar.* member.

    Raises:
        DocumentError: not a Debian package, cut short, or compressed in a way that cannot be read here.
    """
    if not package.startswith(MAGIC):
        raise _unreadable(where, "an ar archive", "other bytes")
    at = len(MAGIC)
    while at + HEADER_BYTES <= len(package):
        header = package[at : at + HEADER_BYTES]
        name = header[:16].decode("ascii", "replace").strip().rstrip("/")
        size = header[48:58].strip()
        at += HEADER_BYTES
        if not size.isdigit() or header[58:60] != b"`\n":
            raise _unreadable(where, "whole member headers", f"a broken one for {name!r}")
        length = int(size)
        if at + length > len(package):
            raise _unreadable(where, f"{length} bytes of {name}", "the end of the file")
        if name in READABLE:
            return package[at : at + length]
        if name.startswith("data.tar"):
            raise _unreadable(where, f"one of {', '.join(READABLE)}", name)
        at += length + (length & 1)
    raise _unreadable(where, "a member data.tar", "none")


def unpacked(package: bytes, *, where: str, exclude: Sequence[str]) -> Iterator[FileEntry]:
    """Yields the files of a package that a toolchain image is made of; links stay as they are.

    The package is pinned by hash in a lock of ours, so its size needs no bound. Paths are relative to /.

    Raises:
        DocumentError: not a readable package, or a name that leaves it.
    """
    data = data_archive(package, where=where)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as archive:
        for member in archive:
            path = _merged(member.name.removeprefix("./"))
            if member.isdir() or any(fnmatch.fnmatchcase(path, pattern) for pattern in exclude):
                continue
            safe_relative(path, where=where)
            if member.issym():
                yield FileEntry(path, "120000", member.linkname.encode())
                continue
            stream = archive.extractfile(member)  # follows a hard link to its file
            content = stream.read() if stream is not None else b""
            yield FileEntry(path, "100755" if member.mode & 0o111 else "100644", content)


def _merged(path: str) -> str:
    """In the base /lib and its like are links into /usr: a folder of that name would replace the link."""
    return (
        f"usr/{path}" if path.split("/", maxsplit=1)[0] in {"bin", "lib", "lib64", "sbin"} else path
    )


def _unreadable(where: str, expected: str, found: str) -> DocumentError:
    return DocumentError(
        "deb-unreadable", f"{where}: expected {expected}, found {found}", hint="choose another pin"
    )
