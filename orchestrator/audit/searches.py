"""The searches around `act`, made again as far as their literals are in a bundle. Pure over the blobs of one attempt.

Hidden text and canaries are: the key is a blob, and a run's canaries come from the one that lies in its folder.
Paths of the host, layers of images and what stood in the container are not: findings in them are counted, and
told as the record's own word.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.audit.attempts import Attempted
from orchestrator.model.isolation import Finding, Isolation, Screening
from orchestrator.model.record import Stage
from orchestrator.model.verdict import Harvest
from orchestrator.pipeline.isolation import finding_of, is_lasting, screened_places
from orchestrator.sandbox.leaks.literals import canary, canary_literal, oracle_literals
from orchestrator.sandbox.leaks.scanner import Literal, Scanner

BEFORE_ACT = "found before an agent acted"
HOST_PATH = "found of a path of the host"
FOREIGN = "found of a canary where the run's own is not kept"


def check_screening(seen: Attempted) -> None:
    """The search after harvest: what it looked through, what it found, and whether a budget ended it.

    Raises:
        MemtrialError: places, number of literals, findings or their end are not those of such a search.
    """
    if not seen.has(Stage.SCREEN):
        return
    screening = seen.document(Stage.SCREEN, Screening)
    hidden = tuple(literal for literal in _oracle(seen) if is_lasting(literal))
    places = screened_places(
        output=seen.artifact(Stage.ACT, "output"),
        diff=seen.artifact(Stage.HARVEST, "diff"),
        harvest=seen.document(Stage.HARVEST, Harvest).canonical(),
    )
    seen.require("places", tuple(places), screening.places)
    # Canary and host paths come on top.
    if screening.literals <= len(hidden):
        raise seen.differs(
            f"more than {len(hidden)} literals searched for", f"{screening.literals}"
        )
    found, partial = _search(seen, hidden, places)
    seen.require("a budget that ended before the search", partial, screening.partial)
    said = [finding for finding in screening.findings if finding.literal_kind != "host_path"]
    if seen.canaries is None:
        found, said = _without_canaries(seen, found, said)
    missing = [finding for finding in found if finding not in said]
    invented = [finding for finding in said if finding not in found]
    if missing:
        raise seen.differs(f"the finding of {_named(missing[0])}", "none")
    if invented or len(said) != len(found):
        raise seen.differs("findings that a search gives, each once", _named((invented or said)[0]))
    for finding in screening.findings:
        if finding.literal_kind == "host_path":
            seen.require("a place of the search", True, finding.place in places)
            seen.own_word(HOST_PATH)


def _search(
    seen: Attempted, hidden: tuple[Literal, ...], places: Mapping[str, bytes]
) -> tuple[list[Finding], bool]:
    """Searches as the pipeline does. Nothing that the harness gave is found here: the isolation would have said so."""
    literals = (*hidden, canary_literal())
    scanner = seen.tasks.scanner(seen.trial.task_id, lambda: Scanner(literals))
    if seen.canaries is not None:
        scanner = scanner.owned_by(canary(seen.canaries, seen.trial.key))
    scans = [scanner.scan(data, place) for place, data in places.items()]
    found = [finding_of(hit, hit.place, "agent") for scan in scans for hit in scan.hits]
    return found, any(scan.partial for scan in scans)


def _without_canaries(
    seen: Attempted, found: list[Finding], said: list[Finding]
) -> tuple[list[Finding], list[Finding]]:
    """Leaves canaries out where the run's own is not there: one can then be told from another by nobody."""
    seen.own_word(FOREIGN, sum(finding.literal_kind == "canary" for finding in said))
    stood = {(f.literal_kind, f.place) for f in found}
    for finding in said:
        if finding.literal_kind == "canary" and ("canary", finding.place) not in stood:
            raise seen.differs(f"a canary in {finding.place}", "none")
    return (
        [finding for finding in found if finding.literal_kind != "canary"],
        [finding for finding in said if finding.literal_kind != "canary"],
    )


def check_found_before(seen: Attempted, proof: Isolation) -> None:
    """What was found before an agent acted is of literals that were searched for; that it stood there is own word.

    Raises:
        MemtrialError: too few literals, or a finding of one that is neither the task's, a canary nor a path.
    """
    oracle = _oracle(seen)
    if proof.literals <= len(oracle):
        raise seen.differs(f"more than {len(oracle)} literals searched for", f"{proof.literals}")
    known = {(literal.kind, literal.sha256) for literal in (*oracle, canary_literal())}
    for finding in proof.findings:
        seen.require("cause of a finding before act", "harness", finding.caused_by)
        if finding.literal_kind != "host_path" and (
            (finding.literal_kind, finding.literal_sha256) not in known
        ):
            raise seen.differs("findings of what is searched for", _named(finding))
        seen.own_word(BEFORE_ACT)


def _oracle(seen: Attempted) -> tuple[Literal, ...]:
    task_id = seen.trial.task_id
    return oracle_literals(seen.tasks.key(task_id), seen.tasks.rehearsal(task_id))


def _named(finding: Finding) -> str:
    return (
        f"{finding.literal_kind} {finding.literal_sha256[:16]} in {finding.place} "
        f"({finding.encoding}, byte {finding.offset}, by the {finding.caused_by})"
    )
