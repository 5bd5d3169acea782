"""The replay mode: recorded answers, found by trial, role, API and ordinal, verified by the request's digest.

Reads a recorded folder, whose chain it checks. Exact bytes, else equal normal forms, else divergent: then
the trial gets no further answer, so that nothing is decided on an answer to another question.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Literal, NoReturn

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.core.strictjson import parse_json
from orchestrator.gateway.bodies import BodyPack
from orchestrator.gateway.log import read_lines
from orchestrator.gateway.modes import Answer, Call, CannotAnswer, UpstreamCut
from orchestrator.gateway.normalise import first_difference, normal_form
from orchestrator.gateway.record import BODIES, REDACTED, TRAFFIC
from orchestrator.gateway.wire import Asked
from orchestrator.model.exchange import Exchange, Match, TrafficLine
from orchestrator.model.gateway import Divergence

Track = tuple[str, str, str]
# Calls that an agent makes side by side may come in another order; a farther one is another course.
WINDOW = 8


class Cassette:
    """The recorded exchanges of chosen attempts."""

    def __init__(self, folder: Path, attempts: Mapping[str, int]) -> None:
        """Reads the index of a recorded folder; bodies stay on disk.

        Raises:
            UsageError: nothing was recorded there.
            IntegrityError: the record was changed.
        """
        if not (folder / TRAFFIC).is_file():
            raise UsageError(
                "cassette-missing",
                f"expected a recorded folder with {TRAFFIC}, found none at {folder}",
                hint="name a run whose trials called a model",
            )
        lines, _, _ = read_lines(folder / TRAFFIC, TrafficLine)
        self._bodies = BodyPack(folder / BODIES, write=False)
        self.tracks: dict[Track, dict[int, Exchange]] = defaultdict(dict)
        for line in lines:
            body = line.body
            if not isinstance(body, Exchange) or body.trial is None or body.ordinal is None:
                continue
            if attempts.get(body.trial) == body.attempt:
                self.tracks[body.trial, str(body.role), str(body.api)][body.ordinal] = body

    def request(self, exchange: Exchange) -> bytes:
        """Returns the recorded request."""
        return self._bodies.get(exchange.request)

    def response(self, exchange: Exchange) -> bytes:
        """Returns the recorded answer."""
        return self._bodies.get(exchange.response)

    def close(self) -> None:
        """Closes the bodies."""
        self._bodies.close()


class ReplayMode:
    """Plays a cassette."""

    name: Literal["replay"] = "replay"

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette
        self._used: dict[tuple[Track, int], set[int]] = defaultdict(set)
        self.divergences: dict[tuple[str, int], Divergence] = {}

    def refuses(self, _: Asked) -> None:
        """Refuses nothing: what was recorded was admitted."""

    async def answer(self, call: Call) -> Answer:
        """Returns the recorded answer to a call.

        Raises:
            CannotAnswer: the recording holds none that fits; the trial is stopped.
        """
        if (call.trial, call.attempt) in self.divergences:
            raise CannotAnswer("cassette_miss", "the replay left its recording", status=400)
        try:
            found = self._find(call)
            if found is None:
                self._stop(call)
            exchange, match = found
            data = self._cassette.response(exchange)
        except IntegrityError as error:
            raise CannotAnswer("cassette_miss", error.message, status=400) from error
        headers = tuple(
            (header.name.encode("latin-1"), header.value.encode("latin-1"))
            for header in exchange.response_headers
            if header.value != REDACTED
        )
        cut = exchange.outcome == "upstream_cut"
        return Answer(exchange.status, headers, _played(data, cut=cut), match=match)

    def _find(self, call: Call) -> tuple[Exchange, Match] | None:
        track = self._cassette.tracks.get(_track(call), {})
        used = self._used[_track(call), call.attempt]
        near = sorted(range(-WINDOW, WINDOW + 1), key=abs)
        free = [track[n] for n in (call.ordinal + step for step in near) if n in track]
        free = [exchange for exchange in free if exchange.ordinal not in used]
        match: Match = "exact"
        same = [e for e in free if e.request.sha256 == sha256_hex(call.raw)]
        if not same and free:
            match, form = "normalised", normal_form(call.asked.body)
            same = [e for e in free if self._form(e) == form][:1]
        if not same:
            return None
        used.add(same[0].ordinal or 0)
        return same[0], match

    def _form(self, exchange: Exchange) -> object:
        return normal_form(parse_json(self._cassette.request(exchange), where="recorded request"))

    def _stop(self, call: Call) -> NoReturn:
        expected = self._cassette.tracks.get(_track(call), {}).get(call.ordinal)
        match: Match = "divergent" if expected else "exhausted"
        pointer, recorded, found = "", "no further call", "a call"
        if expected is not None:
            pointer, recorded, found = first_difference(
                self._form(expected), normal_form(call.asked.body)
            )
        self.divergences[call.trial, call.attempt] = Divergence(
            api=call.asked.api,
            role=call.role,
            ordinal=call.ordinal,
            match=match,
            pointer=pointer,
            recorded=recorded,
            found=found,
        )
        raise CannotAnswer(
            "cassette_miss",
            f"call {call.ordinal} of {call.asked.api} left its recording at {pointer or '/'}",
            status=400,
            match=match,
        )

    async def close(self) -> None:
        """Closes the cassette."""
        self._cassette.close()


async def _played(data: bytes, *, cut: bool) -> AsyncGenerator[bytes, None]:
    yield data
    if cut:
        raise UpstreamCut


def _track(call: Call) -> Track:
    return call.trial, call.role, call.asked.api
