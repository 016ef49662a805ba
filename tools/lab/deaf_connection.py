"""A connection to ZooKeeper that can be made deaf: the session expires, and its client does not
notice.

While it is deaf, the proxy answers the client's pings itself and forwards nothing else, in neither
direction. ZooKeeper hears nothing and expires the session; the client believes that it is alive.
"""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tools.lab.ports import HOST, free_port

_PING: Final = (-2).to_bytes(4, "big", signed=True)
_PONG: Final = (16).to_bytes(4, "big") + _PING + bytes(12)


class DeafConnection:
    """A proxy between one client and a ZooKeeper server at host:port."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._port = free_port()
        self._is_deaf = False
        self._open: list[StreamWriter] = []

    @property
    def connect(self) -> str:
        """The address at which clients connect, as HOST:PORT."""
        return f"{HOST}:{self._port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The proxy runs during the block."""
        server = await asyncio.start_server(self._serve, HOST, self._port)
        try:
            yield
        finally:
            server.close()
            self._close()

    def answer_only_pings(self) -> None:
        """Answer pings only."""
        self._is_deaf = True

    def restore(self) -> None:
        """Close the connection; the client's next one is forwarded again."""
        self._is_deaf = False
        self._close()

    def _close(self) -> None:
        for writer in self._open:
            writer.close()
        self._open.clear()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        host, _, port = self._server.rpartition(":")
        try:
            from_server, to_server = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        self._open += [writer, to_server]
        replies = asyncio.create_task(self._forward_replies(from_server, writer))
        try:
            while True:
                length = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(length, "big"))
                if not self._is_deaf:
                    to_server.write(length + frame)
                elif frame.startswith(_PING):
                    writer.write(_PONG)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            to_server.close()
            await replies
            writer.close()

    async def _forward_replies(self, reader: StreamReader, writer: StreamWriter) -> None:
        """ZooKeeper closes the connection of an expired session, which a deaf client must not
        notice."""
        try:
            while data := await reader.read(65536):
                if not self._is_deaf:
                    writer.write(data)
        except OSError:
            pass
        if not self._is_deaf:
            writer.close()
