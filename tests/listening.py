"""Servers in the event loop of a test."""

import asyncio
from typing import Final

from anyio.lowlevel import checkpoint

_TURNS: Final = 10
"""Turns of the event loop in which accepted connections are served or closed."""


async def stop_listening(server: asyncio.Server) -> None:
    """Close a server. Accepted connections are still served.

    In Python 3.11, a connection that asyncio.Server has accepted and not served before its close
    stays open forever. The server therefore stops accepting connections some turns of the loop
    before.
    """
    for listener in server.sockets:
        server.get_loop().remove_reader(listener)
    for _ in range(_TURNS):
        await checkpoint()
    server.close()
    await server.wait_closed()
