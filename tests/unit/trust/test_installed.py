"""Promise: the digest of what is installed changes with every file, version and RECORD, and a changed file is named."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from orchestrator.core.errors import IntegrityError
from orchestrator.trust import installed


def distribution(folder: Path, name: str = "Some", version: str = "1", body: bytes = b"x = 1\n"):
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (folder / f"{name}.py").write_bytes(body)
    digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip("=")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text(
        f"{name}.py,sha256={digest},{len(body)}\n{name}.md5,md5=AAAA,1\n{info.name}/RECORD,,\n"
    )
    return PathDistribution(info)


def digest_of(monkeypatch, *found) -> str:
    monkeypatch.setattr(installed, "distributions", lambda: found)
    return installed.installed_manifest_sha256()


def test_every_difference_shows_and_order_does_not(tmp_path, monkeypatch):
    one = distribution(tmp_path / "a")
    two = distribution(tmp_path / "b", "Other")
    whole = digest_of(monkeypatch, one, two)
    assert digest_of(monkeypatch, two, one) == whole
    others = [
        digest_of(monkeypatch, one),
        digest_of(monkeypatch, one, distribution(tmp_path / "c", "Other", "2")),
        digest_of(monkeypatch, one, distribution(tmp_path / "d", "Other", body=b"x = 2\n")),
    ]
    assert len({whole, *others}) == 4


def test_a_file_that_is_changed_or_gone_is_named(tmp_path, monkeypatch):
    found = distribution(tmp_path)
    digest_of(monkeypatch, found)
    (tmp_path / "Some.py").write_bytes(b"x = 3\n")
    with pytest.raises(IntegrityError, match=r"Some\.py"):
        digest_of(monkeypatch, found)
    (tmp_path / "Some.py").unlink()
    with pytest.raises(IntegrityError, match=r"Some\.py"):
        digest_of(monkeypatch, found)


def test_a_distribution_without_a_record_counts_by_its_name(tmp_path, monkeypatch):
    found = distribution(tmp_path)
    (tmp_path / "Some-1.dist-info" / "RECORD").unlink()
    assert len(digest_of(monkeypatch, found)) == 64
