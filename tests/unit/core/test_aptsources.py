"""Promise: only the machine's own Debian, in its own release, is turned to a suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.core import aptsources

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
STANZA = f"""# own
Types: deb deb-src
URIs: https://mirror.example.org/debian
Suites: trixie trixie-updates trixie-backports
Components: main contrib
Signed-By: {KEYRING}
"""


class Machine:
    """A machine whose /etc is a folder of this test."""

    def __init__(self, etc: Path) -> None:
        self._etc = etc

    def __call__(self, path: str) -> Path:
        return self._etc / path.removeprefix("/etc/")

    def write(self, name: str, text: str) -> None:
        path = self._etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(aptsources, "Path", made)
    made.write("os-release", 'ID=debian\nVERSION_CODENAME="trixie"\n')
    return made


def test_a_machine_that_says_nothing_of_itself_has_no_sources(machine, tmp_path):
    (tmp_path / "os-release").unlink()
    assert aptsources.os_release() == {}
    assert aptsources.debian_sources("forky") == ""


def test_another_systems_sources_are_not_debians(machine):
    machine.write("os-release", "ID=ubuntu\nVERSION_CODENAME=trixie\n")
    machine.write("apt/sources.list.d/debian.sources", STANZA)
    assert aptsources.debian_sources("forky") == ""


def test_release_and_updates_are_turned_and_backports_stay_out(machine):
    machine.write("apt/sources.list.d/debian.sources", STANZA)
    assert aptsources.debian_sources("forky") == "".join(
        f"deb [signed-by={KEYRING}] https://mirror.example.org/debian {suite} main\n"
        for suite in ("forky", "forky-updates")
    )


def test_a_source_that_is_named_twice_comes_once(machine):
    line = "deb https://mirror.example.org/debian trixie main\n"
    machine.write("apt/sources.list", line)
    machine.write("apt/sources.list.d/again.list", line)
    assert aptsources.debian_sources("forky") == (
        "deb https://mirror.example.org/debian forky main\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        STANZA.replace("Types: deb deb-src", "Types: deb-src"),
        STANZA.replace("main contrib", "contrib"),
        STANZA + "Enabled: no\n",
        STANZA.replace("debian-archive-keyring", "vendor"),
    ],
    ids=["sources only", "no main", "disabled", "another's key"],
)
def test_a_stanza_that_is_not_debians_own_stays_out(machine, text):
    machine.write("apt/sources.list.d/debian.sources", text)
    assert aptsources.debian_sources("forky") == ""


@pytest.mark.parametrize(
    "line",
    [
        "# deb https://mirror.example.org/debian trixie main",
        "deb https://mirror.example.org/debian trixie contrib",
        "deb [signed-by=/keys/vendor.gpg] https://mirror.example.org/debian trixie main",
        "deb https://mirror.example.org/debian sid main",
        "deb-src https://mirror.example.org/debian trixie main",
    ],
)
def test_a_line_that_is_not_debians_own_stays_out(machine, line):
    machine.write("apt/sources.list", line + "\n")
    assert aptsources.debian_sources("forky") == ""


def test_a_line_keeps_its_own_key(machine):
    line = f"deb [arch=amd64 signed-by={KEYRING}] https://m.example.org/debian trixie main\n"
    machine.write("apt/sources.list", line)
    assert aptsources.debian_sources("forky") == (
        f"deb [signed-by={KEYRING}] https://m.example.org/debian forky main\n"
    )
