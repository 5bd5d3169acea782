"""Promise: what is installed is what was built, root's alone to write, under a user of its own; and the installer says so."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.core.errors import EnvironmentMissing, UsageError
from orchestrator.core.files import write_atomic
from orchestrator.model.gate import Manifest
from orchestrator.trust.manifest import manifest_of, staged_manifest
from tools import supervisor


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A small prefix, as a build leaves it."""
    stage = tmp_path / "built" / "root" / "opt" / "memtrial"
    (stage / "bin").mkdir(parents=True)
    (stage / "bin" / "python").write_bytes(b"\x7fELF")
    (stage / "lib").mkdir()
    (stage / "lib" / "https%3A%2F%2Fexample.org").write_bytes(b"x")
    supervisor._modes(stage)
    write_atomic(tmp_path / "built" / supervisor.MANIFEST, staged_manifest(stage).canonical())
    return tmp_path / "built"


@pytest.mark.docker
def test_an_installation_is_roots_alone_and_checked_and_told(built, clean_folder, capsys):
    """Needs root, as an engine does."""
    root = clean_folder / "root"
    supervisor.install(built, root, (1000,))
    told = capsys.readouterr().out
    prefix, system, state = (root / p for p in ("opt/memtrial", "etc/memtrial", "var/lib/memtrial"))
    found = manifest_of(prefix, owner_uid=0)
    data = (system / supervisor.MANIFEST).read_bytes()
    assert Manifest.parse_canonical(data, where="manifest") == found
    assert found.digest_sha256() in told
    for path in (prefix, *prefix.rglob("*")):
        assert path.stat().st_uid == 0
        assert not path.stat().st_mode & 0o022
    key = state / supervisor.KEY
    assert state.stat().st_uid == key.stat().st_uid != 0
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    unit = (root / "etc/systemd/system/memtrial-supervisor.service").read_text("utf-8")
    assert "User=memtrial\n" in unit
    assert "env -i" in unit
    assert "--allow-uid 1000" in unit
    for line in ("copied 2 files", "key id", "supervisor.pub.pem", "operators: 1000", "left to do"):
        assert line in told
    with pytest.raises(UsageError, match="expected nothing at"):
        supervisor.install(built, root, ())


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.docker
def test_whatever_the_installers_umask_operators_read_what_they_must(
    built, clean_folder, strict_umask
):
    """Needs root, as an engine does."""
    root = clean_folder / "root"
    supervisor.install(built, root, (1000,))
    open_to_all = ("opt/memtrial", "etc/memtrial", "etc/systemd/system", "var/lib")
    for name in open_to_all:
        for place in (root / name, *list((root / name).parents)[: name.count("/") + 1]):
            assert stat.S_IMODE(place.stat().st_mode) == 0o755, place
    assert stat.S_IMODE((root / "etc/memtrial" / supervisor.MANIFEST).stat().st_mode) == 0o644
    assert stat.S_IMODE((root / "opt/memtrial/bin/python").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "var/lib/memtrial").stat().st_mode) == 0o700


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="a machine without systemd starts no unit"
)
def test_the_unit_is_one_that_systemd_takes(tmp_path):
    unit = tmp_path / "memtrial-supervisor.service"
    unit.write_text(supervisor.unit_text((1000, 1001)), encoding="utf-8")
    told = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stderr) == (0, "")


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ("/opt/memtrial/bin/memtrial", "/opt/memtrial/bin/memtrial official p.json"),
        ("", ".venv/bin/memtrial official p.json"),
    ],
    ids=["installed", "clone"],
)
def test_make_official_dispatches_by_the_installed_program_where_there_is_one(installed, expected):
    """Plans of phase official are of the installed version, and a clone's own would be refused."""
    told = subprocess.run(
        ["make", "--no-print-directory", "-n", "official", "PLAN=p.json", f"INSTALLED={installed}"],
        # Run below another make, it would take that one's options for its own.
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        cwd=supervisor.ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert told[-1].startswith(f"{expected} --repository {supervisor.ROOT}")
    assert ("requirements/setup.sh" in told) is not bool(installed)


@pytest.mark.parametrize(
    "line",
    [
        "Restart=always",
        "LimitNOFILE=65536",
        "PrivateTmp=yes",
        "RuntimeDirectoryMode=0755",
        "ReadWritePaths=/var/lib/memtrial",
        "User=memtrial",
    ],
)
def test_the_unit_holds_what_a_dispatch_rests_on(line):
    assert line in supervisor.unit_text(()).splitlines()


@pytest.mark.parametrize(
    "line", ["PrivateUsers", "DynamicUser", "RestrictSUIDSGID", "SystemCallFilter"]
)
def test_the_unit_takes_nothing_away_that_a_dispatch_rests_on(line):
    assert f"{line}=" not in supervisor.unit_text(())


@pytest.mark.docker
def test_a_stage_that_was_changed_after_it_was_built_is_not_installed(built, clean_folder):
    """Needs root, as an engine does."""
    (built / "root/opt/memtrial/bin/python").write_bytes(b"\x7fELG")
    with pytest.raises(EnvironmentMissing, match="file that was built"):
        supervisor.install(built, clean_folder / "root", ())


def test_nobody_but_root_installs(built, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="expected to be root"):
        supervisor.install(built, tmp_path / "root", ())
    assert not (tmp_path / "root").exists()


def wheel(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return path


def test_a_wheel_is_unpacked_as_it_is(tmp_path):
    supervisor.unpack(wheel(tmp_path / "w.whl", "a/b.py", "a-1.data/scripts/run"), tmp_path / "s")
    assert (tmp_path / "s/a/b.py").read_text() == "a/b.py"
    assert (tmp_path / "s/a-1.data/scripts/run").is_file()


@pytest.mark.parametrize("name", ["a-1.data/purelib/a.py", "a-1.data/platlib/a.so"])
def test_a_wheel_whose_modules_would_not_be_found_is_refused(tmp_path, name):
    with pytest.raises(EnvironmentMissing, match="modules at its top"):
        supervisor.unpack(wheel(tmp_path / "w.whl", name), tmp_path / "s")


def test_a_wheel_cannot_write_elsewhere(tmp_path):
    with pytest.raises(Exception, match="plain relative path"):
        supervisor.unpack(wheel(tmp_path / "w.whl", "../x"), tmp_path / "s")
    assert not (tmp_path / "x").exists()


def test_an_interpreter_that_needs_libraries_of_a_home_is_refused(tmp_path):
    with pytest.raises(UsageError, match="found none"):
        supervisor._interpreter(tmp_path / "python")


def test_the_lock_has_what_the_run_lock_has_and_the_trust_root(tmp_path):
    def names(name: str) -> set[str]:
        text = (supervisor.ROOT / "requirements" / name).read_text("utf-8")
        return {line.split()[0] for line in text.splitlines() if "==" in line}

    assert {n.split("==")[0] for n in names("official.lock") - names("run.lock")} == {
        "securesystemslib",
        "tuf",
    }
    assert names("run.lock") <= names("official.lock")


@pytest.mark.network
@pytest.mark.proof
def test_two_builds_have_one_manifest_and_the_prefix_runs_by_itself(tmp_path):
    python = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    first = supervisor.build(tmp_path / "one", python)
    assert supervisor.build(tmp_path / "two", python) == first
    stage = tmp_path / "one/root/opt/memtrial"
    (stage / "pyvenv.cfg").write_text(f"home = {stage}/base/bin\nversion = 3\n")
    told = subprocess.run(
        [stage / "bin/python", "-IB", "-c", "import os, tuf; print(os.__file__, tuf.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(path.startswith(str(stage)) for path in told.stdout.split())
