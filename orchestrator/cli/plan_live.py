"""The options of `plan` for a real model: provider, prices, and the most that the run may spend."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrator.cli.arguments import one_of
from orchestrator.core.errors import DocumentError, UsageError

if TYPE_CHECKING:
    from orchestrator.pipeline.options import LiveRequest

ORIGINS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com"}
MAX_PRICES_BYTES = 4 * 1024 * 1024


def add_live(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "--provider",
        type=one_of(*ORIGINS),
        metavar="P",
        help="whose model it is: openai (default) or anthropic",
    )
    parser.add_argument(
        "--upstream",
        metavar="ORIGIN",
        help="where the provider is reached (default: its public address): https://host[:port], or http://127.0.0.1:port",
    )
    parser.add_argument(
        "--prices", type=Path, metavar="FILE", help="dated price table that names the model"
    )
    parser.add_argument(
        "--max-usd", metavar="N", help="the most that the whole run may spend, in dollars"
    )


def live_from(arguments: argparse.Namespace) -> LiveRequest | None:
    """Returns the live part of the request; None without --model.

    Raises:
        UsageError: options that do not fit together, or no usable price table or origin.
    """
    given = [
        name
        for name in ("provider", "upstream", "prices", "max_usd")
        if getattr(arguments, name) is not None
    ]
    if arguments.model is None:
        if given:
            raise UsageError(
                "model-not-given",
                f"expected --model with --{given[0].replace('_', '-')}, found none",
                hint="add --model ID, or leave the other out",
            )
        return None
    if arguments.prices is None or arguments.max_usd is None:
        raise UsageError(
            "live-needs-prices-and-cap",
            "expected --prices FILE and --max-usd N with --model, found none",
            hint="copy fixtures/prices.json, put the model's prices and today's date in, and add --max-usd",
        )
    return _live(arguments)


def _live(arguments: argparse.Namespace) -> LiveRequest:
    from orchestrator.core.files import read_confined
    from orchestrator.model.approval import Upstream
    from orchestrator.model.usage import PriceTable
    from orchestrator.pipeline.options import LiveRequest
    from orchestrator.trust.approvals import usd_micros

    path: Path = arguments.prices
    try:
        data = read_confined(path.parent, path.name, max_bytes=MAX_PRICES_BYTES)
    except (DocumentError, OSError) as error:
        raise UsageError(
            "prices-not-readable",
            f"expected a price table at {path}, a plain file, found none",
            hint="check the path of --prices, or copy fixtures/prices.json and put the model's prices in",
        ) from error
    provider: Literal["anthropic", "openai"] = (
        "anthropic" if arguments.provider == "anthropic" else "openai"
    )
    origin = ORIGINS[provider] if arguments.upstream is None else arguments.upstream
    try:
        Upstream(provider=provider, origin=origin)
    except ValueError as error:
        raise UsageError(
            "upstream-invalid",
            f"expected --upstream https://host[:port] or http://127.0.0.1:port, found {origin[:100]!r}",
            hint="leave it out for the provider's public address",
        ) from error
    prices = PriceTable.parse(data, where=path.name)
    return LiveRequest(
        provider=provider,
        origin=origin,
        prices=prices,
        max_usd_micros=usd_micros(arguments.max_usd, option="--max-usd"),
    )
