"""The front process: `python -m controller.api.front LINK PARENT`. Only the daemon starts it.

LINK is the file descriptor of the link to the daemon, PARENT the daemon's process id. The front
always exits together with the daemon.
"""

import asyncio
import ctypes
import os
import resource
import signal
import socket
import sys
from typing import Final

from controller import structured_log
from controller.api.front.server import Front
from controller.api.messages import FrontLink, FrontSetup, OperatorWarning

_PR_SET_PDEATHSIG: Final = 1
_OWN_FILES: Final = 64


def _end_with(parent: int) -> None:
    """Let the kernel kill this process when the daemon exits, even if the link is not being
    read."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the daemon has already exited")


def _possible_connections() -> int | None:
    """How many connections are possible by the limit of open files, which is raised: a forwarded
    connection takes two. None: any number."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    return None if files == resource.RLIM_INFINITY else max((files - _OWN_FILES) // 2, 1)


def _connections_max(wanted: int, possible: int | None, link: FrontLink) -> int:
    """The connection limit, reduced if too few files may be open."""
    if possible is None or wanted <= possible:
        return wanted
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    link.send(
        OperatorWarning(
            f"the endpoint accepts at most {possible} connections instead of "
            f"max.connections={wanted}: this process may open only {files} files (ulimit "
            "-n)"
        )
    )
    return possible


async def _serve(descriptor: int) -> None:
    link = await FrontLink.open(socket.socket(fileno=descriptor))
    setup = await link.receive()
    if isinstance(setup, FrontSetup):
        possible = _possible_connections()
        connections_max = _connections_max(setup.limits.connections_max, possible, link)
        await Front(setup, link, connections_max, possible).run()


if __name__ == "__main__":
    _end_with(int(sys.argv[2]))
    structured_log.configure("auto")
    asyncio.run(_serve(int(sys.argv[1])))
