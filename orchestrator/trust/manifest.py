"""Every file of an installation by digest: what the supervisor is, byte for byte.

Reads below one prefix with trusted opens. An interpreter's program is thousands of files; any of them counts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import ApprovalRefused
from orchestrator.model.gate import Manifest, ManifestFile, ManifestLink
from orchestrator.trust.trusted import check_folders, read_trusted

MAX_FILE_BYTES = 256 * 1024 * 1024
# How a development install points elsewhere: code would come from where anybody can write.
EDITABLE = ("__editable__", ".egg-link", "_editable_impl_")


def manifest_of(prefix: Path, *, owner_uid: int) -> Manifest:
    """Reads an installation.

    Args:
        prefix: its folder, absolute.
        owner_uid: who may own its files besides root.

    Raises:
        ApprovalRefused: a link that leads out, a file that somebody else can write, or a development install.
    """

    def read(path: Path) -> bytes:
        return read_trusted(path, owner_uid=owner_uid, max_bytes=MAX_FILE_BYTES)

    def check(folder: Path) -> None:
        check_folders(folder, owner_uid=owner_uid)

    return _manifest(prefix, read, check)


def staged_manifest(prefix: Path) -> Manifest:
    """Reads what is to be installed, wherever it was built and whoever owns it there.

    Raises:
        ApprovalRefused: a link that leads out, or a development install.
    """
    return _manifest(prefix, Path.read_bytes, lambda _: None)


def _manifest(
    prefix: Path, read: Callable[[Path], bytes], check: Callable[[Path], None]
) -> Manifest:
    check(prefix)
    files, links = [], []
    for path in sorted(prefix.rglob("*"), key=lambda p: p.relative_to(prefix).as_posix()):
        name = path.relative_to(prefix).as_posix()
        if path.is_symlink():
            links.append(_link(path, name))
            continue
        if path.is_dir():
            check(path)
            continue
        if any(mark in path.name for mark in EDITABLE):
            raise _refuse("editable-install", path, "an installed wheel", "a development install")
        data = read(path)
        try:
            files.append(ManifestFile(path=name, bytes=len(data), sha256=sha256_hex(data)))
        except ValidationError as error:
            raise _refuse("name-not-plain", path, "visible ASCII", ascii(name)[:200]) from error
    if not files:
        raise _refuse("prefix-empty", prefix, "an installation", "no file")
    return Manifest(files=tuple(files), links=tuple(links))


def _link(path: Path, name: str) -> ManifestLink:
    """Returns a link that leads from below the prefix to below it; its own folder is no link."""
    target = str(path.readlink())
    try:
        link = ManifestLink(path=name, target=target)
    except ValidationError as error:
        raise _refuse(
            "link-in-prefix", path, "no symbolic link that leads out of it", ascii(target)[:200]
        ) from error
    if not path.exists():
        raise _refuse("link-in-prefix", path, "no symbolic link to nothing", ascii(target)[:200])
    return link


def first_difference(expected: Manifest, found: Manifest) -> str | None:
    """Returns the first path in which two manifests differ, or None."""
    mine, theirs = _named(expected), _named(found)
    return next(
        (
            path
            for path in sorted(mine.keys() | theirs.keys())
            if mine.get(path) != theirs.get(path)
        ),
        None,
    )


def _named(manifest: Manifest) -> dict[str, ManifestFile | ManifestLink]:
    named: dict[str, ManifestFile | ManifestLink] = {file.path: file for file in manifest.files}
    return named | {link.path: link for link in manifest.links}


def _refuse(reference: str, path: Path, expected: str, found: str) -> ApprovalRefused:
    return ApprovalRefused(
        reference,
        f"{path}: expected {expected}, found {found}",
        hint="install the supervisor again from its wheel",
    )
