"""The daemon's loop among peers in memory: what is stored before what is done, and its ends."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.core.znodes import CONTROLLER
from controller.daemon.errors import DaemonError
from eventstore.errors import LogFull
from eventstore.reader import LogReader
from replay.logs.decode import UPCASTERS
from replay.verify.verification import Verification, verify_decisions
from tests.controller.core.cluster import DAEMON
from tests.controller.daemon.peers import Closed, Done, Expired, Stage, Stored, Trace

OTHER = 1


def done(trace: Trace) -> list[Done]:
    """What left the daemon."""
    return [one for one in trace if isinstance(one, Done)]


def replayed(folder: Path) -> Verification:
    """The verdict on the log, which must agree."""
    with LogReader.open(folder, UPCASTERS) as reader:
        result = verify_decisions(reader)
    assert result.mismatched == 0, result.mismatches
    return result


# Stored before done


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


async def test_commands_are_written_though_no_event_follows(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1)
    async with stage.running():
        await stage.until_controller()

        def is_complete() -> bool:
            result = replayed(tmp_path / "log")
            return result.commands > 0 and result.unrecorded == 0

        await stage.until(is_complete, "every command is in the log")


# The gate


def expired_at(trace: Trace) -> int:
    """The number of the event by which the first session ended."""
    stored = next(
        one for one in trace if isinstance(one, Stored) and "session_expired" in one.kinds
    )
    return stored.seq - len(stored.kinds) + 1 + stored.kinds.index("session_expired")


def with_its_answer(stage: Stage, number: int) -> None:
    """The session ends in the same turn as the n-th command of ZooKeeper is answered."""
    left = number

    def count(command: object) -> None:
        nonlocal left
        if left == 0:
            asyncio.get_running_loop().call_soon(stage.zookeeper.expire)
        left -= 1

    stage.zookeeper.before_answer = count


def while_it_is_stored(stage: Stage, number: int) -> None:
    """The session ends while the n-th batch of events is on its way to the disk."""
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


@pytest.mark.parametrize("end", [with_its_answer, while_it_is_stored])
async def test_after_the_session_nothing_of_its_term_goes_out(
    tmp_path: Path, end: Callable[[Stage, int], None]
) -> None:
    """Whenever it ends: what the fold still decides in ignorance of that stays inside."""
    tried = 0
    while await ends_and_begins_again(tmp_path / f"{tried}", tried, end):
        tried += 1
    assert tried > 12


async def ends_and_begins_again(
    folder: Path, number: int, end: Callable[[Stage, int], None]
) -> bool:
    """One such run. False where nothing is left that could be the n-th."""
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


# Ends


async def test_shutting_down_hands_the_role_back_first(tmp_path: Path) -> None:
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


async def test_shutting_down_while_another_is_controller(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1)
    stage.others.take_role(OTHER)
    async with stage.running():
        await stage.until_quiet()
    assert stage.others.controller() == OTHER
    assert not {one.kind for one in done(stage.trace)} & {"WriteZnodes", "WriteAtomically"}


async def test_a_persistent_controller_ends_it_with_the_reason(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1, take_over=True)
    stage.others.put(CONTROLLER, b'{"version":2,"brokerid":3000,"kraftControllerEpoch":5}')
    assert "/controller: it is persistent" in await stage.run()
    assert Closed("session") in stage.trace
    assert replayed(tmp_path / "log").unrecorded == 0


@pytest.mark.parametrize("work", ["before_append", "before_roll"])
async def test_a_log_that_fails_gives_the_role_up(tmp_path: Path, work: str) -> None:
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
    assert_silent_and_free(stage)
    # All that was done stands in the log.
    replayed(tmp_path / "log")


@pytest.mark.parametrize("work", ["before_append", "before_roll"])
async def test_a_log_that_hangs_gives_the_role_up(tmp_path: Path, work: str) -> None:
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
        assert_silent_and_free(stage)
    finally:
        goes_on.set()
        stage.log.abandon()


async def test_a_daemon_that_was_held_up_does_not_blame_the_disk(tmp_path: Path) -> None:
    """The machine was paused while something was stored."""
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


def assert_silent_and_free(stage: Stage) -> None:
    """Nothing was done on what could not be stored, and nobody waits for the session's end."""
    assert isinstance(stage.trace[-1], Closed)
    assert stage.others.controller() is None
    assert stage.channels.standing == set()
    stored = [one.seq for one in stage.trace if isinstance(one, Stored)]
    assert max(one.id.cause for one in done(stage.trace)) <= stored[-1]


async def test_a_fault_of_the_connection_ends_it(tmp_path: Path) -> None:
    """Whatever goes wrong: channels and session are closed."""
    stage = Stage(tmp_path / "log", 1)

    def fail(command: object) -> None:
        stage.zookeeper.fail(RuntimeError("a fault"))

    stage.zookeeper.before_answer = fail
    with pytest.raises(ExceptionGroup) as raised:
        await stage.run()
    assert raised.group_contains(RuntimeError, match="a fault")
    assert {Closed("session"), Closed("channels")} <= set(stage.closed())


async def test_a_standby_takes_a_role_that_becomes_free(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "log", 1, 2)
    holder = stage.others.take_role(OTHER)
    async with stage.running():
        await stage.until_quiet()
        assert stage.others.controller() == OTHER
        stage.others.leave_role(holder)
        stage.zookeeper.tell_changes()
        await stage.until_controller()
        assert stage.others.controller() == DAEMON
    assert replayed(tmp_path / "log").unrecorded == 0
