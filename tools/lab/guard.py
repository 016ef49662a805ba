"""Runs one server and kills it when the parent process ends, by whatever signal.

    python guard.py LOG COMMAND ARGUMENT...

The first line of standard output is the server's process id. The parent keeps standard input open;
at its end the server is killed. On Linux the kernel also kills the server when the guard is killed.
The guard exits with the server's exit code. Only the standard library is imported, so that the
guard starts fast.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1


def guard(log: str, command: list[str]) -> int:
    """Run `command` with its output appended to the file `log`; returns the exit code as a shell
    does."""
    # SIGCHLD is written to a pipe, so one select notices the end of the server and of the parent.
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
    """For a new process: the kernel kills it when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(guard(sys.argv[1], sys.argv[2:]))
