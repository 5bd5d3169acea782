"""The machine's own Debian sources, turned to one suite and one line each. Reads /etc, writes nothing."""

from __future__ import annotations

import re
from pathlib import Path


def os_release() -> dict[str, str]:
    """Returns the fields of os-release(5), empty where there is none."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def debian_sources(suite: str) -> str:
    """Returns the machine's own Debian sources in one-line form, turned to a suite.

    Mirror and keyring are the machine's; only the code name of its own release is replaced. Empty where
    the machine is no Debian or has no such source: then mmdebstrap's own default serves.
    """
    release = os_release()
    if release.get("ID") != "debian":
        return ""
    own = release.get("VERSION_CODENAME", suite)
    apt = Path("/etc/apt")
    lines: list[str] = []
    for path in sorted((apt / "sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
            lines += from_stanza(stanza, own, suite)
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))]:
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                lines += from_line(line, own, suite)
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def from_stanza(stanza: str, own: str, suite: str) -> list[str]:
    """Turns one deb822 stanza (sources.list(5)) into lines for a suite; none if it is not Debian's own."""
    fields: dict[str, list[str]] = {}
    for line in stanza.splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith(("#", " ", "\t")):
            fields[name.strip().casefold()] = value.split()
    signed = fields.get("signed-by", [])
    if (
        "deb" not in fields.get("types", [])
        or "main" not in fields.get("components", [])
        or fields.get("enabled") == ["no"]
        or (signed and "debian-archive" not in signed[0])
    ):
        return []
    option = f"[signed-by={signed[0]}] " if signed else ""
    suites = _turned(fields.get("suites", []), own, suite)
    return [f"deb {option}{uri} {name} main" for uri in fields.get("uris", []) for name in suites]


def from_line(line: str, own: str, suite: str) -> list[str]:
    """Turns one line of the one-line format (sources.list(5)) likewise."""
    found = re.match(r"^\s*deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)\s+(.*)", line)
    if found is None or "main" not in found[4].split():
        return []
    signed = re.search(r"signed-by=(\S+)", found[1] or "")
    if signed and "debian-archive" not in signed[1]:
        return []
    option = f"[signed-by={signed[1]}] " if signed else ""
    return [f"deb {option}{found[2]} {name} main" for name in _turned([found[3]], own, suite)]


def _turned(suites: list[str], own: str, suite: str) -> list[str]:
    """Keeps release, updates and security; backports and foreign suites stay out."""
    return [f"{suite}{end}" for end in ("", "-updates", "-security") if f"{own}{end}" in suites]
