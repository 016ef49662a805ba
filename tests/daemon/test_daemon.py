"""The daemon's loop among peers in memory: what is stored before what is done, and its ends."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest

from controller.core.commands import (
    CancelTimer,
    Command,
    CommandId,
    Issued,
    Reason,
    StartTimer,
    Stop,
)
from controller.core.configuration import Configuration
from controller.core.events import Event, Recorded, ShutdownRequested, TimerFired
from controller.core.znodes import CONTROLLER
from controller.errors import DaemonError
from eventstore.errors import LogFull
from eventstore.reader import LogReader
from eventstore.verify import verify
from replay.recorded import UPCASTERS
from replay.verify.verification import verify_decisions
from tests.core.cluster import DAEMON
from tests.daemon.peers import Closed, Done, Expired, Stage, Stored, Trace

OTHER = 1


def done_after(trace: Trace, kind: type[Expired] | type[Closed]) -> list[Done]:
    """What was done after the first entry of that kind."""
    first = next(at for at, one in enumerate(trace) if isinstance(one, kind))
    return [one for one in trace[first:] if isinstance(one, Done)]


def assert_agrees(folder: Path) -> None:
    """The log of a run agrees in a replay, with nothing left out."""
    with LogReader.open(folder, UPCASTERS) as reader:
        result = verify_decisions(reader, lambda events: None)
    assert (result.mismatched, result.unrecorded) == (0, 0), result.mismatches
    assert result.commands > 0


# Stored before done


async def test_nothing_is_done_before_its_cause_is_stored(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1, 2, 3)
    async with stage.running():
        await stage.until_controller()
        stage.create_topic("t", 1, 2, 3)
        await stage.until_led("t", 0, 1)
    stored = 0
    for one in stage.trace:
        if isinstance(one, Stored):
            stored = one.seq
        elif isinstance(one, Done):
            assert one.id.cause <= stored, one
    kinds = {one.kind for one in stage.trace if isinstance(one, Done)}
    assert {"WriteAtomically", "LeaderAndIsrRequest", "UpdateMetadataRequest"} <= kinds
    assert_agrees(tmp_path / "log")


async def test_what_waits_in_the_inbox_is_stored_together(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1, 2, 3)
    with threads_held(stage) as free:
        async with stage.running():
            await stage.until_controller()
            held = free.hold()
            for number in range(20):
                stage.create_topic(f"t{number}", 1, 2, 3)
            held.set()
            await stage.until_led("t19", 0, 1)
    together = [len(one.kinds) for one in stage.trace if isinstance(one, Stored)]
    assert max(together) >= 20
    assert_agrees(tmp_path / "log")


async def test_commands_are_written_though_no_event_follows(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1)
    async with stage.running():
        await stage.until_controller()

        def is_complete() -> bool:
            with LogReader.open(tmp_path / "log", UPCASTERS) as reader:
                result = verify_decisions(reader, lambda events: None)
            return result.commands > 0 and result.unrecorded == 0

        await stage.until(is_complete, "every command is in the log")


# The gate


async def test_after_the_session_nothing_of_its_term_goes_out(tmp_path: Path) -> None:
    """The session ends together with the answer to the n-th command, for every n: what the fold
    still decides on that answer, in ignorance of the end, stays inside."""
    commands = 1
    tried = 0
    while tried < commands:
        stage = Stage(tmp_path / f"log-{tried}", 1, 2, 3)
        ExpiresAt(stage, tried)
        async with stage.running():
            await stage.until(lambda stage=stage: Expired() in stage.trace, "it has expired")
            await stage.until_controller()
            stage.create_topic("t", 1, 2, 3)
            await stage.until_led("t", 0, 1)
        if not tried:
            commands = sum(one.kind in ZOOKEEPER for one in stage.trace if isinstance(one, Done))
        end = expired_at(stage.trace)
        assert [one for one in done_after(stage.trace, Expired) if one.id.cause <= end] == []
        assert_agrees(tmp_path / f"log-{tried}")
        tried += 1
    assert tried > 10


ZOOKEEPER = {"ReadZnodes", "ReadStats", "ReadChildren", "WriteZnodes", "WriteAtomically"}


class ExpiresAt:
    """Ends the session when the n-th command has been carried out, before its outcome is seen."""

    def __init__(self, stage: Stage, number: int) -> None:
        self._stage = stage
        self._left = number
        stage.zookeeper.before_answer = self._count

    def _count(self, command: object) -> None:
        if self._left == 0:
            # In the same turn as the answer, so that both are in one batch.
            anyio.lowlevel.current_token()
            asyncio_soon(self._stage.zookeeper.expire)
        self._left -= 1
