"""What an engine says of its container runtimes: which there are, which are stronger, and whether it is rootless.

Pure over the engine's own description (`GET /info`, engine 20.10 and later); starts and changes nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.core.errors import EnvironmentMissing

# What a container runs on where a hole in the host's kernel is not by itself a way out of it.
STRONGER = {
    "runsc": "gVisor: a kernel of its own in user space",
    "gvisor": "gVisor: a kernel of its own in user space",
    "kata": "Kata: a virtual machine for each container",
    "sysbox": "Sysbox: root inside is nobody outside",
}
Remap = Literal["rootless", "user namespaces", "none"]


@dataclass(frozen=True, slots=True)
class Runtimes:
    """The runtimes of one engine.

    Args:
        names: every runtime that a container may name, sorted.
        default: what runs a container that names none.
        stronger: those that put more than namespaces between a container and the host's kernel, with why.
        remap: whose root the containers' root is: the engine's user's, another user's, or the host's.
    """

    names: tuple[str, ...]
    default: str
    stronger: tuple[tuple[str, str], ...]
    remap: Remap


def runtimes_of(info: Mapping[str, Any]) -> Runtimes:
    """Reads the engine's description; fields that an engine leaves out count as empty."""
    listed = info.get("Runtimes") or {}
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    named = {part for option in options for part in option.split(",")}
    remap: Remap = "none"
    if "name=rootless" in named:
        remap = "rootless"
    elif "name=userns" in named:
        remap = "user namespaces"
    kinds = {name: _kind(name, listed[name]) for name in sorted(listed)}
    return Runtimes(
        names=tuple(kinds),
        default=str(info.get("DefaultRuntime") or ""),
        stronger=tuple((name, STRONGER[kind]) for name, kind in kinds.items() if kind),
        remap=remap,
    )


def _kind(name: str, entry: object) -> str | None:
    """Returns what kind of stronger runtime an entry is: its program says more than its name."""
    fields = entry if isinstance(entry, Mapping) else {}
    program = str(fields.get("path") or fields.get("runtimeType") or name)
    told = program.rpartition("/")[2].casefold()
    return next((kind for kind in STRONGER if kind in told), None)


def runtimes_line(found: Runtimes) -> str:
    """Returns the runtimes in one line: the default, which are stronger, and whose root is root."""
    kinds = dict(found.stronger)
    listed = ", ".join(
        name
        + (" (default)" if name == found.default else "")
        + (f" [stronger; {kinds[name]}]" if name in kinds else "")
        for name in found.names
    )
    none = "" if kinds else "; none stronger: containers share the host's kernel"
    root = {
        "rootless": "the engine is rootless",
        "user namespaces": "the engine is not rootless but maps users",
        "none": "the engine is not rootless",
    }[found.remap]
    return f"{listed or 'none named'}{none}; {root}"


def require_runtime(info: Mapping[str, Any], runtime: str | None) -> None:
    """Refuses a runtime that the engine does not have; None is the engine's own default and always there.

    Raises:
        EnvironmentMissing: with the runtimes that there are.
    """
    found = runtimes_of(info)
    if runtime is None or runtime in found.names:
        return
    hint = "add it to the engine, or see `memtrial doctor` for what is there"
    if found.default:
        hint = f"add it to the engine (`memtrial doctor` lists what it has), or make a plan with `memtrial plan --runtime {shlex.quote(found.default)}`"
    raise EnvironmentMissing(
        "runtime-missing",
        f"expected container runtime {runtime} in the engine, found {', '.join(found.names) or 'none'}",
        hint=hint,
    )
