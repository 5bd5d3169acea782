"""Ties an installed distribution to the wheel that a lock pins: its RECORD against the wheel's own. Pure over bytes.

What an installer adds (its notes, scripts outside the modules, compiled modules) is known by place; any
other file that the wheel does not hold, or holds with another digest, is told.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterable
from importlib import metadata

from orchestrator.core.errors import DocumentError

MAX_RECORD_BYTES = 64 * 1024 * 1024
_NOTES = frozenset(
    {
        "INSTALLER",
        "RECORD",
        "REQUESTED",
        "direct_url.json",
        "uv_build.json",
        "uv_cache.json",
    }
)
_PLACED = ("purelib", "platlib")


def not_of_the_wheel(found: metadata.Distribution, wheel: bytes, *, name: str) -> str:
    """Returns what of an installation is not of a wheel, in words; nothing if all of it is.

    Args:
        found: the installed distribution; its files were compared with its RECORD.
        wheel: the bytes of the wheel.
        name: of the wheel, for the text.

    Raises:
        DocumentError: the bytes are no wheel.
    """
    held = wheel_record(wheel, name=name)
    installed = {
        file.as_posix(): file.hash.value if file.hash else None for file in found.files or ()
    }
    for path, value in sorted(held.items()):
        if path not in installed:
            return f"{path} of {name} is not installed"
        if installed[path] != value:
            return f"{path} is not the one of {name}"
    strange = [path for path in sorted(installed) if path not in held and not _added(path)]
    return f"{strange[0]} is not of {name}" if strange else ""


def wheel_record(wheel: bytes, *, name: str) -> dict[str, str]:
    """Returns the digests of a wheel's files by where they are installed, as its RECORD has them.

    Raises:
        DocumentError: it has no single RECORD.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
            records = [info for info in archive.infolist() if _is_record(info.filename)]
            if len(records) != 1 or records[0].file_size > MAX_RECORD_BYTES:
                raise _no_wheel(name, f"{len(records)} RECORDs")
            rows = list(csv.reader(io.StringIO(archive.read(records[0]).decode("utf-8"))))
    except (zipfile.BadZipFile, UnicodeDecodeError, csv.Error) as error:
        raise _no_wheel(name, str(error)) from error
    return dict(_placed(rows))


def _placed(rows: Iterable[list[str]]) -> Iterable[tuple[str, str]]:
    for row in rows:
        if len(row) < 2 or not row[1].startswith("sha256="):
            continue
        first, _, rest = row[0].partition("/")
        if first.endswith(".data"):
            # Scripts and headers lie elsewhere, and scripts get another first line.
            kind, _, rest = rest.partition("/")
            if kind in _PLACED:
                yield rest, row[1].removeprefix("sha256=")
            continue
        yield row[0], row[1].removeprefix("sha256=")


def _is_record(path: str) -> bool:
    folder, _, rest = path.partition("/")
    return folder.endswith(".dist-info") and rest == "RECORD"


def _added(path: str) -> bool:
    """Whether an installer makes such a file."""
    folder, _, rest = path.partition("/")
    return (
        path.startswith("../")
        or path.endswith(".pyc")
        or (folder.endswith(".dist-info") and rest in _NOTES)
    )


def _no_wheel(name: str, found: str) -> DocumentError:
    return DocumentError(
        "wheel-malformed",
        f"{name}: expected a wheel with one RECORD, found {found}",
        hint="fetch the wheel again",
    )
