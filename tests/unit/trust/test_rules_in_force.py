"""Promise: the kernel is asked for every rule, a book is held by one at a time, and a root names keys that it has."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from orchestrator.core.errors import ApprovalRefused
from orchestrator.trust import trusted
from orchestrator.trust.nonces import BOOK, NonceBook
from orchestrator.trust.root.shape import check_shape
from tests.unit.trust.rooted import edited, files_of, make_root, read
from tests.unit.trust.test_nonces import NOW_S, use


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    make_root(tmp_path)
    return files_of(tmp_path)


def test_a_file_is_opened_below_its_folder_without_links_or_mounts(monkeypatch):
    asked: list[int] = []
    real = trusted.openat2

    def noted(folder: int, name: str, flags: int, resolve: int) -> int:
        asked.append(resolve)
        return real(folder, name, flags, resolve)

    monkeypatch.setattr(trusted, "openat2", noted)
    trusted.read_trusted(Path("/etc/passwd"), owner_uid=0, max_bytes=1 << 20)
    links = trusted.RESOLVE_NO_SYMLINKS | trusted.RESOLVE_NO_MAGICLINKS
    assert asked == [links, links | trusted.RESOLVE_BENEATH | trusted.RESOLVE_NO_XDEV]


def test_a_book_that_another_holds_is_waited_for(tmp_path):
    NonceBook(tmp_path).reserve(use(1), now_s=NOW_S)
    read_it = threading.Event()

    def look() -> None:
        NonceBook(tmp_path).state()
        read_it.set()

    with (tmp_path / BOOK).open("rb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        reader = threading.Thread(target=look)
        reader.start()
        assert not read_it.wait(0.5)
        fcntl.flock(handle, fcntl.LOCK_UN)
        assert read_it.wait(30)
    reader.join()


def test_a_role_of_a_key_that_the_root_does_not_have_is_refused_for_its_shape(files):
    def change(document):
        document["signed"]["roles"]["root"]["keyids"].append("f" * 64)

    with pytest.raises(ApprovalRefused, match="known keys in root") as refused:
        check_shape(edited(files["metadata/1.root.json"], change), where="root")
    assert refused.value.reference == "metadata-malformed"


def test_a_refusal_of_the_machines_own_root_says_that_it_is_that(files):
    twin = files["metadata/1.root.json"].replace(b'"version"', b'"version": 99, "version"', 1)
    with pytest.raises(ApprovalRefused, match="bootstrap root") as refused:
        read(files, bootstrap=twin)
    assert refused.value.reference == "json-duplicate-key"
