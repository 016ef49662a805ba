"""A daemon that is killed between two of its writes and requests, or after a step of a rollback.

`CommandLog.program` and `program_after_step` return Python source for `Moving.failing`. From the
failpoint on, the daemon carries out no command. The commands before it have 0.3 s to reach
ZooKeeper and the brokers, then the daemon kills itself with SIGKILL.

The daemon of `CommandLog.program` counts the commands that it carries out for some topics, from the
moment at which the file `armed` appears in a folder. Each counted command is one line of the file
`commands.jsonl` in that folder. With `at`, the failpoint is before command number `at`.

Each of these is one crash point:

- each `WriteZnodes` and each `WriteAtomically`. The operations of one `WriteZnodes` are not
  divided: the session sends them in one multi unless one of them fails;
- each LeaderAndIsr and each StopReplica, also those of one batch to different brokers;
- the first UpdateMetadata of a batch. The copies for the other brokers belong to the same point.

A rollback reports each step before it takes the step: the failpoint after a step is the report of
the next step, or of the end.

Only `Daemon.carry_out` is wrapped, so that no failpoint depends on the functions of the core.
"""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from controller.core.commands import (
    BrokerRequest,
    Command,
    Issued,
    LeaderAndIsrRequest,
    Notice,
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
from tests.lab.interrupted import failpoint
failpoint.{call}
"""


class Counted(NamedTuple):
    """A counted command: its name in the table of crash points, and the rule that issued it."""

    name: str
    rule: str


class CommandLog:
    """The test's side of the folder: arms the failpoint and reads the counted commands."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix
        folder.mkdir()

    def program(self, at: int | None) -> str:
        """The source of a daemon that dies before command `at`; None: it only counts."""
        return _program(f"run({str(self._folder)!r}, {self._prefix!r}, {at!r})")

    def arm(self) -> None:
        """Starts to count with the next command."""
        (self._folder / _ARMED).touch()

    def read(self) -> list[Counted]:
        """The counted commands, including the one before which the daemon died."""
        path = self._folder / _COMMANDS
        if not path.exists():
            return []
        lines = path.read_text().splitlines(keepends=True)
        return [Counted(*json.loads(one)) for one in lines if one.endswith("\n")]


def program_after_step(step: int) -> str:
    """The source of a daemon that dies when it has completed this step of a rollback."""
    return _program(f"run_to_step({step})")


def _program(call: str) -> str:
    return _PROGRAM.format(root=str(ROOT), call=call)


class _CountedCommands:
    """The daemon's side of a `CommandLog`."""

    def __init__(self, folder: Path, prefix: str, at: int | None) -> None:
        self._folder = folder
        self._prefix = prefix.encode()
        self._at = at
        self._armed = False
        self._count = 0
        self._fan_out: int | None = None

    def is_reached(self, issued: Issued) -> bool:
        """Whether the failpoint is before this command; counts the command."""
        self._armed = self._armed or (self._folder / _ARMED).exists()
        if not self._armed or not self._concerns(issued.command) or self._is_copy(issued):
            return False
        self._count += 1
        self._note(issued)
        return self._count == self._at

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
    """A name such as "set /brokers/topics/T/partitions/0/state". T replaces every topic of the run,
    and N the number of a request or of a deletion, which differs between runs."""
    path = "/".join("T" if one.startswith(prefix) else one for one in operation.path.split("/"))
    if path.startswith(_NUMBERED):
        path = re.sub(r"[0-9]+", "N", path)
    kind = type(operation).__name__
    verb = {"SetData": "set", "CreateSequential": "create"}.get(kind, kind.lower())
    return f"{verb} {path}"


def run(folder: str, prefix: str, at: int | None) -> None:
    """`refold` that counts commands, and dies before command `at`."""
    _run(_CountedCommands(Path(folder), prefix, at).is_reached)


def run_to_step(step: int) -> None:
    """`refold` that dies when it has completed this step of a rollback."""
    _run(lambda issued: _ends_step(issued.command, step))


def _ends_step(command: Command, step: int) -> bool:
    match command:
        case Notice(code="reassignment_rolled_back"):
            return True
        case Notice(code="rollback", text=text):
            return text.startswith(f"step {step + 1} of ")
    return False


def _run(is_reached: Callable[[Issued], bool]) -> None:
    carry_out = Daemon.carry_out
    is_dying = False

    def fails(daemon: Daemon, issued: Issued) -> None:
        nonlocal is_dying
        if is_dying:
            return
        is_dying = is_reached(issued)
        if is_dying:
            loop = asyncio.get_running_loop()
            loop.call_later(FLUSH_SECONDS, os.kill, os.getpid(), signal.SIGKILL)
        else:
            carry_out(daemon, issued)

    Daemon.carry_out = fails  # type: ignore[method-assign]
    sys.argv[0] = "refold"
    main()
