"""Guards a trial: before `act` the container equals its declaration and shows no literal; afterwards nothing leaked.

Composes the leak scan and the declaration of the sandbox room. What the harness caused makes a trial
inadmissible, what the agent caused is misconduct; both only after the evidence was written down.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from orchestrator.core.patchtext import added_lines, binary_parts
from orchestrator.model.condition import Condition
from orchestrator.model.isolation import (
    Difference,
    Finding,
    Inventory,
    Isolation,
    Screening,
)
from orchestrator.model.plan import TaskPin
from orchestrator.protocols import Launch, Workspace
from orchestrator.sandbox.declared import compare, declare
from orchestrator.sandbox.leaks.layers import LayersKnown, expected_listing, listing_sha256
from orchestrator.sandbox.leaks.literals import canary, canary_literal
from orchestrator.sandbox.leaks.scanner import Hit, Scanner
from orchestrator.sandbox.leaks.scanner import Literal as Secret

MARK = "MEMTRIAL_MARK"
PINNED_TREE = ": /opt/memtrial/checkout/"
MAX_DIFFERENCES = 50

Know = Callable[[tuple[Secret, ...]], LayersKnown]


@dataclass(frozen=True, slots=True)
class Image:
    """What is known of a task's image: leaks in it, literals that are common there, its listing."""

    leaks: tuple[Finding, ...]
    common: frozenset[str]
    listing: dict[str, str]


class Guard:
    """What the trials of one task are guarded against. Shared by their threads; made ready on first use."""

    def __init__(
        self,
        *,
        oracle: tuple[Secret, ...],
        image_paths: tuple[Secret, ...],
        run_paths: tuple[Secret, ...],
        secret: str,
        know: Know,
    ) -> None:
        """Takes what may not be seen.

        Args:
            oracle: literals of the task's answer.
            image_paths: host paths that an image could have caught when it was made.
            run_paths: host paths of the run.
            secret: what the run's canaries are derived from.
            know: gives what the image's layers hold of some literals.
        """
        self._oracle = (*oracle, canary_literal())
        self._image_paths = image_paths
        self._run_paths = run_paths
        self._secret = secret
        self._know = know
        self._lock = threading.Lock()
        self._ready: tuple[Scanner, Image] | None = None

    def canary(self, trial: str) -> bytes:
        """Returns the canary of a trial."""
        return canary(self._secret, trial)

    def scanner(self, trial: str) -> Scanner:
        """Returns the search that lets a trial show its own canary."""
        return self._made()[0].owned_by(self.canary(trial))

    @property
    def image(self) -> Image:
        """What is known of the task's image."""
        return self._made()[1]

    def _made(self) -> tuple[Scanner, Image]:
        with self._lock:
            if self._ready is None:
                searched = (*self._oracle, *self._image_paths)
                image = judge_image(searched, self._know(searched))
                self._ready = (Scanner((*searched, *self._run_paths)), image)
            return self._ready


def judge_image(literals: Iterable[Secret], known: LayersKnown) -> Image:
    """Tells leaks from what is common: weak literals that a distribution or the pinned tree holds too."""
    strong = {literal.sha256 for literal in literals if literal.strong}
    in_tree = {
        finding.literal_sha256
        for finding in known.findings
        if finding.literal_kind == "reference"
        and PINNED_TREE in finding.place
        and f"{PINNED_TREE}.git/" not in finding.place
    }
    leaks = tuple(
        finding
        for finding in known.findings
        if finding.literal_sha256 in strong and finding.literal_sha256 not in in_tree
    )
    common = {finding.literal_sha256 for finding in known.findings} - {
        finding.literal_sha256 for finding in leaks
    }
    return Image(leaks, frozenset(common), known.listing)


def marked(launch: Launch, mark: bytes) -> Launch:
    """Returns the launch with the trial's canary in the agent's environment and nowhere else."""
    return Launch(
        argv=launch.argv,
        environment=(*launch.environment, (MARK, mark.decode("ascii"))),
        stdin=launch.stdin,
    )


def isolate(
    *,
    guard: Guard,
    trial: str,
    task: TaskPin,
    condition: Condition,
    workspace: Workspace,
    launch: Launch,
    keep: Callable[[str, bytes], str],
) -> Isolation:
    """Compares the container with its declaration and searches all that the agent will be able to see.

    Args:
        guard: what may not be seen.
        trial: the trial's key.
        task: pins of image and tree.
        condition: the arm.
        workspace: the open containers.
        launch: what the agent will be given.
        keep: stores a blob of the stage.
    """
    found = workspace.inventory
    points = [mount.point for mount in found.mounts]
    expected = expected_listing(guard.image.listing, points)
    gateway = workspace.gateway_url is not None
    declared = declare(task, condition, listing_sha256(expected), gateway=gateway)
    differences = [*compare(declared, found)]
    if found.listing_sha256 != declared.listing_sha256:
        differences += _image_files(expected, workspace.listing())
    scanner = guard.scanner(trial)
    findings, partial = _in_sight(scanner, guard.image, found, workspace, launch)
    keep("declared", declared.canonical())
    if not findings:
        keep("inventory", found.canonical())
    return Isolation(
        condition_id=condition.id,
        declared_sha256=declared.digest_sha256(),
        inventory_sha256=found.digest_sha256(),
        layers=task.agent_image.diff_ids,
        literals=len(scanner.literals),
        common_literals=len(guard.image.common),
        differences=tuple(_discreet(scanner, item) for item in differences[:MAX_DIFFERENCES]),
        findings=tuple(findings),
        partial=partial,
    )


def _in_sight(
    scanner: Scanner, image: Image, found: Inventory, workspace: Workspace, launch: Launch
) -> tuple[list[Finding], bool]:
    """Searches image, container and payload; returns findings and whether a budget ended first."""
    findings: list[Finding] = list(image.leaks)
    partial = False
    for place, data in _before(found, workspace).items():
        hits, cut = _search(scanner, place, data, without=image.common)
        findings += hits
        partial = partial or cut
    for place, data in _payload(launch).items():
        # Memory and script may hold facts and patch; hidden tests, canaries and host paths never.
        hits, cut = _search(scanner, place, data, lasting=True)
        findings += hits
        partial = partial or cut
    return findings, partial


def _image_files(expected: list[str], found: tuple[str, ...]) -> list[Difference]:
    """Names the image files that are missing, added or other than the image's layers say."""
    before = {line.partition("\t")[0]: line for line in expected}
    after = {line.partition("\t")[0]: line for line in found}
    return [
        Difference(
            what="image_file",
            how="undeclared"
            if name not in before
            else "missing"
            if name not in after
            else "different",
            subject=name,
            expected_sha256=None,
            found_sha256=None,
        )
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _discreet(scanner: Scanner, difference: Difference) -> Difference:
    """Keeps a literal out of the record where it is the very name of what differs."""
    if not scanner.scan(difference.subject.encode(), "name").hits:
        return difference
    return difference.model_copy(update={"subject": "(a name that holds a searched literal)"})


def _before(found: Inventory, workspace: Workspace) -> Mapping[str, bytes]:
    places = {
        "engine's description (name, labels, mounts, environment, command)": workspace.exposed
    }
    for variable in found.environment:
        places[f"environment {variable.name}"] = f"{variable.name}={variable.value}".encode()
    places["file names"] = _lines(file.path for file in found.files)
    places["mount points"] = _lines(mount.point for mount in found.mounts)
    places["processes"] = _lines(word for p in found.processes for word in p.command)
    places["descriptors"] = _lines(item for p in found.processes for item in p.descriptors)
    places["hostname"] = found.hostname.encode()
    for number, (_, content) in enumerate(workspace.contents):
        places[f"file {number} outside the image"] = content
    return places


def _lines(words: Iterable[str]) -> bytes:
    return "\n".join(words).encode("utf-8", "replace")


def _payload(launch: Launch) -> Mapping[str, bytes]:
    return {
        "payload: command": "\0".join(launch.argv).encode(),
        "payload: environment": "\0".join("=".join(pair) for pair in launch.environment).encode(),
        "payload: standard input": launch.stdin,
    }


def _search(
    scanner: Scanner,
    place: str,
    data: bytes,
    *,
    without: frozenset[str] = frozenset(),
    lasting: bool = False,
    caused_by: Literal["harness", "agent"] = "harness",
) -> tuple[list[Finding], bool]:
    scan = scanner.scan(data, place)
    return [
        finding_of(hit, place, caused_by)
        for hit in scan.hits
        if hit.literal.sha256 not in without and (not lasting or is_lasting(hit.literal))
    ], scan.partial


def finding_of(hit: Hit, place: str, caused_by: Literal["harness", "agent"]) -> Finding:
    """Returns what is recorded of a hit: everything but the literal itself."""
    return Finding(
        literal_kind=hit.literal.kind,
        literal_sha256=hit.literal.sha256,
        place=place,
        encoding=hit.encoding,
        offset=hit.offset,
        caused_by=caused_by,
    )


def is_lasting(literal: Secret) -> bool:
    """Whether an agent has no honest way to this literal, whatever its arm and however good it is."""
    return literal.strong and literal.kind in {"hidden", "canary", "host_path"}


def screened_places(*, output: bytes, diff: bytes, harvest: bytes) -> dict[str, bytes]:
    """Returns what of a trial's products is searched, by the name of the place."""
    return {
        "transcript": output,
        "diff": diff,
        "diff: added lines": b"\n".join(added_lines(diff)),
        "diff: binary files": b"\n".join(binary_parts(diff)),
        "harvest: names": harvest,
    }


def screen(
    *, guard: Guard, trial: str, launch: Launch, output: bytes, diff: bytes, harvest: bytes
) -> Screening:
    """Searches what the trial produced for what its agent had no honest way to.

    Args:
        guard: what may not be seen.
        trial: the trial's key.
        launch: what the agent was given; what stands in it was the harness's doing.
        output: the transcript.
        diff: the harvested diff.
        harvest: the harvest document, with all names.
    """
    scanner = guard.scanner(trial)
    places = screened_places(output=output, diff=diff, harvest=harvest)
    found: list[Finding] = []
    partial = False
    for place, data in places.items():
        hits, cut = _search(scanner, place, data, lasting=True, caused_by="agent")
        found += hits
        partial = partial or cut
    given: set[str] = set()
    if found:
        given = {
            finding.literal_sha256
            for place, data in _payload(launch).items()
            for finding in _search(scanner, place, data)[0]
        } | {finding.literal_sha256 for finding in guard.image.leaks}
    return Screening(
        literals=sum(is_lasting(literal) for literal in scanner.literals),
        places=tuple(places),
        findings=tuple(
            finding.model_copy(update={"caused_by": "harness"})
            if finding.literal_sha256 in given
            else finding
            for finding in found
        ),
        partial=partial,
    )
