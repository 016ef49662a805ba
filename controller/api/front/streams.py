"""Reading and writing of frames that are not held as a whole."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from controller.api.errors import RequestRejected

READ_AHEAD_BYTES: Final = 16 * 1024
"""What a connection may read before it is asked to; asyncio may take twice of it."""

_CHUNK_BYTES: Final = 64 * 1024


def write_through(writer: asyncio.StreamWriter) -> None:
    """From now on `drain` waits until the kernel has everything: nothing heaps up in here."""
    writer.transport.set_write_buffer_limits(high=0)


async def read_some(reader: asyncio.StreamReader, count: int) -> bytes:
    """Some of `count` bytes, at least one. Raises IncompleteReadError at the end of the stream."""
    chunk = await reader.read(min(count, _CHUNK_BYTES))
    if not chunk:
        raise asyncio.IncompleteReadError(b"", count)
    return chunk


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
    """Pass `count` bytes on as they come. Raises IncompleteReadError, ConnectionError."""
    while count:
        chunk = await read_some(reader, count)
        writer.write(chunk)
        await writer.drain()
        count -= len(chunk)


@contextlib.asynccontextmanager
async def before_deadline(deadline: float, otherwise: str) -> AsyncIterator[None]:
    """A block that must end by then, in the event loop's time. Raises `RequestRejected` with that text
    where it does not."""
    try:
        async with asyncio.timeout_at(deadline):
            yield
    except TimeoutError:
        raise RequestRejected(f"{otherwise} in time") from None


@contextlib.asynccontextmanager
async def within(seconds: float, otherwise: str) -> AsyncIterator[None]:
    """The same with the time that the block may take."""
    async with before_deadline(asyncio.get_running_loop().time() + seconds, otherwise):
        yield
