"""A shadow that watches ZooKeeper: its log before the first change, and without a connection."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from controller.zookeeper.observations import Observation, WatchLost, WatchResumed
from replay.agreement.live import LiveSettings
from replay.shadow.shadow import Shadow
from replay.shadow.status import ShadowStatus, read_status
from replay.stock_clusters.imports.following import FollowedImport, ImportStart
from replay.stock_clusters.imports.kafka_root import find_kafka
from tests.replay.cli.command import refold
from tests.replay.shadow.test_watched import (
    EPOCH_VERSION,
    FIRST,
    STATE,
    Session,
    gone,
    seen,
    state,
)

LOST_MS = 1_700_000_000_000
SINCE = "2023-11-14T22:13:20.000Z"


class WatchedCluster:
    """A shadow of a session, with a clock that moves only in `run`."""

    def __init__(self, folder: Path, first: Sequence[Observation] = FIRST) -> None:
        self.log, self.metrics = folder / "log", folder / "shadow.prom"
        self._session = Session(first)
        self._now = 100.0
        root = find_kafka(self._session.state.tree, (), None)
        begun = ImportStart(self._session.state, root, "zk:2181", Path())

        def begin(_after: int) -> FollowedImport:
            return FollowedImport(begun, self.log, watched=self._session.watched)

        self.shadow = Shadow(begin, LiveSettings(), lambda: self._now, self.metrics)

    def run(self, seconds: float, *observations: Observation) -> ShadowStatus:
        self._session.see(*observations)
        end = self._now + seconds
        while self._now < end:
            self.shadow.step()
            self._now += 0.5
        status = read_status(self.log)
        assert status is not None
        return status


@pytest.fixture
def cluster(tmp_path: Path) -> WatchedCluster:
    return WatchedCluster(tmp_path)


@pytest.mark.parametrize("command", ["health", "inspect", "why --unhealthy", "events"])
def test_log_is_readable_before_the_first_change(command: str, cluster: WatchedCluster) -> None:
    cluster.run(1)
    name, *options = command.split()
    result = refold(name, cluster.log, *options)
    cluster.shadow.abandon()
    assert result.returncode != 2, result.stderr
    assert result.stdout


def test_log_without_a_change_is_readable_after_the_end(cluster: WatchedCluster) -> None:
    cluster.run(1)
    cluster.shadow.end()
    result = refold("health", cluster.log)
    assert result.returncode != 2, result.stderr
    # The time at which the last znode was read.
    assert "1970-01-01T00:00:01.012" in result.stdout


def test_end_of_a_session_is_not_said_to_be_a_close_or_an_expiry(cluster: WatchedCluster) -> None:
    """Watches show that the znodes of the session are gone, and not why."""
    cluster.run(1, gone("/controller", 20), gone("/brokers/ids/1", 20))
    cluster.shadow.end()
    term = refold("why", cluster.log, "--term", "3").stdout
    assert "Z): its ZooKeeper session ended. " in " ".join(term.split())
    broker = refold("why", cluster.log, "--broker", "1").stdout
    assert "is gone, its ZooKeeper session ended" in " ".join(broker.split())
    for text in (term, broker):
        assert "expired" not in text
        assert "closed" not in text


def test_lost_connection_is_reported_at_once_with_the_time_up_to_which_the_cluster_is_known(
    cluster: WatchedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "replay")
    assert cluster.run(2).problem == ""
    caplog.clear()
    status = cluster.run(1, WatchLost("connection reset", LOST_MS))
    assert (status.connected, status.time) == (False, LOST_MS / 1000)
    assert status.problem == f"The shadow has had no connection to ZooKeeper since {SINCE}."
    [message] = caplog.messages
    assert message.startswith(f"no connection to ZooKeeper since {SINCE}; up to zxid 0xc: ")
    assert "refold_shadow_connected 0.0" in cluster.metrics.read_text()
    assert "refold_shadow_time 1.7e+09" in cluster.metrics.read_text()
    cluster.run(120)
    assert all(
        one.startswith(f"no connection to ZooKeeper since {SINCE}") for one in caplog.messages
    )
    cluster.shadow.abandon()


def test_resumed_connection_is_reported_at_once(
    cluster: WatchedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "replay")
    cluster.run(2, WatchLost("connection reset", LOST_MS))
    status = cluster.run(5, WatchResumed(), seen(STATE, state(2), 1, 20, 12))
    assert (status.connected, status.problem) == (True, "")
    assert status.time > LOST_MS / 1000
    assert caplog.messages[-1].startswith("up to zxid 0x14: ")
    cluster.shadow.abandon()


def test_summary_without_a_connection_is_incomplete(cluster: WatchedCluster) -> None:
    cluster.run(2, WatchLost("connection reset", LOST_MS))
    result = cluster.shadow.end()
    assert result.is_cut
    note = f"there was no connection to ZooKeeper after {SINCE}: later changes are unknown"
    assert note in result.notes


def kraft_term(zxid: int) -> list[Observation]:
    """A KRaft controller takes the role, and writes a state, which no broker would write."""
    kraft = b'{"version":2,"brokerid":3000,"kraftControllerEpoch":5}'
    return [
        seen("/controller", kraft, 0, zxid, zxid),
        seen("/controller_epoch", b"4", EPOCH_VERSION + 1, zxid, 4),
        seen(STATE, state(2, epoch=4), 1, zxid + 1, 12),
    ]


def test_decisions_of_a_kraft_controller_are_counted_and_do_not_differ(
    cluster: WatchedCluster,
) -> None:
    status = cluster.run(60, *kraft_term(20))
    result = cluster.shadow.end()
    [term] = result.kraft_terms
    assert (term.controller, term.epoch, term.kraft_epoch) == (3000, 4, 5)
    assert term.decisions == status.kraft_decisions == 2
    assert (result.decisions, result.divergences, result.unseen_decisions) == (0, [], 0)


def test_shadow_that_begins_in_a_term_of_a_kraft_controller_judges_no_decision_of_it(
    tmp_path: Path,
) -> None:
    *start, complete = FIRST
    cluster = WatchedCluster(tmp_path, [*start, *kraft_term(20), complete])
    status = cluster.run(60, seen(STATE, state(1, epoch=4), 2, 22, 12))
    result = cluster.shadow.end()
    [term] = result.kraft_terms
    assert (term.controller, term.epoch, term.decisions) == (3000, 4, 1)
    assert status.kraft_decisions == 1
    assert (result.decisions, result.warm, result.divergences) == (0, 0, [])
