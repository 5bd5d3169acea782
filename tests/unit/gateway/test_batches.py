"""Promise: what comes together goes on together, whole and in order, and never waits for more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.gateway.batches import AHEAD_BYTES, batches


class Lost(Exception):
    """The provider is gone."""


async def told(steps: list[bytes | type[Lost] | None]) -> AsyncIterator[bytes]:
    """Yields bytes; None lets the other side run, an exception ends it."""
    for step in steps:
        if step is None:
            await asyncio.sleep(0)
        elif isinstance(step, bytes):
            yield step
        else:
            raise step


async def taken(stream: AsyncGenerator[bytes, None], pause: bool) -> tuple[list[bytes], bool]:
    found: list[bytes] = []
    try:
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                found.append(piece)
                if pause:
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
    except Lost:
        return found, True
    return found, False


@settings(max_examples=300, deadline=None)
@given(
    steps=st.lists(st.none() | st.binary(min_size=1, max_size=5), max_size=20),
    lost=st.booleans(),
    pause=st.booleans(),
)
def test_all_bytes_come_through_in_order_whenever_they_come(steps, lost, pause):
    async def main() -> tuple[list[bytes], bool]:
        async with asyncio.timeout(10):
            return await taken(batches(told([*steps, *([Lost] if lost else [])])), pause)

    found, was_lost = asyncio.run(main())
    assert b"".join(found) == b"".join(step for step in steps if step)
    assert was_lost == lost


def test_pieces_that_are_there_together_are_one_piece():
    found, _ = asyncio.run(taken(batches(told([b"a", b"b", b"c"])), pause=False))
    assert found == [b"abc"]


def test_the_first_piece_does_not_wait_for_the_second():
    async def main() -> bytes:
        never = asyncio.Event()

        async def stream() -> AsyncIterator[bytes]:
            yield b"first"
            await never.wait()

        async with asyncio.timeout(10), aclosing(batches(stream())) as pieces:
            return await anext(pieces)

    assert asyncio.run(main()) == b"first"


def test_no_more_is_read_ahead_of_a_slow_client_than_the_bound():
    read = 0

    async def stream() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(100):
            read += AHEAD_BYTES // 2
            yield bytes(AHEAD_BYTES // 2)

    async def main() -> None:
        async with aclosing(batches(stream())) as pieces:
            await anext(pieces)
            for _ in range(50):
                await asyncio.sleep(0)

    asyncio.run(main())
    assert read <= 4 * AHEAD_BYTES


@pytest.mark.parametrize("begun", [True, False])
def test_a_stream_that_is_given_up_is_let_go(begun):
    closed = False

    async def stream() -> AsyncIterator[bytes]:
        nonlocal closed
        try:
            yield b"a"
            await asyncio.Event().wait()
        finally:
            closed = True

    async def main() -> None:
        source = stream()
        async with aclosing(batches(source)) as pieces:
            if begun:
                await anext(pieces)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert left == []

    asyncio.run(main())
    assert closed == begun
