"""Reading and writing frames that are not held in memory as a whole."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from controller.api.errors import RequestRejected

READ_AHEAD_BYTES: Final = 16 * 1024
"""Bytes that a connection may buffer before they are read; asyncio may buffer twice as many."""

_CHUNK_BYTES: Final = 64 * 1024


def write_through(writer: asyncio.StreamWriter) -> None:
    """Let `drain` wait until the kernel has taken everything, so that no data accumulates in the
    process."""
    writer.transport.set_write_buffer_limits(high=0)


async def read_some(reader: asyncio.StreamReader, count: int) -> bytes:
    """Between 1 and `count` bytes. Raises IncompleteReadError at the end of the stream."""
    chunk = await reader.read(min(count, _CHUNK_BYTES))
    if not chunk:
        raise asyncio.IncompleteReadError(b"", count)
    return chunk


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
    """Copy `count` bytes as they arrive. Raises IncompleteReadError, ConnectionError."""
    while count:
        chunk = await read_some(reader, count)
        writer.write(chunk)
        await writer.drain()
        count -= len(chunk)


@contextlib.asynccontextmanager
async def before_deadline(deadline: float, otherwise: str) -> AsyncIterator[None]:
    """Limit a block by a deadline in the event loop's time. Raises `RequestRejected` with the
    text `otherwise` if the deadline passes."""
    try:
        async with asyncio.timeout_at(deadline):
            yield
    except TimeoutError:
        raise RequestRejected(f"{otherwise} in time") from None


@contextlib.asynccontextmanager
async def time_limit(seconds: float, otherwise: str) -> AsyncIterator[None]:
    """Limit a block as `before_deadline`, by a duration."""
    async with before_deadline(asyncio.get_running_loop().time() + seconds, otherwise):
        yield
