"""A trust root with its people, in memory and on disk, for tests."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.core.keys import SigningKey
from orchestrator.trust.root.client import RootState, TrustRoot, read_root
from orchestrator.trust.root.make import Draft, People, draft, next_version, publish, put_target
from tests.unit.trust.support import CURATORS, as_bytes, key, roles

OWNERS = tuple(key(f"owner {i}") for i in range(3))
PEOPLE = People(tuple(k.public for k in OWNERS), tuple(k.public for k in CURATORS))
APPROVAL = "approvals/one.dsse.json"
FIRST = RootState()
ALL = frozenset({"root", "targets", "approvals"})


def make_root(folder: Path, *, people: People = PEOPLE, now_s: int | None = None) -> Draft:
    made = draft(people, as_bytes(roles()), now_s=now_s or int(time.time()))
    put_target(made, APPROVAL, b'{"an":"envelope"}')
    publish(folder, made, owners=OWNERS[:2], curator=CURATORS[0], changed=ALL)
    return made


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def read(files: dict[str, bytes], **changes: Any) -> TrustRoot:
    facts: dict[str, Any] = {
        "bootstrap": files["metadata/1.root.json"],
        "seen": FIRST,
        "now_s": int(time.time()),
    }
    return read_root(files, **{**facts, **changes})


def another(
    made: Draft, folder: Path, *names: str, owners: tuple[SigningKey, ...] = OWNERS[:2]
) -> None:
    """Publishes the next version."""
    changed = next_version(made, *names, now_s=int(time.time()))
    publish(folder, made, owners=owners, curator=CURATORS[0], changed=changed)


def edited(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(data)
    change(document)
    return json.dumps(document).encode()
