"""The scripted mode: turns from a script, chosen by what stands in the request, so retries are safe.

Reads nothing but its script. It costs no money; its usage is counted from sizes, so that meter, caps and
record work as they do live.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Literal

from orchestrator.gateway.answers import Said, as_events, as_json, error_body
from orchestrator.gateway.conversation import tools_of
from orchestrator.gateway.embeddings import embeddings_json, hash_vector, texts_of
from orchestrator.gateway.modes import (
    CONTENT_EVENTS,
    CONTENT_JSON,
    Answer,
    Call,
    CannotAnswer,
    whole,
)
from orchestrator.gateway.wire import Asked, RequestRefused, strings_of, turns_taken
from orchestrator.model.script import Scenario, Script, ScriptedTurn, Wanted
from orchestrator.model.usage import Usage

BYTES_PER_TOKEN = 4


class ScriptedMode:
    """Plays a script."""

    name: Literal["scripted"] = "scripted"

    def __init__(self, script: Script) -> None:
        self._script = script

    def refuses(self, _: Asked) -> None:
        """Refuses nothing: a script spends nothing."""

    async def answer(self, call: Call) -> Answer:
        """Says the turn that the request's state asks for.

        Raises:
            CannotAnswer: no scenario fits.
        """
        if call.asked.api == "embeddings":
            return self._embed(call)
        scenario = self._scenario(call)
        number = turns_taken(call.asked)
        turn = (
            scenario.turns[number]
            if number < len(scenario.turns)
            else ScriptedTurn(text=scenario.closing)
        )
        api = call.asked.api
        if turn.fail_status is not None:
            body = error_body(api, "scripted_error", turn.text or "an error of the script")
            return Answer(turn.fail_status, CONTENT_JSON, whole(body))
        said = Said(turn, number, call.asked.model, _usage(call, turn), _wants_usage(call))
        if call.asked.stream:
            return Answer(200, CONTENT_EVENTS, _each(as_events(api, said)))
        return Answer(200, CONTENT_JSON, whole(as_json(api, said)))

    def _scenario(self, call: Call) -> Scenario:
        text = fold(" ".join(strings_of(call.asked)))
        for scenario in self._script.scenarios:
            fits = (
                scenario.role in {None, call.role}
                and scenario.model in {None, call.asked.model}
                and scenario.task_id in {None, call.task_id}
                and (scenario.offers is None or scenario.offers in tools_of(call.asked.body))
            )
            if fits and all(stands(wanted, text) for wanted in scenario.wanted):
                return scenario
        raise CannotAnswer(
            "refused_policy", "the script has no scenario for this request", status=400
        )

    def _embed(self, call: Call) -> Answer:
        chosen = self._script.embeddings
        if chosen is None or chosen.kind != "hash":
            raise CannotAnswer("refused_policy", "the script declares no embeddings", status=400)
        try:
            texts = texts_of(call.asked)
        except RequestRefused as error:
            raise CannotAnswer("refused_policy", str(error), status=400) from error
        vectors = [hash_vector(text, chosen.dimensions) for text in texts]
        tokens = sum(len(text.split()) for text in texts)
        return Answer(200, CONTENT_JSON, whole(embeddings_json(call.asked, vectors, tokens)))

    async def close(self) -> None:
        """Holds nothing."""


def fold(text: str) -> str:
    """Folds case and white space, so that wording decides and layout does not."""
    return " ".join(text.casefold().split())


def stands(wanted: Wanted, folded: str) -> bool:
    """Tells whether one alternative stands in a folded text."""
    return any(all(fold(part) in folded for part in parts) for parts in wanted.any_of)


def _usage(call: Call, turn: ScriptedTurn) -> Usage:
    if turn.usage is not None:
        return turn.usage
    said = len(turn.text) + sum(len(c.name) + len(c.arguments) for c in turn.calls)
    return Usage(
        input=max(1, call.asked.plain_bytes // BYTES_PER_TOKEN),
        output=max(1, said // BYTES_PER_TOKEN),
    )


def _wants_usage(call: Call) -> bool:
    options = call.asked.body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


async def _each(events: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    for event in events:
        yield event
