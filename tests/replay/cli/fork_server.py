"""Runs `refold` in forks of a process that has imported its modules.

Most of the time of a short command is the start of Python and its imports. A fork is a process like
any other: with its own arguments, environment, current folder, output and exit status.

The client sends the command as JSON over a socket, with the files for standard input, output and
error. The server answers with the exit status, negative for a signal.
"""

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from typer.testing import CliRunner

from replay.cli.main import app
from replay.cli.main import main as run_refold

ROOT = Path(__file__).parents[3]
_MESSAGE_BYTES_MAX = 1 << 20
_ALSO = {
    "fleet": (
        "replay.fleet.analysis.analyse",
        "replay.fleet.ingest",
        "replay.fleet.replaying.replay",
        "replay.fleet.report.write",
        "replay.fleet.session",
    ),
}
"""More modules that most commands of a name import."""


class ForkServer:
    """The client's side; starts the server."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.replay.cli.fork_server", str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._close)

    def run(
        self,
        arguments: Sequence[str],
        streams: Sequence[IO[bytes]],
        environment: dict[str, str],
    ) -> int:
        """Run a command and return its exit status. `streams` are standard input, output and
        error."""
        request = {
            "arguments": arguments,
            "environment": environment,
            "folder": str(Path.cwd()),
        }
        files = [one.fileno() for one in streams]
        socket.send_fds(self._socket, [json.dumps(request).encode()], files)
        answer = self._socket.recv(_MESSAGE_BYTES_MAX)
        assert answer, "the fork server has exited"
        return int(answer)

    def _close(self) -> None:
        self._socket.close()
        self._process.wait()


def serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. Returns the request in the fork, and None at the end."""
    prepared = set()
    while True:
        message, files, _, _ = socket.recv_fds(connection, _MESSAGE_BYTES_MAX, 3)
        if not message:
            return None
        request: dict[str, Any] = json.loads(message)
        name = next(iter(request["arguments"]), "")
        if name not in prepared:
            prepared.add(name)
            # The help imports what every command of this name imports.
            CliRunner().invoke(app, [name, "--help"])
            for module in _ALSO.get(name, ()):
                importlib.import_module(module)
            gc.freeze()
        child = os.fork()
        if not child:
            for place, file in enumerate(files):
                os.dup2(file, place)
                os.close(file)
            return request
        for file in files:
            os.close(file)
        _, status = os.waitpid(child, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def main() -> None:
    """The server, and in each fork the command."""
    # Ctrl-C ends pytest, which closes the connection.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    request = serve(connection)
    connection.close()
    if request is None:
        return
    signal.signal(signal.SIGINT, before)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["refold", *request["arguments"]]
    run_refold()


if __name__ == "__main__":
    main()
