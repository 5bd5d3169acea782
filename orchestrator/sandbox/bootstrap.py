"""The base image's layer, bootstrapped from Debian packages so that the same packages give the same bytes.

Runs mmdebstrap with a fixed SOURCE_DATE_EPOCH over the machine's own Debian sources; writes one tar into
the cache. Needs root on Debian or Ubuntu. Recipe: images/base/recipe.json.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from pathlib import Path

from pydantic import Field

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.model.base import Document, Text
from orchestrator.model.images import LockedPackage
from orchestrator.sandbox.engine import Say, apt_install, is_debian

TIMEOUT_S = 1800


class BaseRecipe(Document):
    """images/base/recipe.json."""

    suite: Text
    variant: Text
    include: tuple[Text, ...] = Field(min_length=1)
    source_date_epoch: int = Field(ge=0)
    dpkg_options: tuple[Text, ...]


def bootstrap(recipe: BaseRecipe, target: Path, say: Say) -> None:
    """Writes the base layer's tar.

    Raises:
        EnvironmentMissing: this machine cannot bootstrap; the text holds the commands.
    """
    if os.geteuid() != 0 or not is_debian():
        raise EnvironmentMissing(
            "base-cannot-be-made",
            "expected root on Debian or Ubuntu to bootstrap the base image, found neither it nor MEMTRIAL_BASE_IMAGE",
            hint="run as root on Debian 12, or set MEMTRIAL_BASE_IMAGE=debian@sha256:... to pin a base that your registry has",
        )
    if shutil.which("mmdebstrap") is None:
        if os.environ.get("MEMTRIAL_ENGINE") == "keep":
            raise EnvironmentMissing(
                "mmdebstrap-missing",
                "expected mmdebstrap, found none",
                hint="apt-get install -y --no-install-recommends mmdebstrap",
            )
        say("images: installing Debian's mmdebstrap to bootstrap the base image")
        apt_install(["mmdebstrap"])
    target.parent.mkdir(parents=True, exist_ok=True)
    say(
        f"images: bootstrapping the base from Debian {recipe.suite} packages (about a minute, once per machine)"
    )
    with tempfile.TemporaryDirectory(prefix="memtrial-base-", dir=target.parent) as name:
        made = Path(name) / "base.tar"
        _run(recipe, made, say)
        made.replace(target)


def _run(recipe: BaseRecipe, made: Path, say: Say) -> None:
    command = ["mmdebstrap", f"--variant={recipe.variant}", f"--include={','.join(recipe.include)}"]
    command += [f"--dpkgopt={option}" for option in recipe.dpkg_options]
    # The name of the machine and its resolver are copied in by default; neither belongs into an image.
    command += [
        "--customize-hook=rm -f $1/etc/hostname $1/etc/resolv.conf",
        recipe.suite,
        str(made),
        "-",
    ]
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "SOURCE_DATE_EPOCH": str(recipe.source_date_epoch),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        **{k: v for k, v in os.environ.items() if k.casefold().endswith("_proxy")},
    }
    done = threading.Event()
    ticker = threading.Thread(target=_tick, args=(done, say), daemon=True)
    ticker.start()
    try:
        finished = subprocess.run(
            command,
            input=debian_sources(recipe.suite).encode(),
            env=environment,
            capture_output=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    finally:
        done.set()
    if finished.returncode != 0:
        raise EnvironmentMissing(
            "base-not-made",
            f"expected mmdebstrap to succeed, found exit {finished.returncode}:\n{finished.stderr[-1500:].decode('utf-8', 'replace').strip()}",
            hint="mend the machine's Debian sources (apt-get update), then run `memtrial images`",
        )


def _tick(done: threading.Event, say: Say) -> None:
    began_s = time.monotonic()
    while not done.wait(15):
        say(f"images: still bootstrapping ({time.monotonic() - began_s:.0f} s)")


def debian_sources(suite: str) -> str:
    """Returns the machine's own Debian sources of a suite, in one-line form; others are left out.

    Raises:
        EnvironmentMissing: the machine has none.
    """
    lines: list[str] = []
    folder = Path("/etc/apt/sources.list.d")
    for path in sorted(folder.glob("*.sources")) if folder.is_dir() else []:
        for stanza in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
            lines += _from_stanza(stanza, suite)
    plain = [
        Path("/etc/apt/sources.list"),
        *(sorted(folder.glob("*.list")) if folder.is_dir() else []),
    ]
    for path in plain:
        if path.is_file():
            lines += [
                line.strip()
                for line in path.read_text(encoding="utf-8").splitlines()
                if _is_debian_line(line, suite)
            ]
    if not lines:
        raise EnvironmentMissing(
            "debian-sources-missing",
            f"expected apt sources for Debian {suite}, found none",
            hint=f"add Debian {suite} to /etc/apt/sources.list.d, or set MEMTRIAL_BASE_IMAGE",
        )
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _from_stanza(stanza: str, suite: str) -> list[str]:
    fields: dict[str, list[str]] = {}
    for line in stanza.splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith("#"):
            fields[name.strip().casefold()] = value.split()
    if "deb" not in fields.get("types", []) or fields.get("enabled") == ["no"]:
        return []
    suites = [
        s
        for s in fields.get("suites", [])
        if s.split("-")[0].split("/")[0] == suite and "backports" not in s
    ]
    signed = fields.get("signed-by", [])
    option = f"[signed-by={signed[0]}] " if signed and signed[0].startswith("/") else ""
    if "debian-archive" not in " ".join(signed):
        return []
    return [f"deb {option}{uri} {s} main" for uri in fields.get("uris", []) for s in suites]


def _is_debian_line(line: str, suite: str) -> bool:
    found = re.match(r"^deb\s+(?:\[[^]]*\]\s+)?\S*debian\S*\s+(\S+)\s", line.strip() + " ")
    return (
        bool(found)
        and found[1].split("-")[0].split("/")[0] == suite
        and "backports" not in found[1]
    )  # type: ignore[index]


def packages_of(layer: Path) -> tuple[LockedPackage, ...]:
    """Returns name and version of every package in a base layer, from dpkg's own status file."""
    with tarfile.open(layer) as archive:
        for member in archive:
            if member.name.removeprefix("./") == "var/lib/dpkg/status":
                stream = archive.extractfile(member) or io.BytesIO()
                return _parse_status(stream.read().decode("utf-8"))
    return ()


def _parse_status(text: str) -> tuple[LockedPackage, ...]:
    found = []
    for stanza in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in stanza.splitlines()
            if ": " in line and not line.startswith(" ")
        )
        if "Package" in fields and "Version" in fields:
            found.append(LockedPackage(name=fields["Package"], version=fields["Version"]))
    return tuple(sorted(found, key=lambda package: package.name))
