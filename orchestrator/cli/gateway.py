"""Serves a scripted or recorded model on a socket or a loopback port, metered, capped and recorded.

Any client of Anthropic Messages, OpenAI Responses, Chat Completions or Embeddings can be pointed at it.
Live calls are not made from here: they need a signed approval.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.cli import render
from orchestrator.core.errors import ApprovalRefused, UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("--script", type=Path, metavar="FILE", help="play this script")
    parser.add_argument("--prices", type=Path, metavar="FILE", help="price table (with --script)")
    parser.add_argument("--cassette", metavar="RUN", help="play the recorded calls of a run")
    parser.add_argument("--trial", metavar="KEY", help="the trial to play (with --cassette)")
    parser.add_argument("--socket", type=Path, metavar="PATH", help="listen on a Unix socket")
    parser.add_argument("--port", type=int, metavar="N", help="listen on a loopback port (0: any)")
    parser.add_argument(
        "--record", type=Path, metavar="DIR", help="folder of the record (default: a temporary one)"
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="refused: only a run under a signed approval calls providers",
    )
    parser.add_argument("--controlled", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--controlled-live", action="store_true", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Serves until it is interrupted."""
    if arguments.live:
        raise ApprovalRefused(
            "live-needs-approval",
            "--live: expected a permit of the approval gate, found none; nothing was contacted",
            hint="use --script FILE or --cassette RUN",
        )
    if arguments.controlled:
        from orchestrator.gateway.control import run_controlled

        return run_controlled()
    if arguments.controlled_live:
        from orchestrator.pipeline.live import run_live_controlled

        return run_live_controlled()
    if (arguments.socket is None) == (arguments.port is None):
        raise UsageError(
            "gateway-place",
            f"expected one of --socket and --port, found {'neither' if arguments.port is None else 'both'}",
            hint="add --port 0 for a free loopback port",
        )
    from orchestrator.pipeline.standalone import Wish, serve

    wish = Wish(
        script=arguments.script,
        prices=arguments.prices,
        cassette=arguments.cassette,
        trial=arguments.trial,
        socket=arguments.socket,
        port=arguments.port,
        record=arguments.record,
    )
    return serve(wish, lambda facts: _ready(facts, as_json=arguments.json))


def _ready(facts: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        render.document(facts)
        return
    for name, value in facts.items():
        render.text(f"{name:<10} {value}")
    render.text("next: point a client at it; Ctrl-C ends it")
