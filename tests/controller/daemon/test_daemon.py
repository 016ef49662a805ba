"""The daemon's loop with peers in memory: storing before carrying out, and its ends."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.core.commands import Issued
from controller.core.znodes import CONTROLLER
from controller.daemon import appending
from controller.daemon.errors import DaemonError
from eventstore.errors import LogFull
from eventstore.records import CommandRecord
from tests.controller.core.cluster import DAEMON
from tests.controller.daemon.peers import (
    Closed,
    DaemonHarness,
    Done,
    Expired,
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
    harness = DaemonHarness(tmp_path / "log", 1, 2, 3)
    async with harness.running():
        await harness.until_controller()
        harness.create_topic("t", 1, 2, 3)
        await harness.until_led("t", 0, 1)
    stored = 0
    for one in harness.trace:
        if isinstance(one, Stored):
            stored = one.seq
        elif isinstance(one, Done):
            assert one.id.cause <= stored, one
    kinds = {one.kind for one in done(harness.trace)}
    assert {"WriteAtomically", "LeaderAndIsrRequest", "UpdateMetadataRequest"} <= kinds
    assert replayed(tmp_path / "log").unrecorded == 0


async def test_queued_events_are_stored_in_one_transaction(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1, 2, 3)
    async with harness.running():
        await harness.until_active()
        await harness.until_quiet()
        for number in range(20):
            harness.create_topic(f"t{number}", 1, 2, 3)
        await harness.until_led("t19", 0, 1)
    assert max(len(one.kinds) for one in harness.trace if isinstance(one, Stored)) >= 20
    assert replayed(tmp_path / "log").unrecorded == 0


async def test_commands_are_stored_without_a_following_event(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1)
    async with harness.running():
        await harness.until_controller()

        def is_complete() -> bool:
            result = replayed(tmp_path / "log")
            return result.commands > 0 and result.unrecorded == 0

        await harness.until(is_complete, "every command is in the log")


# The end of the session


def expired_at(trace: Trace) -> int:
    """The number of the event that ended the first session."""
    stored = next(
        one for one in trace if isinstance(one, Stored) and "session_expired" in one.kinds
    )
    return stored.seq - len(stored.kinds) + 1 + stored.kinds.index("session_expired")


def during_answer(harness: DaemonHarness, number: int) -> None:
    """The session ends in the same turn in which the n-th ZooKeeper command is answered."""
    left = number

    def count(command: object) -> None:
        nonlocal left
        if left == 0:
            asyncio.get_running_loop().call_soon(harness.zookeeper.expire)
        left -= 1

    harness.zookeeper.before_answer = count


def during_append(harness: DaemonHarness, number: int) -> None:
    """The session ends while the n-th batch of events is being stored."""
    left, loop = number, asyncio.get_running_loop()

    def count() -> None:
        nonlocal left
        if left == 0:
            over = threading.Event()

            def expire() -> None:
                harness.zookeeper.expire()
                over.set()

            loop.call_soon_threadsafe(expire)
            over.wait()
        left -= 1

    harness.log.before_append = count


@pytest.mark.sampled
@pytest.mark.parametrize("end", [during_answer, during_append])
async def test_after_the_end_of_the_session_no_command_of_its_term_is_carried_out(
    tmp_path: Path, end: Callable[[DaemonHarness, int], None]
) -> None:
    """At any moment. Commands that the fold issues before it processes the end are dropped."""
    tried = 0
    while await session_ends_at(tmp_path / f"{tried}", tried, end):
        tried += 1
    assert tried > 12


async def session_ends_at(
    folder: Path, number: int, end: Callable[[DaemonHarness, int], None]
) -> bool:
    """One run. False if the run has no n-th moment."""
    harness = DaemonHarness(folder, 1, 2, 3)
    end(harness, number)
    async with harness.running():
        await harness.until_controller()
        harness.create_topic("t", 1, 2, 3)
        await harness.until_led("t", 0, 1)
        await harness.until_quiet()
        if Expired() not in harness.trace:
            return False
        await harness.until_controller()
        await harness.until(harness.has_expired, "the session ended")
    last, over = expired_at(harness.trace), harness.trace.index(Expired())
    late = [one for one in done(harness.trace[over:]) if one.id.cause <= last]
    assert late == [], f"session ended at {number}"
    replayed(folder)
    return True


# Ends of the daemon


async def test_shutdown_hands_the_role_back_first(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1, 2, 3)
    async with harness.running():
        await harness.until_controller()
        epoch = harness.others.epoch()
    *_, last = done(harness.trace)
    assert last.kind == "WriteZnodes"
    assert harness.trace.index(last) < harness.trace.index(Closed("session"))
    assert harness.others.controller() is None
    assert harness.others.epoch() == epoch
    assert harness.channels.standing == set()
    assert replayed(tmp_path / "log").unrecorded == 0


async def test_shutdown_of_a_standby_does_not_change_the_controller(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1)
    harness.others.take_role(OTHER)
    async with harness.running():
        await harness.until_quiet()
    assert harness.others.controller() == OTHER
    assert not {one.kind for one in done(harness.trace)} & {"WriteZnodes", "WriteAtomically"}


async def test_persistent_controller_znode_ends_the_daemon_with_the_reason(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1, take_over=True)
    harness.others.put(CONTROLLER, b'{"version":2,"brokerid":3000,"kraftControllerEpoch":5}')
    assert "/controller: it is persistent" in await harness.run()
    assert Closed("session") in harness.trace
    assert replayed(tmp_path / "log").unrecorded == 0


@pytest.mark.parametrize("work", ["before_append", "before_roll"])
async def test_failed_log_resigns_the_role(tmp_path: Path, work: str) -> None:
    harness = DaemonHarness(tmp_path / "log", 1, 2, 3)

    def fail() -> None:
        raise LogFull(tmp_path / "log", "the disk is full")

    async def fill() -> None:
        await harness.until_active()
        await harness.until_quiet()
        setattr(harness.log, work, fail)
        harness.create_topic("t", 1, 2, 3)

    before = asyncio.create_task(fill())
    with pytest.raises(DaemonError, match=r"role was given up: .*log: the disk is full"):
        await harness.run()
    await before
    assert_resigned(harness)
    # Every carried out command has its cause in the log.
    replayed(tmp_path / "log")


@pytest.mark.parametrize("work", ["before_append", "before_roll"])
async def test_hanging_log_resigns_the_role(tmp_path: Path, work: str) -> None:
    harness = DaemonHarness(tmp_path / "log", 1, 2, 3, session_timeout_ms=600)
    goes_on = threading.Event()

    async def hang() -> None:
        await harness.until_active()
        await harness.until_quiet()
        setattr(harness.log, work, goes_on.wait)
        harness.create_topic("t", 1, 2, 3)

    before = asyncio.create_task(hang())
    try:
        with pytest.raises(
            DaemonError, match=r"took more than 0\.2 s, so the controller role was given up"
        ):
            await harness.daemon_alone()
        await before
        assert_resigned(harness)
    finally:
        goes_on.set()
        harness.log.abandon()


async def test_daemon_paused_during_an_append_keeps_the_role(tmp_path: Path) -> None:
    """The whole process was paused; the disk is not at fault."""
    harness = DaemonHarness(tmp_path / "log", 1, 2, 3, session_timeout_ms=600)
    stored = threading.Event()
    loop = asyncio.get_running_loop()

    def pause() -> None:
        harness.log.before_append = lambda: None
        loop.call_soon_threadsafe(time.sleep, 0.6)
        time.sleep(0.65)  # The writer thread is paused, too.
        stored.set()

    async with harness.running():
        await harness.until_active()
        await harness.until_quiet()
        harness.log.before_append = pause
        harness.create_topic("t", 1, 2, 3)
        await asyncio.to_thread(stored.wait)
        await harness.until_quiet()
    assert replayed(tmp_path / "log").unrecorded == 0


async def test_slow_encoding_is_not_taken_for_a_slow_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append may take 0.2 s. The records of a large failover take longer to encode."""
    harness = DaemonHarness(tmp_path / "log", 1, 2, 3, session_timeout_ms=600)
    encode = appending.command_record
    encoded = threading.Event()

    def encode_slowly(issued: Issued) -> CommandRecord:
        if not encoded.is_set():
            time.sleep(0.5)  # Longer than an append may take.
            encoded.set()
        return encode(issued)

    async with harness.running():
        await harness.until_active()
        await harness.until_quiet()
        monkeypatch.setattr(appending, "command_record", encode_slowly)
        harness.create_topic("t", 1, 2, 3)
        await harness.until_led("t", 0, 1)
        await asyncio.to_thread(encoded.wait)
        await harness.until_quiet()
    assert replayed(tmp_path / "log").unrecorded == 0


def assert_resigned(harness: DaemonHarness) -> None:
    """No command was carried out without its stored cause, and the role is free at once."""
    assert isinstance(harness.trace[-1], Closed)
    assert harness.others.controller() is None
    assert harness.channels.standing == set()
    stored = [one.seq for one in harness.trace if isinstance(one, Stored)]
    assert max(one.id.cause for one in done(harness.trace)) <= stored[-1]


async def test_fault_of_the_connection_ends_the_daemon(tmp_path: Path) -> None:
    """Channels and session are closed."""
    harness = DaemonHarness(tmp_path / "log", 1)

    def fail(command: object) -> None:
        harness.zookeeper.fail(RuntimeError("a fault"))

    harness.zookeeper.before_answer = fail
    with pytest.raises(ExceptionGroup) as raised:
        await harness.run()
    assert raised.group_contains(RuntimeError, match="a fault")
    assert {Closed("session"), Closed("channels")} <= set(harness.closed())


async def test_standby_takes_a_role_that_becomes_free(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1, 2)
    holder = harness.others.take_role(OTHER)
    async with harness.running():
        await harness.until_quiet()
        assert harness.others.controller() == OTHER
        harness.others.leave_role(holder)
        harness.zookeeper.report_changes()
        await harness.until_controller()
        assert harness.others.controller() == DAEMON
    assert replayed(tmp_path / "log").unrecorded == 0
