"""What a call costs and what it can cost at most, in integer micro-USD. Pure.

A cost is rounded up once per call. The upper bound takes one token for each byte of the request: a byte
pair encoding never makes more tokens than bytes.
"""

from __future__ import annotations

from orchestrator.gateway.wire import Asked
from orchestrator.model.exchange import Cost
from orchestrator.model.usage import ModelPrice, Usage

PER_TOKENS = 1_000_000
# Providers add instructions of their own around tools, and price an image by its pixels, not its bytes.
HIDDEN_INPUT_TOKENS = 4096
TOKENS_PER_IMAGE = 16_384


def cost_of(usage: Usage, price: ModelPrice) -> Cost:
    """Returns the cost of a usage, and the cost of the same tokens without any cache."""
    output = usage.output * price.output
    paid = (
        usage.input * price.input
        + usage.cache_read * price.cache_read
        + usage.cache_write * price.cache_write
        + usage.cache_write_1h * price.cache_write_1h
        + output
    )
    return Cost(
        usd_micros=_up(paid), uncached_usd_micros=_up(usage.all_input * price.input + output)
    )


def bound_usage(asked: Asked, price: ModelPrice) -> Usage:
    """Returns the most tokens that a request can use."""
    output_tokens = 0
    if asked.api != "embeddings":
        wanted = asked.max_output_tokens
        output_tokens = (price.max_output_tokens if wanted is None else wanted) * asked.choices
    return Usage(
        input=asked.plain_bytes + HIDDEN_INPUT_TOKENS + TOKENS_PER_IMAGE * asked.images,
        output=output_tokens,
    )


def bound_usd_micros(asked: Asked, price: ModelPrice) -> int:
    """Returns the most that a request can cost."""
    bound = bound_usage(asked, price)
    return _up(bound.input * price.dearest_input + bound.output * price.output)


def least_usd_micros(price: ModelPrice, max_output_tokens: int | None) -> int:
    """Returns what even the smallest request for text is bounded by; without a limit of its own, by the model's."""
    output_tokens = price.max_output_tokens if max_output_tokens is None else max_output_tokens
    return _up(HIDDEN_INPUT_TOKENS * price.dearest_input + output_tokens * price.output)


def _up(price_times_tokens: int) -> int:
    return -(-price_times_tokens // PER_TOKENS)
