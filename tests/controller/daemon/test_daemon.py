"""The daemon's loop with peers in memory: storing before carrying out, and its ends."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.core.znodes import CONTROLLER
from controller.daemon.errors import DaemonError
from eventstore.errors import LogFull
from tests.controller.core.cluster import DAEMON
from tests.controller.daemon.peers import (
    Closed,
    Done,
    Expired,
    Stage,
    Stored,
    Trace,
    replayed,
)

OTHER = 1


def done(trace: Trace) -> list[Done]:
    """The commands that the daemon has carried out."""
    return [one for one in trace if isinstance(one, Done)]


# Storing before carrying out


async def test_commands_are_carried_out_after_their_cause_is_stored(tmp_path: Path) -> None:
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
    kinds = {one.kind for one in done(stage.trace)}
    assert {"WriteAtomically", "LeaderAndIsrRequest", "UpdateMetadataRequest"} <= kinds
    assert replayed(tmp_path / "log").unrecorded == 0


async def test_queued_events_are_stored_in_one_transaction(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1, 2, 3)
    async with stage.running():
        await stage.until_controller()
        await stage.until_quiet()
        for number in range(20):
            stage.create_topic(f"t{number}", 1, 2, 3)
        await stage.until_led("t19", 0, 1)
    assert max(len(one.kinds) for one in stage.trace if isinstance(one, Stored)) >= 20
    assert replayed(tmp_path / "log").unrecorded == 0


async def test_commands_are_stored_without_a_following_event(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1)
    async with stage.running():
        await stage.until_controller()

        def is_complete() -> bool:
            result = replayed(tmp_path / "log")
            return result.commands > 0 and result.unrecorded == 0

        await stage.until(is_complete, "every command is in the log")


# The end of the session


def expired_at(trace: Trace) -> int:
    """The number of the event that ended the first session."""
    stored = next(
        one for one in trace if isinstance(one, Stored) and "session_expired" in one.kinds
    )
    return stored.seq - len(stored.kinds) + 1 + stored.kinds.index("session_expired")


def during_answer(stage: Stage, number: int) -> None:
    """The session ends in the same turn in which the n-th ZooKeeper command is answered."""
    left = number

    def count(command: object) -> None:
        nonlocal left
        if left == 0:
            asyncio.get_running_loop().call_soon(stage.zookeeper.expire)
        left -= 1

    stage.zookeeper.before_answer = count


def during_append(stage: Stage, number: int) -> None:
    """The session ends while the n-th batch of events is being stored."""
    left, loop = number, asyncio.get_running_loop()

    def count() -> None:
        nonlocal left
        if left == 0:
            over = threading.Event()

            def expire() -> None:
                stage.zookeeper.expire()
                over.set()

            loop.call_soon_threadsafe(expire)
            over.wait()
        left -= 1

    stage.log.before_append = count


@pytest.mark.parametrize("end", [during_answer, during_append])
async def test_after_the_end_of_the_session_no_command_of_its_term_is_carried_out(
    tmp_path: Path, end: Callable[[Stage, int], None]
) -> None:
    """At any moment. Commands that the fold issues before it processes the end are dropped."""
    tried = 0
    while await session_ends_at(tmp_path / f"{tried}", tried, end):
        tried += 1
    assert tried > 12


async def session_ends_at(folder: Path, number: int, end: Callable[[Stage, int], None]) -> bool:
    """One run. False if the run has no n-th moment."""
    stage = Stage(folder, 1, 2, 3)
    end(stage, number)
    async with stage.running():
        await stage.until_controller()
        stage.create_topic("t", 1, 2, 3)
        await stage.until_led("t", 0, 1)
        await stage.until_quiet()
        if Expired() not in stage.trace:
            return False
        await stage.until_controller()
        await stage.until(stage.has_expired, "the session ended")
    last, over = expired_at(stage.trace), stage.trace.index(Expired())
    late = [one for one in done(stage.trace[over:]) if one.id.cause <= last]
    assert late == [], f"session ended at {number}"
    replayed(folder)
    return True


# Ends of the daemon


async def test_shutdown_hands_the_role_back_first(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1, 2, 3)
    async with stage.running():
        await stage.until_controller()
        epoch = stage.others.epoch()
    *_, last = done(stage.trace)
    assert last.kind == "WriteZnodes"
    assert stage.trace.index(last) < stage.trace.index(Closed("session"))
    assert stage.others.controller() is None
    assert stage.others.epoch() == epoch
    assert stage.channels.standing == set()
    assert replayed(tmp_path / "log").unrecorded == 0


async def test_shutdown_of_a_standby_does_not_change_the_controller(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1)
    stage.others.take_role(OTHER)
    async with stage.running():
        await stage.until_quiet()
    assert stage.others.controller() == OTHER
    assert not {one.kind for one in done(stage.trace)} & {"WriteZnodes", "WriteAtomically"}


async def test_persistent_controller_znode_ends_the_daemon_with_the_reason(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1, take_over=True)
    stage.others.put(CONTROLLER, b'{"version":2,"brokerid":3000,"kraftControllerEpoch":5}')
    assert "/controller: it is persistent" in await stage.run()
    assert Closed("session") in stage.trace
    assert replayed(tmp_path / "log").unrecorded == 0


@pytest.mark.parametrize("work", ["before_append", "before_roll"])
async def test_failed_log_resigns_the_role(tmp_path: Path, work: str) -> None:
    stage = Stage(tmp_path / "log", 1, 2, 3)

    def fail() -> None:
        raise LogFull(tmp_path / "log", "the disk is full")

    async def fill() -> None:
        await stage.until_controller()
        await stage.until_quiet()
        setattr(stage.log, work, fail)
        stage.create_topic("t", 1, 2, 3)

    before = asyncio.create_task(fill())
    with pytest.raises(DaemonError, match=r"role was given up: .*log: the disk is full"):
        await stage.run()
    await before
    assert_resigned(stage)
    # Every carried out command has its cause in the log.
    replayed(tmp_path / "log")


@pytest.mark.parametrize("work", ["before_append", "before_roll"])
async def test_hanging_log_resigns_the_role(tmp_path: Path, work: str) -> None:
    stage = Stage(tmp_path / "log", 1, 2, 3, session_timeout_ms=600)
    goes_on = threading.Event()

    async def hang() -> None:
        await stage.until_controller()
        await stage.until_quiet()
        setattr(stage.log, work, goes_on.wait)
        stage.create_topic("t", 1, 2, 3)

    before = asyncio.create_task(hang())
    try:
        with pytest.raises(
            DaemonError, match=r"took more than 0\.2 s, so the controller role was given up"
        ):
            await stage.daemon_alone()
        await before
        assert_resigned(stage)
    finally:
        goes_on.set()
        stage.log.abandon()


async def test_daemon_paused_during_an_append_keeps_the_role(tmp_path: Path) -> None:
    """The whole process was paused; the disk is not at fault."""
    stage = Stage(tmp_path / "log", 1, 2, 3, session_timeout_ms=600)
    stored = threading.Event()
    loop = asyncio.get_running_loop()

    def pause() -> None:
        stage.log.before_append = lambda: None
        loop.call_soon_threadsafe(time.sleep, 0.6)
        time.sleep(0.65)
        stored.set()

    async with stage.running():
        await stage.until_controller()
        await stage.until_quiet()
        stage.log.before_append = pause
        stage.create_topic("t", 1, 2, 3)
        await asyncio.to_thread(stored.wait)
        await stage.until_quiet()
    assert replayed(tmp_path / "log").unrecorded == 0


def assert_resigned(stage: Stage) -> None:
    """No command was carried out without its stored cause, and the role is free at once."""
    assert isinstance(stage.trace[-1], Closed)
    assert stage.others.controller() is None
    assert stage.channels.standing == set()
    stored = [one.seq for one in stage.trace if isinstance(one, Stored)]
    assert max(one.id.cause for one in done(stage.trace)) <= stored[-1]


async def test_fault_of_the_connection_ends_the_daemon(tmp_path: Path) -> None:
    """Channels and session are closed."""
    stage = Stage(tmp_path / "log", 1)

    def fail(command: object) -> None:
        stage.zookeeper.fail(RuntimeError("a fault"))

    stage.zookeeper.before_answer = fail
    with pytest.raises(ExceptionGroup) as raised:
        await stage.run()
    assert raised.group_contains(RuntimeError, match="a fault")
    assert {Closed("session"), Closed("channels")} <= set(stage.closed())


async def test_standby_takes_a_role_that_becomes_free(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1, 2)
    holder = stage.others.take_role(OTHER)
    async with stage.running():
        await stage.until_quiet()
        assert stage.others.controller() == OTHER
        stage.others.leave_role(holder)
        stage.zookeeper.report_changes()
        await stage.until_controller()
        assert stage.others.controller() == DAEMON
    assert replayed(tmp_path / "log").unrecorded == 0
