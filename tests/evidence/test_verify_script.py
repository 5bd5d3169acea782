"""Promise: openssl, sha256sum and base64 alone tell a sound bundle from a changed one."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from orchestrator.attest import layout
from orchestrator.core.keys import SigningKey
from orchestrator.pipeline.seal import Signer
from tests.evidence.tamper import reseal_list
from tests.recorded import seal


@pytest.fixture
def copy(tiny, tmp_path):
    folder = tmp_path / "bundle"
    shutil.copytree(tiny.folder, folder)
    return folder


def verify(folder, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(folder / "verify.sh"), *words],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
    )


def test_the_sound_bundle_is_verified(copy, tiny):
    finished = verify(copy, tiny.keyid)
    assert finished.returncode == 0, finished.stderr
    assert f"{len(tiny.files) - 2} files, 4 statements" in finished.stdout


def test_the_key_id_has_to_be_given(copy):
    assert verify(copy).returncode == 2


def edit(name: str, change):
    def apply(folder):
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return apply


CHANGES = {
    "a file changed": edit("report.txt", lambda data: data + b"x"),
    "a file removed": lambda folder: (folder / "report.txt").unlink(),
    "a file added": lambda folder: (folder / "more.txt").write_text("x"),
    "a file added with a blank": lambda folder: (folder / "attestations" / "a b").write_text("x"),
    "a link added": lambda folder: (folder / "link").symlink_to("report.txt"),
    "a folder's link added": lambda folder: (folder / "linked").symlink_to("blobs"),
    "the list changed": edit(
        layout.SUMS, lambda data: data.replace(b"  report.txt", b"  report.tXt")
    ),
    "the list cut": edit(layout.SUMS, lambda data: data[:-70]),
    "the seal changed": edit(layout.SEAL, lambda data: data.replace(b'"sig":"', b'"sig":"AAAA', 1)),
    "the seal emptied": edit(layout.SEAL, lambda data: b""),
    "a second seal": edit(layout.SEAL, lambda data: data * 2),
    "another key": edit(layout.KEY, lambda data: SigningKey.generate().public.pem()),
    "a statement swapped": edit(
        "attestations/0000.intoto.jsonl", lambda d: b"\n".join(d.split(b"\n")[::-1])
    ),
    "checkpoint changed": edit(layout.CHECKPOINT, lambda data: data.replace(b"\n", b"\n9", 1)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_bundle_is_refused(copy, tiny, change):
    change(copy)
    finished = verify(copy, tiny.keyid)
    assert finished.returncode == 1, finished.stdout
    assert "NO" in finished.stderr


INSIDER = {
    "a statement by another": (
        "attestations/0000.intoto.jsonl",
        lambda data: data.replace(b'"sig":"', b'"sig":"A', 1),
    ),
    "a checkpoint of other records": (
        layout.CHECKPOINT,
        lambda data: data.replace(b"\n", b"\n9", 1),
    ),
}


@pytest.mark.parametrize(("name", "change"), INSIDER.values(), ids=INSIDER)
def test_statements_and_checkpoint_are_checked_apart_from_the_list(copy, tiny, name, change):
    files = reseal_list({**tiny.files, name: change(tiny.files[name])}, tiny.key)
    for path, data in files.items():
        (copy / path).write_bytes(data)
    finished = verify(copy, tiny.keyid)
    assert finished.returncode == 1, finished.stdout


def test_everything_signed_anew_by_another_key_is_refused(copy, tiny):
    other = SigningKey.generate()
    seal(copy, Signer(other, "operator"))
    assert verify(copy, other.public.keyid).returncode == 0
    assert verify(copy, tiny.keyid).returncode == 1


def test_a_withheld_blob_is_counted_and_nothing_else_may_be_missing(tiny, tmp_path):
    import tarfile

    from orchestrator.audit.export import Choices, export_run
    from orchestrator.cli.export import _planted
    from orchestrator.model.plan import Plan

    plan = Plan.model_validate_json(tiny.files[layout.PLAN])
    out = tmp_path / "public.tar"
    key = frozenset({plan.tasks[0].digests.key_sha256})
    export_run(tiny.folder, out, Choices(key, _planted()), tiny.trust)
    folder = tmp_path / "bundle"
    with tarfile.open(out) as archive:
        archive.extractall(folder, filter="data")
    refused = verify(folder, tiny.keyid)
    assert refused.returncode == 1
    assert "--allow-withheld" in refused.stderr
    finished = verify(folder, tiny.keyid, "--allow-withheld")
    assert "1 files withheld" in finished.stdout, finished.stderr
    listed = (folder / "withheld.json").read_text()
    (folder / "withheld.json").write_text(f'{listed} {{"path":"report.txt"}}')
    assert verify(folder, tiny.keyid, "--allow-withheld").returncode == 1
    (folder / "withheld.json").write_text(listed)
    (folder / "report.txt").unlink()
    assert verify(folder, tiny.keyid, "--allow-withheld").returncode == 1


@pytest.mark.parametrize("odd", ["empty folder", "name with a line break"])
def test_what_no_list_can_name_is_refused(copy, tiny, odd):
    if odd == "empty folder":
        (copy / "blobs" / "empty").mkdir()
    else:
        (copy / "report.txt\nplan.json").write_text("")
    assert verify(copy, tiny.keyid).returncode == 1
