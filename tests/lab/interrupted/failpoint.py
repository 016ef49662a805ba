"""A daemon that is killed between two of its writes and requests.

`program` returns Python source for `Moving.failing`. The daemon that runs it counts the commands
that it carries out for some topics, from the moment at which the file `armed` appears in a folder.
Each counted command is one line of the file `commands.jsonl` in that folder. With `at`, the daemon
carries out nothing from command number `at` on; the commands before it have 0.3 s to reach
ZooKeeper and the brokers, then the daemon kills itself with SIGKILL.

What counts as one crash point:

- each `WriteZnodes` and each `WriteAtomically`. The operations of one `WriteZnodes` are not
  divided: the session sends them in one multi unless one of them fails;
- each LeaderAndIsr and each StopReplica, also those of one batch to different brokers;
- the first UpdateMetadata of a batch. The copies for the other brokers belong to the same point.

Only `Daemon.carry_out` is wrapped: how procedures are divided into functions is of no concern.
"""

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from controller.core.commands import (
    BrokerRequest,
    Command,
    Issued,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.operations import WriteOperation
from controller.daemon.daemon import Daemon
from replay.cli.main import main

ROOT = Path(__file__).parents[3]
FLUSH_SECONDS = 0.3
"""The time that the commands before the crash point have to reach the servers."""

_ARMED = "armed"
_COMMANDS = "commands.jsonl"
_NUMBERED = ("/admin/reassignment_requests/", "/admin/replica_deletions/")
_REASSIGNMENTS = ("/admin/reassign", "/admin/replica_deletions")
"""Writes below these paths count although they may not name a topic."""

_PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from tests.lab.interrupted.failpoint import run
run({folder!r}, {prefix!r}, {at!r})
"""


class Counted(NamedTuple):
    """One counted command: its name in the table of crash points, and the rule that issued it."""

    name: str
    rule: str


class CommandLog:
    """The test's side of the folder: arms the failpoint and reads what the daemon counted."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix
        folder.mkdir()

    def program(self, at: int | None) -> str:
        """The source of a daemon that dies before command `at`; None: it only counts."""
        return _PROGRAM.format(root=str(ROOT), folder=str(self._folder), prefix=self._prefix, at=at)

    def arm(self) -> None:
        """Count from the next command on."""
        (self._folder / _ARMED).touch()

    def read(self) -> list[Counted]:
        """The commands that were counted so far, the one before which the daemon died included."""
        path = self._folder / _COMMANDS
        if not path.exists():
            return []
        lines = path.read_text().splitlines(keepends=True)
        return [Counted(*json.loads(one)) for one in lines if one.endswith("\n")]


class _Failpoint:
    """The daemon's side."""

    def __init__(self, folder: Path, prefix: str, at: int | None) -> None:
        self._folder = folder
        self._prefix = prefix.encode()
        self._at = at
        self._armed = False
        self._count = 0
        self._fan_out: int | None = None
        self._dying = False

    def carries_out(self, issued: Issued) -> bool:
        """Whether the daemon may carry this command out; counts it."""
        if self._dying:
            return False
        self._armed = self._armed or (self._folder / _ARMED).exists()
        if not self._armed or not self._concerns(issued.command) or self._is_copy(issued):
            return True
        self._count += 1
        self._note(issued)
        if self._count != self._at:
            return True
        self._dying = True
        asyncio.get_running_loop().call_later(FLUSH_SECONDS, os.kill, os.getpid(), signal.SIGKILL)
        return False

    def _concerns(self, command: Command) -> bool:
        if isinstance(command, WriteZnodes | WriteAtomically) and any(
            one.path.startswith(_REASSIGNMENTS) for one in command.operations
        ):
            return True
        counted = WriteZnodes | WriteAtomically | BrokerRequest
        return isinstance(command, counted) and self._prefix in msgspec.msgpack.encode(command)

    def _is_copy(self, issued: Issued) -> bool:
        """Whether this is one more UpdateMetadata of the same batch."""
        before, self._fan_out = self._fan_out, None
        if isinstance(issued.command, UpdateMetadataRequest):
            self._fan_out = issued.id.cause
        return self._fan_out is not None and self._fan_out == before

    def _note(self, issued: Issued) -> None:
        line = json.dumps([_name(issued.command, self._prefix.decode()), issued.reason.rule])
        with (self._folder / _COMMANDS).open("a") as file:
            file.write(f"{line}\n")


def _name(command: Command, prefix: str) -> str:
    match command:
        case WriteZnodes(operations=operations) | WriteAtomically(operations=operations):
            paths = dict.fromkeys(_operation(one, prefix) for one in operations)
            kind = "multi: " if isinstance(command, WriteAtomically) else ""
            return kind + ", ".join(paths)
        case LeaderAndIsrRequest(broker=broker):
            return f"LeaderAndIsr to {broker}"
        case StopReplicaRequest(broker=broker, partitions=partitions):
            deletes = any(one.delete for one in partitions)
            return f"StopReplica{' (delete)' if deletes else ''} to {broker}"
        case _:
            return "UpdateMetadata"


def _operation(operation: WriteOperation, prefix: str) -> str:
    """Such as "set /brokers/topics/T/partitions/0/state": T stands for every topic of the run, N
    for the number of a request or of a deletion, which is another one in each run."""
    path = "/".join("T" if one.startswith(prefix) else one for one in operation.path.split("/"))
    if path.startswith(_NUMBERED):
        path = re.sub(r"[0-9]+", "N", path)
    kind = type(operation).__name__
    verb = {"SetData": "set", "CreateSequential": "create"}.get(kind, kind.lower())
    return f"{verb} {path}"


def run(folder: str, prefix: str, at: int | None) -> None:
    """`refold` with the failpoint."""
    failpoint = _Failpoint(Path(folder), prefix, at)
    carry_out = Daemon.carry_out

    def fails(daemon: Daemon, issued: Issued) -> None:
        if failpoint.carries_out(issued):
            carry_out(daemon, issued)

    Daemon.carry_out = fails  # type: ignore[method-assign]
    sys.argv[0] = "refold"
    main()
