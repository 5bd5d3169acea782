"""Takes what has come together as one piece, so that the work per piece is not done for each event of a stream.

Providers send one HTTP chunk for each event, many to a packet. Nothing waits for more: a piece goes on as
soon as the reader asks, with all that came in the meantime. Bytes and their order stay as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable

# So much is read ahead of a client that is slow, and no more.
AHEAD_BYTES = 256 * 1024


class _Box:
    """What was read and not yet taken."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.bytes = 0
        self.filled = asyncio.Event()
        self.emptied = asyncio.Event()


async def batches(stream: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Yields the bytes of a stream, joined as they came; raises what the stream raises, after its bytes."""
    box = _Box()
    reader = asyncio.get_running_loop().create_task(_read(stream, box))
    try:
        while True:
            if box.pieces:
                data = b"".join(box.pieces)
                box.pieces.clear()
                box.bytes = 0
                box.emptied.set()
                yield data
            elif reader.done():
                break
            else:
                box.filled.clear()
                await box.filled.wait()
        await reader
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


async def _read(stream: AsyncIterable[bytes], box: _Box) -> None:
    try:
        async for piece in stream:
            box.pieces.append(piece)
            box.bytes += len(piece)
            box.filled.set()
            while box.bytes > AHEAD_BYTES:
                box.emptied.clear()
                await box.emptied.wait()
    finally:
        # The task is done only when this step is over, so the other side is woken in the next one.
        asyncio.get_running_loop().call_soon(box.filled.set)
