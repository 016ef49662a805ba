"""Servers of tests in the test's own event loop."""

import asyncio
from typing import Final

_TURNS: Final = 10
"""Of the event loop, in which what was accepted is served, and ended."""


async def stop_listening(server: asyncio.Server) -> None:
    """Close a server; whoever it has accepted by then is still served.

    Python 3.11's asyncio.Server leaves a connection open for ever that it has accepted and not yet
    served when it is closed, so it stops to accept some turns of the loop before.
    """
    for listener in server.sockets:
        server.get_loop().remove_reader(listener)
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    server.close()
    await server.wait_closed()
