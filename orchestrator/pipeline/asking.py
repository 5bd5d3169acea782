"""Gives a memory system the way to a model: the official client over the trial's own gateway socket.

The one place where the memory room's port meets the gateway's client. Holds no key: a run token is all.
"""

from __future__ import annotations

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.protocols import Form, MemoryPlace, ModelAsker

SOCKET = "gateway.sock"


def asker_of(place: MemoryPlace) -> ModelAsker:
    """Returns what asks the model of a place.

    Raises:
        EnvironmentMissing: the place has no gateway, or the clients are not installed.
    """
    return _Asker(place)


class _Asker:
    def __init__(self, place: MemoryPlace) -> None:
        from orchestrator.gateway.clients import ModelClient, client_errors

        if place.gateway is None:
            raise EnvironmentMissing(
                "memory-model-missing",
                "expected a gateway to ask a model through, found none",
                hint="plan with an agent that asks a model",
            )
        self._errors = client_errors()
        self._client = ModelClient(
            place.gateway, socket=place.socket / SOCKET if place.socket else None
        )

    def chat(self, prompt: str, form: type[Form], *, max_tokens: int) -> Form:
        try:
            return self._client.chat(prompt, form, max_tokens=max_tokens)
        except self._errors as error:
            raise EnvironmentMissing(
                "model-unanswered",
                f"expected an answer of the model, found {type(error).__name__}: {error}"[:400],
                hint="see the gateway's record of the trial",
            ) from error

    def close(self) -> None:
        self._client.close()
