"""Reaching an engine: what is allowed, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.sandbox import engine


@pytest.fixture
def _no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")


@pytest.mark.usefixtures("_no_engine")
@pytest.mark.parametrize("keep", ["keep", None])
def test_without_leave_to_install_the_error_holds_the_commands(
    monkeypatch: pytest.MonkeyPatch, keep: str | None
) -> None:
    monkeypatch.setenv("MEMTRIAL_ENGINE", keep or "")
    said: list[str] = []
    with pytest.raises(EnvironmentMissing) as caught:
        engine.ensure_engine(said.append, allow_install=keep is not None)
    assert "apt-get install -y --no-install-recommends docker.io iptables" in caught.value.hint
    assert caught.value.exit_code == 4
    assert said == []


@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="systemd starts the daemon here")
@pytest.mark.usefixtures("_no_engine")
def test_a_daemon_that_ends_at_once_is_reported_with_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    daemon = tmp_path / "dockerd"
    daemon.write_text("#!/bin/sh\necho this kernel has no overlay\nexit 1\n")
    daemon.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(engine, "LOG", tmp_path / "log")
    monkeypatch.setattr(engine, "PID", tmp_path / "pid")
    with pytest.raises(EnvironmentMissing, match="it ended") as caught:
        engine._start(lambda _: None)
    assert "this kernel has no overlay" in caught.value.message
    assert (tmp_path / "pid").read_text().strip().isdigit()


def test_apt_that_fails_is_reported_with_the_command_to_repeat(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/calls\necho no route\nexit 100\n')
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(EnvironmentMissing, match="no route"):
        engine.apt_install(["thing"])
    assert (tmp_path / "calls").read_text().split() == ["install", "update"]


def test_package_lists_are_not_refreshed_when_they_serve(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/calls\n')
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    engine.apt_install(["thing"])
    assert (tmp_path / "calls").read_text().split() == ["install"]


def test_a_killed_daemons_pid_file_does_not_stop_the_next_start(tmp_path):
    import os

    from orchestrator.sandbox.engine import forget_dead_daemons

    reused = tmp_path / "docker.pid"
    reused.write_text(f"{os.getpid()}\n")
    gone = tmp_path / "containerd.pid"
    gone.write_text("4194305")
    forget_dead_daemons((reused, gone, tmp_path / "absent.pid"))
    assert list(tmp_path.iterdir()) == []
