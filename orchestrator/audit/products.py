"""What came of an attempt, checked against its sources: agent, change, transcript. Pure over blobs.

What only the containers could tell (exit codes, the harvested tree, sizes of changed files, what was left out)
is the record's own word and is bound to nothing else than itself.
"""

from __future__ import annotations

from orchestrator.agents.transcripts.reading import (
    MAX_TRANSCRIPT_BYTES,
    metrics_of,
    transcript_of,
)
from orchestrator.audit.attempts import Attempted
from orchestrator.core.canonical import sha256_hex
from orchestrator.core.gitdiff import PathChange, read_changes
from orchestrator.core.patchtext import added_lines
from orchestrator.model.gateway import Traffic
from orchestrator.model.memory import Injection
from orchestrator.model.record import Stage
from orchestrator.model.toolcalls import given_ids
from orchestrator.model.transcript import Transcript
from orchestrator.model.verdict import Acted, Change, Harvest
from orchestrator.pipeline.breaches import ended_by_bounds
from orchestrator.scoring.patch import BLAMELESS, MAX_CHANGES

BOUNDS = frozenset({"model_budget", "tool_budget"})
MAX_NAMED_CHARACTERS = 400
"""So much of a name that is left out is told (images/verifier/harvest.py)."""


def check_acted(seen: Attempted) -> None:
    """How the agent ended, against its output, the limits and the gateway's record.

    Raises:
        MemtrialError: it ended as no agent of this plan can.
    """
    if not seen.has(Stage.ACT):
        return
    acted = seen.document(Stage.ACT, Acted)
    output = seen.artifact(Stage.ACT, "output")
    seen.require("agent", seen.trial.agent, acted.agent)
    seen.require("output", sha256_hex(output), acted.output_sha256)
    seen.require("bytes of output", len(output), acted.output_bytes)
    limit = seen.plan.task(seen.trial.task_id).limits.output_bytes
    seen.require(
        "output cut off at its limit", acted.output_truncated and len(output) != limit, False
    )
    cut = {"output_limit": True, "exited": False, "time_limit": False}.get(acted.ended)
    if cut is not None:
        seen.require("output_truncated", cut, acted.output_truncated)
    told = acted.exit_code is not None
    if acted.ended not in BOUNDS:
        seen.require("an exit code of an agent that exited", acted.ended == "exited", told)
    _check_limits(seen, acted)
    data = seen.found(Stage.ACT, "traffic")
    traffic = Traffic.parse_canonical(data, where="traffic") if data is not None else None
    bounded = ended_by_bounds("exited", traffic, seen.tool_log())
    found = acted.ended if acted.ended in BOUNDS else "exited"
    seen.require("a bound that ended it", bounded, found)
    pin = seen.plan.agent(seen.trial.agent)
    if pin.model is not None:
        events = pin.command.events if pin.command else None
        again = transcript_of(pin.name, output, acted.exit_code, events=events).canonical()
        seen.require(
            "transcript", sha256_hex(again), sha256_hex(seen.artifact(Stage.ACT, "transcript"))
        )


def _check_limits(seen: Attempted, acted: Acted) -> None:
    """A limit that only the containers saw is the record's word; what the stage itself tells may not contradict it."""
    done = seen.record.stages[Stage.ACT]
    if acted.ended == "time_limit":
        limit_ms = 1000 * seen.plan.task(seen.trial.task_id).limits.wall_s
        if done.wall_ms < limit_ms:
            raise seen.differs(f"a time limit after {limit_ms} ms", f"one after {done.wall_ms} ms")
        seen.own_word("agent stopped at the time limit")
    if acted.ended == "oom_killed":
        if done.resources is not None and not done.resources.oom_kills:
            raise seen.differs("a process that was killed for memory", "none")
        seen.own_word("agent killed for memory")


def check_harvest(seen: Attempted) -> None:
    """The harvested change, against the diff itself.

    Raises:
        MemtrialError: digests, counts or changed paths are not those of the diff.
    """
    if not seen.has(Stage.HARVEST):
        return
    harvest = seen.document(Stage.HARVEST, Harvest)
    diff = seen.artifact(Stage.HARVEST, "diff")
    pin = seen.plan.task(seen.trial.task_id)
    seen.require("pinned tree", pin.tree, harvest.pinned_tree)
    seen.require("diff", sha256_hex(diff), harvest.diff_sha256)
    seen.require("bytes of diff", len(diff), harvest.diff_bytes)
    if harvest.diff_truncated:
        seen.require("bytes of a diff that was cut off", pin.limits.diff_bytes, len(diff))
        return
    if len(diff) > pin.limits.diff_bytes:
        raise seen.differs(f"a diff of at most {pin.limits.diff_bytes} bytes", f"{len(diff)}")
    seen.require("a tree of its own for a change", bool(diff), harvest.tree != pin.tree)
    seen.require("paths that were harvested and left out", [], told_twice(harvest))
    blamed = sum(left.reason not in BLAMELESS for left in harvest.left_out)
    seen.own_word("left out of a change", blamed)
    try:
        read = {change.path: change for change in read_changes(diff)}
    except ValueError as error:
        raise seen.differs("a diff that git writes", str(error)) from error
    said = {change.path: change for change in harvest.changes}
    paths = [change.path for change in harvest.changes]
    seen.require("changed paths in order, each once", sorted(set(paths)), paths)
    if len(paths) < MAX_CHANGES:
        seen.require("changed paths", sorted(read), paths)
    for path, change in said.items():
        if path not in read:
            raise seen.differs("paths of the diff", path)
        _check_change(seen, read[path], change)


def told_twice(harvest: Harvest) -> list[str]:
    """Returns the paths that are said to have been harvested and left out.

    A name that may have been cut off or escaped on its way here can be that of another path: it tells nothing.
    """
    written = {change.path for change in harvest.changes if change.status != "deleted"}
    whole = (
        left.name
        for left in harvest.left_out
        if len(left.name) < MAX_NAMED_CHARACTERS and "\\" not in left.name
    )
    return sorted(written.intersection(whole))


def _check_change(seen: Attempted, read: PathChange, said: Change) -> None:
    expected = (read.status, read.old_mode, read.new_mode)
    found = (said.status, said.old_mode, said.new_mode)
    seen.require(f"change of {said.path}", expected, found)
    if read.blob is not None or read.new_mode is None:
        seen.require(f"blob of {said.path}", read.blob, said.blob)
    is_link = read.new_mode == "120000"
    if not is_link or read.link_target is not None:
        seen.require(f"target of {said.path}", read.link_target, said.link_target)


def check_metrics(seen: Attempted) -> None:
    """How the agent read and used its memory, counted again from its transcript.

    Raises:
        MemtrialError: the recorded figures are others.
    """
    recorded = seen.found(Stage.GRADE, "reader-metrics") if seen.has(Stage.GRADE) else None
    if recorded is None:
        return
    data = seen.artifact(Stage.ACT, "transcript")
    added = b"\n".join(added_lines(seen.artifact(Stage.HARVEST, "diff")))
    again = metrics_of(
        Transcript.parse(data, where="transcript", max_bytes=MAX_TRANSCRIPT_BYTES),
        relevant=seen.tasks.key(seen.trial.task_id).card.relevant_files,
        injected=given_ids(seen.document(Stage.INJECT, Injection), seen.tool_log()),
        added=added.decode("utf-8", "replace"),
    )
    seen.require("reader metrics", sha256_hex(again.canonical()), sha256_hex(recorded))
