"""The base image's layer, bootstrapped from Debian packages so that the same packages give the same bytes.

Runs mmdebstrap with a fixed SOURCE_DATE_EPOCH over the machine's own Debian sources; writes one tar into
the cache. Needs root on Debian or Ubuntu. Recipe: images/base/recipe.json.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from pathlib import Path

from pydantic import Field

from orchestrator.core.aptsources import debian_sources
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
    customize_hooks: tuple[Text, ...]


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
    _ensure_tool(say)
    target.parent.mkdir(parents=True, exist_ok=True)
    say(
        f"images: bootstrapping the base from Debian {recipe.suite} packages (about a minute, once per machine)"
    )
    with tempfile.TemporaryDirectory(prefix="memtrial-base-", dir=target.parent) as name:
        made = Path(name) / "base.tar"
        _run(recipe, made, say)
        made.replace(target)


def _ensure_tool(say: Say) -> None:
    if shutil.which("mmdebstrap") is not None:
        return
    packages = ["mmdebstrap", "debian-archive-keyring"]
    if os.environ.get("MEMTRIAL_ENGINE") == "keep":
        raise EnvironmentMissing(
            "mmdebstrap-missing",
            "expected mmdebstrap, found none, and MEMTRIAL_ENGINE=keep forbids installing it",
            hint=f"apt-get install -y --no-install-recommends {' '.join(packages)}",
        )
    say("images: installing the distribution's mmdebstrap to bootstrap the base image")
    apt_install(packages)


def _command(recipe: BaseRecipe, made: Path, *, sources: bool) -> list[str]:
    command = ["mmdebstrap", f"--variant={recipe.variant}", f"--include={','.join(recipe.include)}"]
    command += [f"--dpkgopt={option}" for option in recipe.dpkg_options]
    # What names this machine or its mirror is removed by hooks; neither belongs into an image.
    command += [f"--customize-hook={hook}" for hook in recipe.customize_hooks]
    return [*command, recipe.suite, str(made), *(["-"] if sources else [])]


def _run(recipe: BaseRecipe, made: Path, say: Say) -> None:
    sources = debian_sources(recipe.suite)
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "SOURCE_DATE_EPOCH": str(recipe.source_date_epoch),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        **{k: v for k, v in os.environ.items() if k.casefold().endswith("_proxy")},
    }
    done = threading.Event()
    threading.Thread(target=_tick, args=(done, say), daemon=True).start()
    try:
        finished = subprocess.run(
            _command(recipe, made, sources=bool(sources)),
            input=sources.encode(),
            env=environment,
            capture_output=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise _not_made(f"no end within {TIMEOUT_S} s") from error
    finally:
        done.set()
    if finished.returncode != 0:
        tail = finished.stderr[-1500:].decode("utf-8", "replace").strip()
        raise _not_made(f"exit {finished.returncode}:\n{tail}")


def _not_made(found: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        "base-not-made",
        f"expected mmdebstrap to succeed, found {found}",
        hint="mend the machine's Debian sources (apt-get update), then run `memtrial images`",
    )


def _tick(done: threading.Event, say: Say) -> None:
    began_s = time.monotonic()
    while not done.wait(15):
        say(f"images: still bootstrapping ({time.monotonic() - began_s:.0f} s)")


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
