"""Changes that no test should notice, each tied to the very place, and why.

An explanation that fits no place of the code, or more than one, is stale: it fails the tests and the proof. So
does one of a change that the tests do notice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.mutants_places import Place

ROOM = "orchestrator/trust/"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where (module below the room, function, whole line), what becomes of what, and why nobody notices."""

    module: str
    scope: str
    line: str
    before: str
    after: str
    why: str

    def fits(self, place: Place) -> bool:
        return (ROOM + self.module, self.scope, self.line, self.before, self.after) == (
            place.module,
            place.scope,
            place.text,
            place.before,
            place.after,
        )


EXPLAINED: tuple[Explanation, ...] = ()


def why_unnoticed(place: Place, explained: Sequence[Explanation] = EXPLAINED) -> str | None:
    """Returns why a change may go unnoticed, if that is explained."""
    return next((one.why for one in explained if one.fits(place)), None)


def stale(places: Sequence[Place], explained: Sequence[Explanation] = EXPLAINED) -> list[str]:
    """Returns the explanations that do not fit exactly one place of the code, with how many they fit."""
    found = []
    for one in explained:
        fitting = sum(one.fits(place) for place in places)
        if fitting != 1:
            found.append(
                f"{one.module} {one.scope}: {one.line!r}: {one.before} fits {fitting} places"
            )
    return found
