"""Promise: verify.sh needs nothing of ours: it runs in a container that holds a shell and five programs."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from orchestrator.core.keys import SigningKey
from orchestrator.pipeline.seal import Signer
from orchestrator.sandbox.adapter import EngineClient
from tests.recorded import TINY, record_run, seal

pytestmark = pytest.mark.docker
PROGRAMS = (
    *("sh", "openssl", "sha256sum", "base64", "sed", "grep", "cut", "tail", "wc", "tr", "cat"),
    *("find", "mktemp", "rm", "dirname"),
)


def bare_image() -> bytes:
    """A file system with the programs and the libraries that they load, from this machine, and no Python."""
    wanted: set[Path] = set()
    for name in PROGRAMS:
        found = subprocess.run(
            ["sh", "-c", f"command -v {name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        wanted.add(Path(found))
        listed = subprocess.run(["ldd", found], capture_output=True, text=True, check=False).stdout
        wanted |= {
            Path(word) for line in listed.splitlines() for word in line.split() if word[0] == "/"
        }
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", dereference=True) as archive:
        for path in sorted(wanted):
            archive.add(path, arcname=str(path).lstrip("/"))
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(folder)
    return stream.getvalue()


@pytest.fixture
def image(client: EngineClient):
    told = json.loads(client.api.import_image_from_data(bare_image()))
    yield told["status"]
    client.images.remove(told["status"], force=True)


def test_a_stranger_verifies_a_bundle_in_a_bare_container_without_network(
    client: EngineClient, image: str, tmp_path: Path
):
    key = SigningKey.generate()
    folder = record_run(tmp_path, TINY)
    seal(folder, Signer(key, "operator"))

    def run(keyid: str) -> tuple[int, str]:
        container = client.containers.create(
            image,
            ["sh", "/bundle/verify.sh", keyid],
            network_mode="none",
            read_only=True,
            tmpfs={"/tmp": "mode=1777"},
            environment={"PATH": "/usr/bin:/bin"},
            volumes={str(folder): {"bind": "/bundle", "mode": "ro"}},
        )
        try:
            container.start()
            status = container.wait()["StatusCode"]
            return status, container.logs().decode()
        finally:
            container.remove(force=True)

    status, text = run(key.public.keyid)
    assert status == 0, text
    assert "4 statements" in text
    assert run(SigningKey.generate().public.keyid)[0] == 1
    (folder / "report.txt").write_text("all resolved")
    assert run(key.public.keyid)[0] == 1
