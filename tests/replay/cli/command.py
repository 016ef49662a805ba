"""The command `refold` in another process."""

import os
import subprocess
import sys
from pathlib import Path

REFOLD = [sys.executable, "-m", "replay.cli.main"]
CANNOT_WRITE = "refold: cannot write the output: No space left on device\n"


def refold(*arguments: str | Path, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
    """The ended command with its output as text."""
    done = subprocess.run(
        [*REFOLD, *map(str, arguments)], input=stdin, capture_output=True, check=False, timeout=30
    )
    text = (done.stdout.decode(errors="replace"), done.stderr.decode())
    return subprocess.CompletedProcess(done.args, done.returncode, *text)


def on_a_full_disk(*arguments: str | Path) -> tuple[int, str]:
    """Exit status and standard error of a command whose output goes to a full disk."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*REFOLD, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    return done.returncode, done.stderr


def unread(*arguments: str | Path) -> tuple[int, str]:
    """Exit status and standard error of a command whose output pipe is closed."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [*REFOLD, *arguments], stdout=write_end, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write_end)
    return done.returncode, done.stderr
