"""The status of the daemon during a run among peers in memory."""

import threading
import time
from pathlib import Path

import pytest

from controller.core.events import Recorded, SessionConnected, TimerFired, WatchFired
from controller.core.znodes import state_path
from controller.daemon.status import RunningParts, StatusSource
from controller.operator.daemon_status import DaemonStatus, StandbyStatus
from controller.zookeeper.connection import ConnectionStatus
from replay.logs.recorded_fold import fold_event
from tests.controller.core.cluster import DAEMON
from tests.controller.daemon.peers import DaemonHarness

OTHER = 1


class ObservedStatus:
    """A harness and the source of its status. `session` is what the connection says."""

    def __init__(self, harness: DaemonHarness, fold: object) -> None:
        self.session = ConnectionStatus(-2, True, "zk:2181", 6000, 12, "an old fault")
        self.source = StatusSource(DAEMON, "zk:2181/kafka")
        self.others: list[StandbyStatus] | None = []
        self.fault = ""
        daemon = harness.daemon
        self.source.parts = RunningParts(
            fold,  # type: ignore[arg-type]
            harness.inbox,
            daemon.progress,
            harness.log,
            lambda: self.session,
            self,
        )

    @property
    def now(self) -> DaemonStatus:
        """The status now."""
        return self.source.status()


def observed(harness: DaemonHarness) -> ObservedStatus:
    return ObservedStatus(harness, harness.fold)


def test_daemon_that_does_not_run_yet_waits_for_zookeeper() -> None:
    found = StatusSource(DAEMON, "zk:2181/kafka").status()
    assert (found.role, found.term, found.log) == ("waiting for ZooKeeper", 0, None)
    assert found.broker_id == DAEMON


def test_step_of_the_start_is_the_role_of_a_daemon_without_a_log() -> None:
    source = StatusSource(DAEMON, "zk:2181/kafka")
    source.role_at_start = "waiting for the end of its previous session"
    found = source.status()
    assert (found.role, found.log) == ("waiting for the end of its previous session", None)


async def test_active_daemon_shows_term_log_and_last_decision(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1, 2, 3)
    status = observed(harness)
    async with harness.running():
        await harness.until_active()
        await harness.until_quiet()
        harness.create_topic("t", 1, 2, 3)
        await harness.until_led("t", 0, 1)
        await harness.until_quiet()
        found = status.now
        size = sum(one.stat().st_size for one in (tmp_path / "log").glob("*.refold*"))
    assert (found.role, found.term) == ("active", harness.others.epoch())
    assert found.term_since is not None
    assert found.started <= found.term_since <= found.time
    assert found.log is not None
    assert found.log.events == found.last_event.seq if found.last_event else 0
    assert found.log.folder == str(tmp_path / "log")
    assert 0 < found.log.bytes <= size
    assert found.last_decision is not None
    assert (found.last_decision.kind, found.last_decision.target) == ("update_metadata", "broker 3")
    assert (found.last_decision.rule, found.last_decision.term) == ("new partitions", found.term)
    assert (found.queue.waiting, found.queue.inbox, found.event_lag_ms) == (0, 0, 0)


async def test_standby_decides_nothing_and_says_so(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1)
    status = observed(harness)
    harness.others.take_role(OTHER)
    async with harness.running():
        await harness.until_quiet()
        found = status.now
    assert (found.role, found.term, found.term_since) == ("standby", 0, None)
    assert found.last_decision is None
    assert found.last_event is not None


async def test_failover_in_progress_is_shown_with_its_procedure(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1)
    status = observed(harness)
    seen: dict[str, list[str]] = {}

    def note(command: object) -> None:
        seen.setdefault(status.now.role, status.now.queue.running)

    harness.zookeeper.before_answer = note
    async with harness.running():
        await harness.until_active()
        await harness.until_quiet()
    assert seen["failing over"] == ["Startup"]


async def test_role_ends_with_the_session(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1)
    status = observed(harness)
    async with harness.running():
        await harness.until_active()
        await harness.until_quiet()
        first = status.now
        harness.zookeeper.expire()
        await harness.until(lambda: status.now.term > first.term, "the next term")
        second = status.now
    assert first.term_since is not None
    assert second.term_since is not None
    assert first.last_term is None
    last = second.last_term
    assert last is not None
    assert (last.term, last.why) == (first.term, "the ZooKeeper session is over")
    assert first.term_since <= last.time <= second.term_since


async def test_silence_before_the_end_of_a_session_is_shown(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1)
    status = observed(harness)
    async with harness.running():
        await harness.until_active()
        await harness.until_quiet()
        term = status.now.term
        harness.zookeeper.silent_ms_at_end = 58_940
        harness.zookeeper.expire()
        await harness.until(lambda: status.now.last_term is not None, "the end of the term")
        last = status.now.last_term
    assert last is not None
    assert (last.term, last.silent_s) == (term, 58.9)


async def test_events_that_are_not_stored_yet_are_the_lag(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1, 2, 3)
    status = observed(harness)
    stores, goes_on = threading.Event(), threading.Event()

    def hang() -> None:
        stores.set()
        goes_on.wait()

    async with harness.running():
        await harness.until_active()
        await harness.until_quiet()
        harness.log.before_append = hang
        harness.inbox.put(TimerFired("none"), "timer")
        await harness.until(stores.is_set, "the log hangs")
        began = time.monotonic()
        harness.inbox.put(TimerFired("another"), "timer")
        await harness.until(lambda: time.monotonic() - began > 0.05, "50 ms pass")
        found = status.now
        harness.log.before_append = lambda: None
        goes_on.set()
        await harness.until(lambda: status.now.event_lag_ms == 0, "the daemon has caught up")
        after = status.now
    assert found.event_lag_ms >= 50
    assert found.queue.inbox == 1
    assert after.last_event is not None
    assert after.last_event.kind == "timer_fired"


async def test_long_queue_is_counted_and_its_beginning_shown(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1)
    status = observed(harness)
    changed = [WatchFired(state_path("t", number), "data", -1) for number in range(40)]
    for event in (SessionConnected(1, 6000, "zk:2181", renewed=False), *changed):
        fold_event(harness.fold, Recorded(1, 0, 0, 0, "session", event))
    with harness.log:
        found = status.now
    assert found.queue.waiting == 40
    assert len(found.queue.next) == 10


@pytest.mark.parametrize("is_connected", [True, False])
async def test_session_is_shown_as_zookeeper_prints_it(tmp_path: Path, is_connected: bool) -> None:
    harness = DaemonHarness(tmp_path / "log", 1)
    status = observed(harness)
    status.session = status.session._replace(is_connected=is_connected)
    with harness.log:
        found = status.now.zookeeper
    assert found is not None
    assert found.session == "0xfffffffffffffffe"
    assert found.fault == ("" if is_connected else "an old fault")
    assert (found.is_connected, found.heard_ms) == (is_connected, 12)
    assert found.connect == "zk:2181/kafka"


async def test_only_the_active_daemon_shows_standbys(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path / "log", 1)
    status = observed(harness)
    other = StandbyStatus("host-2", 815, DAEMON, "0.1.0", "ab12", "2026-11-21T20:00:03.000Z")
    status.others = [other]
    assert status.now.standbys is None
    async with harness.running():
        await harness.until(lambda: status.now.standbys == [other], "the standby is shown")


@pytest.mark.parametrize("is_standby", [False, True])
async def test_active_daemon_says_why_its_standbys_are_not_known(
    tmp_path: Path, is_standby: bool
) -> None:
    harness = DaemonHarness(tmp_path / "log", 1, standby=is_standby)
    status = observed(harness)
    status.others, status.fault = None, "no connection to zk1:2181: refused"
    async with harness.running():
        await harness.until_controller()
        found = status.now
    assert (found.standbys, found.is_standby) == (None, is_standby)
    assert found.standbys_fault == "no connection to zk1:2181: refused"
