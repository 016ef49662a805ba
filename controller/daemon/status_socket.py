"""The status socket: a Unix socket on which the daemon answers `refold status`.

A client cannot hold up the daemon. It sends nothing that the daemon reads, its answer is one write
of some kilobytes from memory, and a client that does not take it at once loses its connection.
Only the user of the daemon may connect.
"""

import asyncio
import logging
import os
import socket
import stat
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from controller.operator.daemon_status import OWN_SOCKETS, connect
from controller.settings.parsing import SOCKET_PATH_BYTES_MAX

logger = logging.getLogger(__name__)

_BACKLOG: Final = 8
"""asyncio accepts at most this many connections in one turn of the event loop."""
_PARTIAL_SUFFIX: Final = "~"


class StatusSocket:
    """The socket of this process. A context manager, which removes the socket at the end.

    A daemon without a status socket is still a controller: a failure is logged.
    """

    def __init__(
        self, log_dir: Path, configured: Path | None, document: Callable[[], bytes]
    ) -> None:
        """`configured`: the path of the setting, else a name in `log_dir` that no other daemon
        has."""
        self._log_dir = log_dir
        self._path = configured or log_dir / OWN_SOCKETS.replace("*", str(time.time_ns()))
        self._document = document
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen."""
        try:
            _remove_left_over(self._log_dir)
            bound = _bound(self._path)
        except OSError as error:
            logger.warning(
                "no status socket, so `refold status` does not reach this daemon: %s: %s; set "
                "refold.status.socket to another path",
                self._path,
                error.strerror or error,
            )
            return
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            lambda: _StatusResponse(self._document), sock=bound, backlog=_BACKLOG
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
            with suppress(OSError):
                self._path.unlink()


class _StatusResponse(asyncio.Protocol):
    """Answers one client."""

    def __init__(self, document: Callable[[], bytes]) -> None:
        self._document = document

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        try:
            transport.write(self._document())
        finally:
            if transport.get_write_buffer_size():
                transport.abort()
            else:
                transport.close()


def _bound(path: Path) -> socket.socket:
    """A socket that listens at the path, for this user only. One that a killed daemon left is
    replaced. Raises OSError."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES_MAX:
        raise OSError(f"the path has {length} bytes, and may have {SOCKET_PATH_BYTES_MAX}")
    _require_free(path)
    partial = path.with_name(path.name + _PARTIAL_SUFFIX)
    bound = socket.socket(socket.AF_UNIX)
    try:
        partial.unlink(missing_ok=True)
        bound.bind(str(partial))
        # No client can connect before it listens, and clients find it under its name only then.
        partial.chmod(stat.S_IRUSR | stat.S_IWUSR)
        bound.listen(_BACKLOG)
        bound.setblocking(False)
        partial.replace(path)
    except OSError:
        bound.close()
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    return bound


def _require_free(path: Path) -> None:
    """Check that the daemon may put its socket there. Raises OSError if a daemon listens there, or
    if the file is not a socket."""
    if not os.path.lexists(path):
        return
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise OSError("the file exists and is not a socket")
    if _is_listening(path):
        raise OSError("another daemon listens there")


def _remove_left_over(log_dir: Path) -> None:
    """Remove the sockets of daemons that were killed."""
    for one in log_dir.glob(OWN_SOCKETS):
        with suppress(OSError):
            if stat.S_ISSOCK(one.lstat().st_mode) and not _is_listening(one):
                one.unlink()


def _is_listening(path: Path) -> bool:
    """Whether a process listens on the socket, also one that does not accept."""
    with closing(socket.socket(socket.AF_UNIX)) as client:
        client.setblocking(False)
        try:
            connect(client, path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except BlockingIOError:
            return True
        return True
