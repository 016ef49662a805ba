"""A TCP proxy that can be cut off: the network between a live client and a live server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.listening import stop_listening


class Proxy:
    """Forwards bytes unless it is cut. Connections made while it is cut are closed at once."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self.address = ""

    def cut(self) -> None:
        """Close every connection and reject new ones."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def restore(self) -> None:
        """Forward again."""
        self._is_cut = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        if self._is_cut:
            writer.transport.abort()
            return
        await self.forward(reader, writer)

    async def forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, read: bytes = b""
    ) -> None:
        """Forward a connection, of which some bytes were read already."""
        there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
        back.write(read)
        self._writers |= {writer, back}
        await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))
        self._writers -= {writer, back}

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()


@asynccontextmanager
async def proxy_to(port: int, kind: type[Proxy] = Proxy) -> AsyncIterator[Proxy]:
    """A proxy to a server on this machine."""
    proxy = kind(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    host, own_port = server.sockets[0].getsockname()[:2]
    proxy.address = f"{host}:{own_port}"
    try:
        yield proxy
    finally:
        proxy.cut()
        await stop_listening(server)
