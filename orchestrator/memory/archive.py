"""The archive of a memory system's work folder, in the one possible form of core.ustar; reads only.

Equal folders give equal bytes, so the digest before and after the query shows whether a store was frozen.
Only plain files with portable names can be kept; links and devices are refused, and so is a flood.
"""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

from orchestrator.core.errors import DocumentError
from orchestrator.core.ustar import write_archive
from orchestrator.memory.faults import AdapterFault, broken

MAX_ARCHIVE_BYTES = 256 * 1024 * 1024
MAX_FILES = 10_000


def archive_of(workdir: Path, *, max_bytes: int = MAX_ARCHIVE_BYTES) -> bytes:
    """Returns the archive of a folder.

    Raises:
        AdapterFault: something in it is no plain file, has an odd name, or there is too much of it.
    """
    names: list[str] = []
    total = 0
    for folder, folders, files in os.walk(workdir, followlinks=False):
        for name in (*folders, *files):
            path = Path(folder) / name
            found = path.lstat()
            relative = path.relative_to(workdir).as_posix()
            if stat.S_ISDIR(found.st_mode):
                continue
            if not stat.S_ISREG(found.st_mode):
                raise broken("plain-files", f"expected plain files in the store, found {relative}")
            names.append(relative)
            total += found.st_size
            if total > max_bytes or len(names) > MAX_FILES:
                raise AdapterFault(
                    "flooded",
                    "store-bounded",
                    f"expected a store of at most {max_bytes} bytes and {MAX_FILES} files, found more",
                )
    stream = io.BytesIO()
    try:
        write_archive(stream, names, lambda name: (workdir / name).read_bytes())
    except DocumentError as error:
        raise broken("portable-names", error.message) from error
    return stream.getvalue()
