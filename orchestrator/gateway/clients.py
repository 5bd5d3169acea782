"""The official clients of judges, veto agents and memory extraction, pointed at the gateway.

One retry layer: the clients' own is off, one policy here waits out lost connections, 429 and 5xx.
Answers that must have a form are validated against it. The SDKs are an extra and load on first use.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from pydantic import BaseModel, ValidationError
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from orchestrator.core.errors import DocumentError, EnvironmentMissing
from orchestrator.protocols import GatewayAccess

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")
RETRIED_STATUS = frozenset({408, 409, 429})


@dataclass(frozen=True, slots=True)
class ClientPolicy:
    """How long to wait and how often to try. Times in seconds."""

    tries: int = 4
    first_wait_s: float = 0.5
    longest_wait_s: float = 20.0
    connect_s: float = 10.0
    read_s: float = 600.0


class ModelClient:
    """Calls models for one role of one trial."""

    def __init__(
        self,
        access: GatewayAccess,
        *,
        socket: Path | None = None,
        policy: ClientPolicy = ClientPolicy(),
        noted: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Takes address, token and model.

        Args:
            access: what the gateway gave out for a role.
            socket: the gateway's Unix socket, when it is reached by that and not by its address.
            policy: times and tries.
            noted: is told of every wait, in one line.
        """
        self._access = access
        self._policy = policy
        self._noted = noted
        self._timeout = httpx2.Timeout(policy.read_s, connect=policy.connect_s)
        transport = httpx2.HTTPTransport(uds=str(socket) if socket else None, trust_env=False)
        self._http = httpx2.Client(transport=transport, timeout=self._timeout, trust_env=False)

    def anthropic(self) -> Any:
        """Returns the official Anthropic client.

        Raises:
            EnvironmentMissing: the extra is not installed.
        """
        return _sdk("anthropic").Anthropic(
            base_url=self._access.base_url, **self._options(self._access.token)
        )

    def openai(self) -> Any:
        """Returns the official OpenAI client.

        Raises:
            EnvironmentMissing: the extra is not installed.
        """
        return _sdk("openai").OpenAI(
            base_url=f"{self._access.base_url}/v1", **self._options(self._access.token)
        )

    def _options(self, token: str) -> dict[str, Any]:
        return {
            "api_key": token,
            "max_retries": 0,
            "timeout": self._timeout,
            "http_client": self._http,
        }

    def chat(self, prompt: str, form: type[T], *, max_tokens: int) -> T:
        """Asks over Chat Completions for an answer of a form.

        Raises:
            DocumentError: the answer does not have it.
        """
        client = self.openai()
        answer = self._patiently(
            lambda: client.chat.completions.create(
                model=self._access.model,
                messages=[{"role": "user", "content": prompt}],
                max_completion_tokens=max_tokens,
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": form.model_json_schema()},
                },
            )
        )
        return _formed(answer.choices[0].message.content or "", form)

    def messages(self, prompt: str, form: type[T], *, max_tokens: int) -> T:
        """Asks over Messages for an answer of a form, given as the input of one tool.

        Raises:
            DocumentError: the answer does not have it.
        """
        client = self.anthropic()
        tool = {
            "name": "answer",
            "description": "Gives the answer.",
            "input_schema": form.model_json_schema(),
        }
        answer = self._patiently(
            lambda: client.messages.create(
                model=self._access.model,
                max_tokens=max_tokens,
                messages=[{"role": "user", "content": prompt}],
                tools=[tool],
                tool_choice={"type": "tool", "name": "answer"},
            )
        )
        given: object = next((b.input for b in answer.content if b.type == "tool_use"), {})
        try:
            return form.model_validate(given)
        except ValidationError as error:
            raise _without_form(form, error) from error

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Returns a vector for each text."""
        client = self.openai()
        answer = self._patiently(
            lambda: client.embeddings.create(model=self._access.model, input=texts)
        )
        return [list(item.embedding) for item in answer.data]

    def _patiently(self, ask: Callable[[], R]) -> R:
        policy = self._policy
        retrying = Retrying(
            stop=stop_after_attempt(policy.tries),
            wait=wait_random_exponential(policy.first_wait_s, policy.longest_wait_s),
            retry=retry_if_exception(_passing),
            before_sleep=lambda state: self._noted(
                f"try {state.attempt_number}: {state.outcome.exception() if state.outcome else ''}"
            ),
            reraise=True,
        )
        return retrying(ask)

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()


def _passing(error: BaseException) -> bool:
    """Tells whether a failure may pass: no connection, or a status that says so."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in RETRIED_STATUS or status >= 500
    return type(error).__name__ in {"APIConnectionError", "APITimeoutError"}


def _formed(text: str, form: type[T]) -> T:
    try:
        return form.model_validate_json(text)
    except ValidationError as error:
        raise _without_form(form, error) from error


def _without_form(form: type[BaseModel], error: ValidationError) -> DocumentError:
    return DocumentError(
        "answer-without-form",
        f"the model's answer: expected a {form.__name__}, found {error.error_count()} faults in it",
        hint="ask again, or choose a model that keeps to a schema",
    )


def client_errors() -> tuple[type[Exception], ...]:
    """Returns what the clients raise when no answer came, after the policy's last try."""
    return (_sdk("openai").OpenAIError, _sdk("anthropic").AnthropicError)


def _sdk(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EnvironmentMissing(
            "client-missing",
            f"expected the {name} client, found it is not installed",
            hint="pip install 'memtrial[models]'",
        ) from error
