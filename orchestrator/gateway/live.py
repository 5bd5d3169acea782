"""The live mode: passes a call on to its provider, byte for byte, with the provider's key in place of the token.

Cannot be constructed without a permit. Asks only the models and goes only to the origins that the permit
names, follows no redirect and no proxy of the environment. Busy providers and lost connections are waited out before the
first byte, with one policy for every agent; after it nothing is ever repeated.
"""

from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

import httpx2
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from orchestrator.core.clock import utc_now_text
from orchestrator.core.errors import ApprovalRefused, EnvironmentMissing
from orchestrator.gateway.batches import batches
from orchestrator.gateway.keys import ProviderKeys
from orchestrator.gateway.modes import Answer, Call, CannotAnswer, Headers, UpstreamCut
from orchestrator.gateway.wire import Asked
from orchestrator.model.exchange import UpstreamTry
from orchestrator.model.permit import Permit
from orchestrator.model.usage import PROVIDER_OF

# RFC 9110, 7.6.1 (hop by hop), and what belongs to this connection, to billing or to a browser.
NOT_PASSED = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"te"),
        *(b"trailer", b"upgrade", b"expect", b"proxy-authenticate", b"proxy-authorization"),
        *(b"host", b"content-length", b"accept-encoding", b"authorization", b"x-api-key"),
        *(b"cookie", b"set-cookie", b"openai-organization", b"openai-project", b"forwarded"),
        *(b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"alt-svc"),
    }
)
MAX_BUSY_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Patience:
    """How a busy provider is waited out. Times in seconds."""

    tries: int = 6
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    connect_s: float = 10.0
    idle_s: float = 600.0


class _Busy(Exception):
    """The provider said 429."""

    def __init__(self, retry_after_s: float | None) -> None:
        super().__init__("429")
        self.retry_after_s = retry_after_s


class _Lost(Exception):
    """Something was sent and no answer began: it may have been done, and charged."""


class LiveMode:
    """Calls providers."""

    name: Literal["live"] = "live"

    def __init__(
        self,
        permit: Permit,
        keys: ProviderKeys,
        *,
        plan_sha256: str,
        patience: Patience = Patience(),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Takes the permit for one plan.

        Raises:
            ApprovalRefused: no permit, a permit for another plan, or one whose time is over.
        """
        given: object = permit
        if not isinstance(given, Permit) or given.plan_sha256 != plan_sha256:
            raise ApprovalRefused(
                "permit-does-not-fit",
                f"expected a permit for plan {plan_sha256[:16]}, found none that fits",
                hint="use a scripted or recorded run",
            )
        self._permit = permit
        self._keys = keys
        self._origins = dict(permit.upstreams)
        self._patience = patience
        self._sleep = sleep
        self._transport = httpx2.AsyncHTTPTransport(
            trust_env=False,
            retries=0,
            limits=httpx2.Limits(max_connections=512, max_keepalive_connections=64),
        )
        self._check_time()

    def _check_time(self) -> None:
        if utc_now_text() >= self._permit.not_after:
            raise ApprovalRefused(
                "permit-expired",
                f"expected a permit that still holds, found one until {self._permit.not_after}",
                hint="have the plan approved again",
            )

    def refuses(self, asked: Asked) -> str | None:
        """Returns why a request asks for something else than was signed: another model, another provider."""
        provider, models = PROVIDER_OF[asked.api], self._permit.models
        if asked.model not in models:
            return f"expected the model that was signed, {', '.join(models)}, found {asked.model[:80]!r}"
        if provider not in self._origins:
            return f"expected a provider that was signed, {', '.join(self._origins)}, found {provider}, which {asked.api} goes to"
        return None

    async def answer(self, call: Call) -> Answer:
        """Passes a call on and returns the answer that begins.

        Raises:
            CannotAnswer: not what was signed, no time left, no key, or the provider stayed busy or away.
        """
        unfit = self.refuses(call.asked)
        if unfit is not None:
            raise CannotAnswer("refused_policy", unfit, status=400)
        provider = PROVIDER_OF[call.asked.api]
        try:
            key = self._keys.header(provider)
            url = httpx2.URL(self._origins[provider] + call.target)
        except EnvironmentMissing as error:
            raise CannotAnswer("not_permitted", error.message, status=400) from error
        except httpx2.InvalidURL as error:
            raise CannotAnswer("not_permitted", "the address is invalid", status=400) from error
        tries: list[UpstreamTry] = []
        headers = [*passed(call.headers), (b"accept-encoding", b"identity"), key]
        response = await self._seek(url, headers, call.raw, tries)
        clean = tuple(
            (n, v)
            for n, v in response.headers.raw
            if n.lower() not in NOT_PASSED - {b"content-length"}
        )
        return Answer(response.status_code, clean, _chunks(response), tries)

    async def _seek(
        self,
        url: httpx2.URL,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        tries: list[UpstreamTry],
    ) -> httpx2.Response:
        patience = self._patience
        retrying = AsyncRetrying(
            stop=stop_after_attempt(patience.tries),
            wait=self._wait,
            retry=retry_if_exception_type((_Busy, httpx2.ConnectError, httpx2.ConnectTimeout)),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return await retrying(self._once, url, headers, body, tries)
        except ApprovalRefused as error:
            raise CannotAnswer(
                "not_permitted", error.message, status=400, tries=tuple(tries)
            ) from error
        except _Busy as error:
            reason = f"the provider stayed busy for {len(tries)} tries"
            raise CannotAnswer(
                "upstream_unreachable", reason, status=503, tries=tuple(tries)
            ) from error
        except _Lost as error:
            raise CannotAnswer(
                "upstream_cut",
                f"the provider gave no answer that can be passed on: {error}",
                status=502,
                tries=tuple(tries),
                maybe_done=True,
            ) from error
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            reason = f"the provider could not be reached in {len(tries)} tries"
            raise CannotAnswer(
                "upstream_unreachable", reason, status=503, tries=tuple(tries)
            ) from error

    async def _once(
        self,
        url: httpx2.URL,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        tries: list[UpstreamTry],
    ) -> httpx2.Response:
        # Each time anew: a busy provider is waited out for minutes, and the permit may end meanwhile.
        self._check_time()
        began_ns = time.monotonic_ns()
        patience = self._patience
        limits = {"connect": patience.connect_s, "pool": patience.connect_s}
        request = httpx2.Request(
            "POST",
            url,
            headers=headers,
            content=body,
            extensions={"timeout": {**limits, "read": patience.idle_s, "write": patience.idle_s}},
        )
        status: int | None = None
        fault: str | None = None
        try:
            response = await self._transport.handle_async_request(request)
            status = response.status_code
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            fault = type(error).__name__
            if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
                raise
            raise _Lost(fault) from error
        finally:
            waited_ms = (time.monotonic_ns() - began_ns) // 1_000_000
            tries.append(UpstreamTry(status=status, error=fault, waited_ms=waited_ms))
        if status == 429:
            await response.aclose()
            raise _Busy(_retry_after_s(response.headers.get("retry-after")))
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            # Nobody asked for it; neither a usage nor a key could be seen in it.
            await response.aclose()
            raise _Lost("it was compressed although that was not asked for")
        return response

    def _wait(self, state: RetryCallState) -> float:
        patience = self._patience
        chosen = wait_random_exponential(patience.first_wait_s, patience.longest_wait_s)(state)
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, _Busy) and error.retry_after_s is not None:
            return min(max(chosen, error.retry_after_s), patience.longest_wait_s)
        return chosen

    async def close(self) -> None:
        """Closes the connections to providers."""
        await self._transport.aclose()


def passed(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Returns the headers of a client that a provider gets to see, as they came."""
    named = {
        word.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for word in value.split(b",")
    }
    return [(n, v) for n, v in headers if n.lower() not in NOT_PASSED and n.lower() not in named]


async def _chunks(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """Yields an answer's bytes as they come.

    Raises:
        UpstreamCut: it ended before its end.
    """
    stream = response.stream
    if not isinstance(stream, httpx2.AsyncByteStream):
        raise UpstreamCut
    try:
        async with aclosing(batches(stream)) as pieces:
            async for piece in pieces:
                yield piece
    except httpx2.TransportError as error:
        raise UpstreamCut from error
    finally:
        await response.aclose()


def _retry_after_s(value: str | None) -> float | None:
    """Reads Retry-After (RFC 9110, 10.2.3): seconds or a date; None for anything else."""
    if value is None:
        return None
    if value.strip().isdigit() and len(value.strip()) <= 6:
        return float(value)
    try:
        then = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, then.timestamp() - time.time())
