"""Runs one server and ends it when the process that asked for it is gone, by whatever signal.

    python guard.py LOG COMMAND ARGUMENT...

The server's process id is written to standard output as one line. The parent holds standard input
open: at its end the server is killed. On Linux the kernel also kills the server when the guard
itself is killed. The guard ends with the server, with its exit code. Only the standard library is
imported, so that the guard starts fast.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1


def guard(log: str, command: list[str]) -> int:
    """Run `command`, its output appended to the file `log`; the exit code is as a shell's."""
    # SIGCHLD comes through a pipe: one select sees the end of the server and of the parent.
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    with open(log, "ab") as output:  # noqa: PTH123 - pathlib doubles the start-up time
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=die_with_parent,
        )
    sys.stdout.write(f"{server.pid}\n")
    sys.stdout.flush()
    while server.poll() is None:
        readable, _, _ = select.select([sys.stdin.fileno(), wake_read], [], [])
        if wake_read in readable:
            os.read(wake_read, 512)
        elif not os.read(sys.stdin.fileno(), 512):
            server.kill()
            server.wait()
    return server.returncode if server.returncode >= 0 else 128 - server.returncode


def die_with_parent() -> None:
    """In a new process: the kernel kills it when the process that started it is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(guard(sys.argv[1], sys.argv[2:]))
