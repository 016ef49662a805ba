"""The control socket of a running lab: one JSON object per line, with one response.

A request is {"do": "kill", "server": "broker-1"}; `do` is `status`, `down` or one of ACTIONS. The
response is the status of the lab, or {"error": "..."}.
"""

import contextlib
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream

from tools.lab.lab import Lab
from tools.lab.server import LabError, Server

SOCKET = "lab.sock"
_ANSWER_SECONDS_MAX = 180.0
_SOCKET_PATH_BYTES_MAX = 100

Answer = dict[str, Any]


def _at_once(act: Callable[[Server], None]) -> Callable[[Server], Awaitable[None]]:
    async def acted(server: Server) -> None:
        act(server)

    return acted


ACTIONS: Mapping[str, Callable[[Server], Awaitable[None]]] = {
    "kill": _at_once(lambda server: server.kill()),
    "stop": lambda server: server.stop(),
    "pause": _at_once(lambda server: server.pause()),
    "resume": _at_once(lambda server: server.resume()),
    "restart": lambda server: server.restart(),
}


def status(lab: Lab, chroot: str) -> Answer:
    """The addresses and states of the servers, and the version of Kafka if a lab has Kafka."""
    has_kafka = bool(lab.brokers) or not lab.is_of_design_0_8
    return {
        "folder": str(lab.folder),
        **({"kafka": lab.kafka} if has_kafka else {}),
        "zookeeper": lab.zookeepers[0].connect + chroot,
        "bootstrap": lab.bootstrap,
        "servers": [
            {
                "name": server.name,
                "connect": server.connect,
                "state": server.state,
                "pid": server.pid if server.running else None,
                "folder": str(server.folder),
            }
            for server in lab.servers
        ],
    }


async def serve(lab: Lab, chroot: str, *, down: Callable[[], None]) -> None:
    """Answer requests until cancelled; calls `down` on a request to stop the lab."""

    async def answer(client: SocketStream) -> None:
        # The client may have disconnected, which must not stop the lab.
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            await act(client)

    async def act(client: SocketStream) -> None:
        async with client:
            request = json.loads(await client.receive())
            try:
                if request["do"] in ACTIONS:
                    await ACTIONS[request["do"]](lab.server(request["server"]))
                reply = status(lab, chroot)
            except LabError as error:
                reply = {"error": str(error)}
            await client.send(json.dumps(reply).encode() + b"\n")
        if request["do"] == "down":
            down()

    path = socket_path(lab.folder)
    path.unlink(missing_ok=True)
    try:
        async with await anyio.create_unix_listener(path, mode=0o600) as listener:
            await listener.serve(answer)
    finally:
        path.unlink(missing_ok=True)


def ask(folder: Path, do: str, server: str | None = None) -> Answer:
    """Send a request to the lab that runs in `folder`; returns its response.

    Raises LabError if no lab is running, or with the error in the response.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_SECONDS_MAX)
            connection.connect(str(socket_path(folder)))
            connection.sendall(json.dumps({"do": do, "server": server}).encode() + b"\n")
            with connection.makefile("rb") as stream:
                reply: Answer = json.loads(stream.readline())
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise LabError(f"no lab is running in {folder}; start one with `up`") from error
    except (OSError, ValueError) as error:
        raise LabError(f"the lab in {folder} does not answer: {error}") from error
    if "error" in reply:
        raise LabError(reply["error"])
    return reply


def socket_path(folder: Path) -> Path:
    """The control socket of the lab in `folder`. Raises LabError if the path is too long for a
    socket."""
    path = folder.resolve() / SOCKET
    if len(bytes(path)) > _SOCKET_PATH_BYTES_MAX:
        raise LabError(f"the path {folder} is too long for a socket; choose a shorter --dir")
    return path
