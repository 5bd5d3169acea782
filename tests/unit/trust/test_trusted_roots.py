"""Promise: what root alone could have written is good for every user who trusts it."""

from __future__ import annotations

from pathlib import Path

from orchestrator.trust.trusted import read_trusted

ANOTHER_UID = 4242


def test_a_file_and_folders_of_root_are_good_whoever_is_to_own_them():
    path = Path("/etc/passwd")
    assert read_trusted(path, owner_uid=ANOTHER_UID, max_bytes=1 << 20) == path.read_bytes()


def test_a_program_that_all_may_run_and_only_root_write_is_read():
    path = Path("/bin/sh").resolve()
    assert read_trusted(path, owner_uid=ANOTHER_UID, max_bytes=1 << 24) == path.read_bytes()
